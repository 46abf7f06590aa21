"""SUBLEQ as text: labels, instructions and data, one statement a line.

    @start:
    subleq @x @IN         ; x -= input, go on to the next instruction
    subleq @OUT @x @next  ; write -x, go to @next if that is at most 0
    @x: .data 0

An operand is a number, a label or a label plus or minus a number; `@x:` before it names its address, so that
`subleq @x:@x @IN` is an instruction whose first word is a variable. Without a third operand it goes on to the
next address. Memory after a program is 0, so a program may leave out zeros at its end: `.size 2` says that of what is
written, only the first two words belong to it.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from emcts.envs.subleq.dialect import Dialect

_TOKEN = re.compile(r"(?P<label>@[A-Za-z_]\w*)|(?P<number>[+-]?[0-9]+)|(?P<name>\.?[A-Za-z]+)|(?P<colon>:)")
_SPACE = re.compile(r"[\s,]+")


class AssemblyError(ValueError):
    """Text that is not a program, with the line and column of the error."""

    def __init__(self, message: str, line: int, column: int) -> None:
        super().__init__(f"line {line}, column {column}: {message}")
        self.line = line
        self.column = column


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    line: int
    column: int

    def error(self, message: str) -> AssemblyError:
        return AssemblyError(message, self.line, self.column)


@dataclass(frozen=True)
class _Operand:
    """One word of the program: the value of a label, if there is one, plus a number."""

    label: _Token | None
    number: int
    token: _Token


@dataclass(frozen=True)
class _Size:
    """A statement of the number of words."""

    number: int
    token: _Token


def assemble(text: str, word_size: int = 16) -> list[int]:
    """The words of a program. Text that is not a program raises an `AssemblyError`, which is a ValueError."""
    dialect = Dialect(word_size)
    addresses = {"@IN": dialect.in_address, "@OUT": dialect.out_address, "@HALT": dialect.halt_address}
    operands: list[_Operand] = []
    sizes: list[_Size] = []
    for number, line in enumerate(text.splitlines(), start=1):
        _Line(line, number, dialect).read(operands, addresses, sizes)
    words = [_word(operand, addresses, dialect) for operand in operands]
    return words[: _size(words, sizes)]


def disassemble(words: Iterable[object], word_size: int = 16) -> str:
    """Text that `assemble` turns back into the same words.

    Each three words from word 0 on are shown as an instruction; so words that a program uses as data, or jumps into the
    middle of, are shown as instructions too. One or two words at the end are an instruction if the program gets there
    by itself, as the memory after them is 0, and data otherwise.
    """
    dialect = Dialect(word_size)
    program = dialect.program(words)
    whole = len(program) - len(program) % 3
    padded = (*program, *[0] * (-len(program) % 3))
    if len(padded) <= dialect.writable_words and whole in _reached(padded):
        whole = len(padded)
    jumps = {padded[end] for end in range(2, whole, 3) if padded[end] != end + 1}
    targets = {target for target in jumps if target < whole and target % 3 == 0}
    lines = []
    for start in range(0, whole, 3):
        if start in targets:
            lines.append(f"@at{start}:")
        stored = program[start : start + 3]
        lines.append(_instruction(dialect, padded[start : start + 3], stored, start, targets))
    if whole < len(program):
        lines.append(".data " + " ".join(map(str, program[whole:])))
    if whole > len(program):
        lines.append(f".size {len(program)}")
    return "".join(line + "\n" for line in lines)


def _reached(words: tuple[int, ...]) -> set[int]:
    """The addresses among each third that a program goes to from address 0, as long as it does not change itself."""
    reached: set[int] = set()
    waiting = [0]
    while waiting:
        start = waiting.pop()
        if start in reached or start % 3 or start >= len(words):
            continue
        reached.add(start)
        a, b, c = words[start : start + 3]
        waiting += [c] if a == b else [c, start + 3]  # x - x is 0, and always jumps
    return reached


class _Line:
    """The tokens of one line, taken from left to right."""

    def __init__(self, text: str, number: int, dialect: Dialect) -> None:
        self.tokens = list(_tokens(text, number))
        self.dialect = dialect
        self.at = 0

    def read(self, operands: list[_Operand], addresses: dict[str, int], sizes: list[_Size]) -> None:
        """Adds the words and labels of this line to those of the lines before it."""
        self._labels(operands, addresses)
        statement = self._take()
        if statement is None:
            return
        if statement.text == ".size":
            sizes.append(self._size(statement))
            return
        if statement.text not in ("subleq", ".data"):
            raise statement.error(
                f"{statement.text!r} is no statement: expected 'subleq', '.data' or '.size'"
            )
        start = len(operands)
        while self.at < len(self.tokens):
            self._labels(operands, addresses)
            operands.append(self._operand(statement))
            if len(operands) > self.dialect.writable_words:
                raise operands[-1].token.error(
                    f"the program is too long: SUBLEQ-{self.dialect.word_size} has room for "
                    f"{self.dialect.writable_words} words"
                )
        count = len(operands) - start
        if statement.text == ".data" and count == 0:
            raise statement.error(".data needs a number or a label")
        if statement.text == "subleq":
            if not 2 <= count <= 3:
                raise statement.error(f"subleq takes 2 or 3 operands, not {count}")
            if count == 2:
                self._add_next_address(operands, statement)

    def _size(self, statement: _Token) -> _Size:
        given = self._take()
        if given is None or given.kind != "number" or self.at < len(self.tokens):
            raise statement.error(".size takes one number, the words of the program")
        return _Size(self._number(given), given)

    def _add_next_address(self, operands: list[_Operand], statement: _Token) -> None:
        if len(operands) >= self.dialect.writable_words:
            raise statement.error(
                f"the program is too long: its last instruction ends past word {len(operands) - 1}"
            )
        operands.append(_Operand(None, len(operands) + 1, statement))

    def _labels(self, operands: list[_Operand], addresses: dict[str, int]) -> None:
        while [token.kind for token in self.tokens[self.at : self.at + 2]] == ["label", "colon"]:
            label = self.tokens[self.at]
            if label.text in addresses:
                raise label.error(f"{label.text} is defined already")
            addresses[label.text] = len(operands)
            self.at += 2

    def _operand(self, statement: _Token) -> _Operand:
        first = self._take()
        if first is None:
            raise statement.error("a label that is followed by nothing: expected an operand after it")
        if first.kind == "number":
            return _Operand(None, self._number(first), first)
        if first.kind != "label":
            raise first.error(f"{first.text!r} is no operand: expected a number or a label such as @x")
        offset = 0
        if self.at < len(self.tokens):
            following = self.tokens[self.at]
            touches = following.column == first.column + len(first.text)
            if touches and following.kind == "number" and following.text[0] in "+-":
                offset = self._number(following)
                self.at += 1
        return _Operand(first, offset, first)

    def _number(self, token: _Token) -> int:
        size = self.dialect.word_size
        # Longer digits are out of range whatever they are, and Python refuses to read very long ones.
        value = int(token.text) if len(token.text) < 10 else size
        if not -(size // 2) <= value < size:
            raise token.error(f"{token.text[:20]} is out of range: expected {-(size // 2)} to {size - 1}")
        return value

    def _take(self) -> _Token | None:
        if self.at == len(self.tokens):
            return None
        self.at += 1
        return self.tokens[self.at - 1]


def _tokens(text: str, line: int) -> Iterator[_Token]:
    code = text.split(";", maxsplit=1)[0]
    at = 0
    while at < len(code):
        if space := _SPACE.match(code, at):
            at = space.end()
            continue
        found = _TOKEN.match(code, at)
        if found is None or found.lastgroup is None:
            raise AssemblyError(f"unexpected {code[at]!r}", line, at + 1)
        yield _Token(found.lastgroup, found.group(), line, at + 1)
        at = found.end()


def _word(operand: _Operand, addresses: dict[str, int], dialect: Dialect) -> int:
    if operand.label is None:
        return operand.number % dialect.word_size
    if operand.label.text not in addresses:
        raise operand.label.error(
            f"{operand.label.text} is not defined: write '{operand.label.text}:' somewhere"
        )
    return (addresses[operand.label.text] + operand.number) % dialect.word_size


def _size(words: list[int], sizes: list[_Size]) -> int:
    """The number of words that belong to the program: what is left out is 0."""
    if not sizes:
        return len(words)
    given = sizes[-1]
    if len(sizes) > 1:
        raise given.token.error(".size is given twice: give it once")
    if not 0 <= given.number <= len(words) or any(words[given.number :]):
        raise given.token.error(
            f".size {given.number}: the program has {len(words)} words, and only zeros at its end can be left out"
        )
    return given.number


def _instruction(
    dialect: Dialect, words: tuple[int, ...], stored: tuple[int, ...], start: int, targets: set[int]
) -> str:
    names = {dialect.in_address: "@IN", dialect.out_address: "@OUT", dialect.halt_address: "@HALT"}
    a, b, c = words
    operands = [names.get(a, str(a)), names.get(b, str(b))]
    if c == dialect.halt_address:
        operands.append("@HALT")
    elif c != start + 3:
        operands.append(f"@at{c}" if c in targets else str(c))
    return f"subleq {' '.join(operands):<20} ; {start}: {' '.join(map(str, stored))}"
