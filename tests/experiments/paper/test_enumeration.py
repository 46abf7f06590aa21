"""The enumeration baseline: its order counted one by one, and the known shortest programs."""

import itertools

import pytest

from emcts.experiments.paper.figure_1 import Enumeration, enumerate_task


def by_counting(base: int, wanted: tuple[int, ...]) -> int:
    """The place of a program among all, shortest first, without zeros at the end."""
    tried = 0
    for length in range(len(wanted) + 1):
        for words in itertools.product(range(base), repeat=length):
            if words and words[-1] == 0:
                continue
            tried += 1
            if words == wanted:
                return tried
    raise AssertionError


@pytest.mark.parametrize("program", [(), (2,), (0, 1), (3, 3), (1, 0, 2), (2, 3, 1)])
def test_the_order(program: tuple[int, ...]) -> None:
    assert Enumeration("any", 3, 4, (program,)).first_in_order == by_counting(4, program)


def test_negating_positives_takes_two_words() -> None:
    tried = enumerate_task("negate-positives", 2, word_size=16, signed=False)
    assert tried.solutions == ((14, 13),)
    assert tried.first_in_order == by_counting(16, (14, 13)) == 16 + 14 * 15 + 13
    assert tried.first_at_random == 257 / 2


def test_no_solution() -> None:
    tried = Enumeration("identity", 3, 16, ())
    assert tried.first_in_order is None
    assert tried.first_at_random is None
    assert tried.programs == 4096
