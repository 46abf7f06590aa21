"""Plain enumeration of SUBLEQ programs, shortest first: what a search must beat to be worth its networks."""

from dataclasses import dataclass

from emcts.envs import subleq


@dataclass(frozen=True)
class Enumeration:
    """All programs of up to so many words, tried on a task. Programs that differ by zeros at the end are one."""

    task: str
    words: int
    word_size: int
    solutions: tuple[tuple[int, ...], ...]

    @property
    def programs(self) -> int:
        return self.word_size**self.words

    @property
    def first_in_order(self) -> int | None:
        """How many programs are tried until one solves the task, shortest first and then by their words."""
        return 1 + self._before(self.solutions[0]) if self.solutions else None

    @property
    def first_at_random(self) -> float | None:
        """How many are tried on average if they come in random order, none twice."""
        return (self.programs + 1) / (len(self.solutions) + 1) if self.solutions else None

    def _before(self, program: tuple[int, ...]) -> int:
        if not program:
            return 0
        base = self.word_size
        number = 0
        for word in program:
            number = number * base + word
        # All programs with fewer words, then those as long whose last word is not 0, for else they were counted.
        return base ** (len(program) - 1) + number // base * (base - 1) + number % base - 1


def enumerate_task(task: str, words: int, *, word_size: int, signed: bool) -> Enumeration:
    found = subleq.enumerate_solutions(task, words, word_size=word_size, signed=signed)
    return Enumeration(task, words, word_size, tuple(found))
