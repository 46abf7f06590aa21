import itertools

import pytest

from emcts.envs import subleq
from emcts.envs.subleq.enumeration import enumerate_solutions


@pytest.mark.parametrize(
    ("task", "signed", "count", "shortest"),
    [
        ("negate-positives", False, 1317, (14, 13)),
        ("negate-positives", True, 856, (14, 13)),
        ("negate", False, 1317, (14, 13)),
        ("negate", True, 488, (14, 13, 0, 7)),
    ],
)
def test_solutions_of_up_to_five_words(task, signed, count, shortest):
    found = enumerate_solutions(task, 5, signed=signed)
    assert len(found) == len(set(found)) == count
    assert found[0] == shortest
    assert len(found[0]) < len(found[1])
    assert found == sorted(found, key=lambda program: (len(program), program))


def test_identity_has_no_solution_of_up_to_five_words():
    assert enumerate_solutions("identity", 5) == []


@pytest.mark.long
@pytest.mark.parametrize("signed", [False, True])
def test_identity_has_eight_solutions_of_six_words(signed):
    expected = [(0, 13, 3, 14, 0, k) for k in (4, 6, 7, 8, 9, 10, 11, 12)]
    assert enumerate_solutions("identity", 6, signed=signed) == expected


@pytest.mark.parametrize(("n", "words"), [(16, 3), (20, 2)])
def test_enumeration_finds_what_one_by_one_finds(n, words):
    """By the plain machine: outputs up to the last wanted one, for every example."""

    def passes(program):
        for inputs, outputs in subleq.examples("negate-positives", n):
            written = subleq.execute(program, inputs, word_size=n).outputs[: len(outputs)]
            if written != [value % n for value in outputs]:
                return False
        return True

    programs = itertools.product(*[(0, 3, n - 3, n - 2, n - 1)] * words)
    expected = {program for program in programs if passes(program)}
    stripped = {tuple(program[: 1 + max(i for i in range(words) if program[i])]) for program in expected}
    found = set(enumerate_solutions("negate-positives", words, word_size=n))
    assert stripped
    assert {p for p in found if set(p) <= {0, 3, n - 3, n - 2, n - 1}} == stripped
    for program in found:
        assert subleq.solves(program, "negate-positives", word_size=n)


def test_progress_reaches_the_end():
    seen = []
    enumerate_solutions("identity", 5, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(done, 16**5) for done in range(16**4, 16**5 + 1, 16**4)]


def test_no_words_solve_nothing():
    assert enumerate_solutions("identity", 0) == []


@pytest.mark.parametrize(
    ("task", "words", "settings", "message"),
    [
        ("identity", 14, {}, "cannot enumerate programs of 14 words"),
        ("identity", -1, {}, "programs of -1 words"),
        ("nothing", 2, {}, "unknown task 'nothing'"),
        ("identity", 2, {"word_size": 300}, "word_size 300"),
    ],
)
def test_bad_input_is_said_clearly(task, words, settings, message):
    with pytest.raises(ValueError, match=message):
        enumerate_solutions(task, words, **settings)
