import pytest

from emcts.envs import subleq
from emcts.envs.subleq.solutions import SOLUTIONS, known_solution

CASES = [
    (name, known, signed)
    for name, programs in SOLUTIONS.items()
    for known in programs
    for signed in (False, True)
    if (known.signed if signed else known.unsigned)
]


def passes(program, name, n, signed):
    """By the plain machine, which takes no time to compile."""
    for inputs, outputs in subleq.examples(name, n):
        written = subleq.execute(program, inputs, word_size=n, signed=signed).outputs
        if written[: len(outputs)] != [value % n for value in outputs]:
            return False
    return True


@pytest.mark.parametrize(("name", "known", "signed"), CASES)
def test_known_programs_solve_from_their_smallest_word_size_on(name, known, signed):
    for n in (known.smallest_word_size, 101, 256):
        assert passes(subleq.assemble(known.text, n), name, n, signed)


@pytest.mark.parametrize(
    "name", [name for name, programs in SOLUTIONS.items() if programs[0].smallest_word_size > 16]
)
def test_the_smallest_word_size_is_the_smallest(name):
    known = SOLUTIONS[name][0]
    n = known.smallest_word_size - 1
    try:
        program = subleq.assemble(known.text, n)
    except subleq.AssemblyError:
        return
    assert not passes(program, name, n, signed=not known.unsigned)


def test_known_solutions_by_name():
    assert known_solution("identity") == [0, 13, 3, 14, 0, 6]
    assert known_solution("add", word_size=32, signed=True) == [0, 29, 3, 0, 29, 6, 30, 0, 9]
    assert known_solution("negate", signed=True) == [14, 13, 0, 7]
    assert known_solution("subtract") is None
    assert known_solution("sort-4", word_size=256) is None
    with pytest.raises(ValueError, match="did you mean 'negate'"):
        known_solution("negat")


def test_solves_agrees_on_known_solutions():
    for name in ("identity", "add", "copy"):
        program = known_solution(name) or []
        assert subleq.solves(program, name)
        assert not subleq.solves(program[:-1], name)
