import random

import pytest

from emcts.envs import subleq
from emcts.envs.subleq.dialect import Dialect
from emcts.envs.subleq.explanation import _effect
from emcts.envs.subleq.solutions import SOLUTIONS
from tests.envs.subleq import oracle

ADD = (0, 13, 3, 0, 13, 6, 14, 0, 9)


@pytest.mark.parametrize("signed", [False, pytest.param(True, marks=pytest.mark.long)])
def test_a_test_is_passed_as_an_independent_machine_says(signed: bool) -> None:
    rng = random.Random(1)
    verdicts = set()
    for _ in range(3000):
        program = [rng.choice((0, 3, 6, 13, 14, rng.randrange(16))) for _ in range(6)]
        inputs = [rng.randrange(16) for _ in range(2)]
        wanted = [-inputs[0] % 16, 0][: rng.randint(1, 2)]
        expected = oracle.run(16, signed, program, inputs, wanted).verdict == "solved"
        assert subleq.passes(program, inputs, wanted, signed=signed) == expected
        verdicts.add(expected)
    assert verdicts == {True, False}


def test_a_trace_of_a_test_ends_with_its_verdict() -> None:
    right = list(subleq.trace_test(ADD, (1, 2, 3, 4), (3, 7)))
    assert [step.output for step in right if step.output is not None] == [3, 7]
    assert right[-1].output == 7
    wrong = list(subleq.trace_test(ADD, (1, 2, 3, 4), (3, 8, 9)))
    assert wrong == right


def test_instructions_are_counted_in_the_order_of_their_first_execution() -> None:
    steps = list(subleq.trace_test(ADD, (1, -2, 3, 4), (-1, 7)))
    executed = subleq.instructions(steps)
    assert [(one.address, one.times) for one in executed] == [(0, 2), (3, 2), (6, 2), (9, 1)]
    assert [one.effect for one in executed] == [
        "word 0 = word 0 - input",
        "word 0 = word 0 - input",
        "write -word 0",
        "word 0 = 0; go to 0",
    ]
    assert subleq.changed_words(ADD, steps) == (0,)


@pytest.mark.parametrize(
    ("address", "operands", "effect"),
    [
        (0, (14, 13, 3), "write -input"),
        (0, (14, 13, 15), "write -input; end if the result is at most 0"),
        (3, (14, 15, 0), "write 0; go to 0"),
        (3, (2, 15, 0), "word 2 = word 2; go to 0 if the result is at most 0"),
        (0, (13, 13, 6), "read an input; compute 0; go to 6"),
        (0, (13, 4, 6), "compute input - word 4; go to 6 if the result is at most 0"),
        (0, (15, 4, 3), "compute -word 4"),
        (12, (1, 1, 13), "word 1 = 0; end"),
    ],
)
def test_effects(address: int, operands: tuple[int, int, int], effect: str) -> None:
    assert _effect(Dialect(), address, operands) == effect


@pytest.mark.parametrize("name", SOLUTIONS)
def test_known_programs_pass_further_examples(name: str) -> None:
    known = SOLUTIONS[name][0]
    n, signed = max(16, known.smallest_word_size), not known.unsigned
    program = subleq.known_solution(name, word_size=n, signed=signed)
    assert program is not None
    checked = subleq.check(program, name, further=100, word_size=n, signed=signed)
    assert checked == subleq.Check(100, 100, None)


def test_a_wrong_program_fails_and_the_first_failure_is_named() -> None:
    checked = subleq.check((14, 13), "identity", further=20)
    assert checked.passed < checked.tests == 20
    assert checked.first_failed in [inputs for inputs, _ in subleq.further_examples("identity", 16, 20)]


@pytest.mark.parametrize("name", subleq.TASKS)
def test_further_examples_follow_the_rules_of_the_task_and_differ_by_seed(name: str) -> None:
    first, second = (subleq.further_examples(name, 32, 20, seed) for seed in (0, 1))
    assert first == subleq.further_examples(name, 32, 20)
    assert first != second
    for inputs, outputs in first:
        assert list(outputs) == subleq.TASKS[name].outputs(inputs)
        assert len(inputs) <= 8
        assert all(-8 <= value <= 15 for value in inputs)


def test_no_further_examples_are_an_error() -> None:
    with pytest.raises(ValueError, match="give at least 1"):
        subleq.further_examples("add", 16, 0)
