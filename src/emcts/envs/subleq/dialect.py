"""The variants of SUBLEQ: the number of words `N`, and how a result is tested for the jump."""

import contextlib
import operator
from collections.abc import Iterable
from dataclasses import dataclass
from typing import SupportsIndex

SMALLEST_WORD_SIZE = 16
LARGEST_WORD_SIZE = 256
SLOTS = 8  # inputs, and wanted outputs, of an example


@dataclass(frozen=True)
class Dialect:
    """SUBLEQ-N: `word_size` words of memory, each in [0, word_size - 1].

    Unsigned, an instruction jumps if the result before modulo is at most 0. `signed` tests the stored word
    instead, read as two's complement.
    """

    word_size: int = 16
    signed: bool = False

    def __post_init__(self) -> None:
        if not SMALLEST_WORD_SIZE <= self.word_size <= LARGEST_WORD_SIZE:
            raise ValueError(
                f"word_size {self.word_size} is out of range: SUBLEQ-N is defined here for "
                f"{SMALLEST_WORD_SIZE} <= N <= {LARGEST_WORD_SIZE}"
            )

    @property
    def in_address(self) -> int:
        return self.word_size - 3

    @property
    def out_address(self) -> int:
        return self.word_size - 2

    @property
    def halt_address(self) -> int:
        return self.word_size - 1

    @property
    def last_start(self) -> int:
        """The last address at which an instruction may start; one past it would overlap HALT."""
        return self.word_size - 4

    @property
    def writable_words(self) -> int:
        """The largest number of words of a program: those below IN."""
        return self.word_size - 3

    def jumps(self, result: int) -> bool:
        """Whether an instruction with this result, before modulo, goes to its third operand."""
        if self.signed:
            word = result % self.word_size
            return word == 0 or 2 * word >= self.word_size
        return result <= 0

    def program(self, words: Iterable[object]) -> tuple[int, ...]:
        """The words as plain ints. Raises a ValueError that names the first word out of range."""
        program = tuple(_integer(word, f"word {i}") for i, word in enumerate(words))
        for i, word in enumerate(program):
            if not 0 <= word < self.word_size:
                raise ValueError(
                    f"word {i} is {word}: the words of SUBLEQ-{self.word_size} are 0 to {self.word_size - 1}"
                    + (f"; write {word} as {word % self.word_size}" if word < 0 else "")
                )
        if len(program) > self.writable_words:
            raise ValueError(
                f"a program of {len(program)} words is too long: SUBLEQ-{self.word_size} has room for "
                f"{self.writable_words} below IN, OUT and HALT"
            )
        return program

    def values(self, values: Iterable[object]) -> tuple[int, ...]:
        """Numbers as words: a negative one stands for itself modulo N."""
        numbers = tuple(_integer(value, f"input {i}") for i, value in enumerate(values))
        for i, number in enumerate(numbers):
            if not -(self.word_size // 2) <= number < self.word_size:
                raise ValueError(
                    f"input {i} is {number}: SUBLEQ-{self.word_size} takes {-(self.word_size // 2)} to "
                    f"{self.word_size - 1}, where a negative number stands for itself modulo {self.word_size}"
                )
        return tuple(number % self.word_size for number in numbers)


def _integer(value: object, what: str) -> int:
    with contextlib.suppress(TypeError):  # an array of floats has `__index__`, and raises
        if isinstance(value, SupportsIndex):
            return operator.index(value)
    raise ValueError(f"{what} is {value!r}: expected a whole number")
