"""Words as text that the assembler turns back into the same words."""

from collections.abc import Iterable
from typing import Any

from emcts.envs.subleq.dialect import Dialect


def disassemble(words: Iterable[Any], word_size: int = 16) -> str:
    """Reads three words at a time as instructions, from word 0 on, and what is left over as data.

    Words that a program uses as data, or jumps into the middle of, read as odd instructions.
    """
    dialect = Dialect(word_size)
    program = dialect.program(words)
    whole = len(program) - len(program) % 3
    jumps = {program[end] for end in range(2, whole, 3) if program[end] != end + 1}
    targets = {target for target in jumps if target < whole and target % 3 == 0}
    lines = []
    for start in range(0, whole, 3):
        if start in targets:
            lines.append(f"@at{start}:")
        lines.append(_instruction(dialect, program[start : start + 3], start, targets))
    if whole < len(program):
        lines.append(".data " + " ".join(map(str, program[whole:])))
    return "".join(line + "\n" for line in lines)


def _instruction(dialect: Dialect, words: tuple[int, ...], start: int, targets: set[int]) -> str:
    names = {dialect.in_address: "@IN", dialect.out_address: "@OUT", dialect.halt_address: "@HALT"}
    a, b, c = words
    operands = [names.get(a, str(a)), names.get(b, str(b))]
    if c == dialect.halt_address:
        operands.append("@HALT")
    elif c != start + 3:
        operands.append(f"@at{c}" if c in targets else str(c))
    return f"subleq {' '.join(operands):<20} ; {start}: {a} {b} {c}"
