"""Novelty inputs of SUBLEQ: what each tells apart, and that none reads the hidden tests."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from emcts.agents.builtin_tasks import SubleqOptions
from emcts.agents.builtin_tasks import subleq as subleq_task
from emcts.envs import Subleq, subleq
from emcts.envs.rollout import QUICK_TO_COMPILE
from emcts.envs.subleq import env as env_module
from emcts.envs.subleq.env import TRACED
from emcts.envs.subleq.examples import MORE_SHOWN, example_arrays, examples, more_shown_examples
from emcts.envs.subleq.execution import Step
from emcts.envs.subleq.machine import Example

INPUTS = subleq_task(SubleqOptions()).novelty_inputs
PROGRAMS = {
    16: [(14, 13), (14, 13, 0, 7), (0, 13, 3, 14, 0, 6), (0, 13, 3), (13, 13, 1), (1, 0, 3, 14, 1, 0), ()],
    32: [(30, 29), (0, 29, 3, 30, 0, 6), (0, 29, 3, 0, 29, 6, 30, 0, 9), (29, 29, 29), ()],
}


def seen(env: Subleq, look: Callable[..., Any], programs: list[tuple[int, ...]]) -> Any:
    """The novelty input of each program."""
    words = np.zeros((len(programs), env.max_words), np.uint8)
    for row, program in zip(words, programs, strict=True):
        row[: len(program)] = program
    lengths = jnp.asarray([len(program) for program in programs], jnp.int32)

    def one(words: jax.Array, length: jax.Array) -> Any:
        return look(env, env.written(words, length, jnp.int32(0)))

    compiled = jax.jit(jax.vmap(one), compiler_options=QUICK_TO_COMPILE)
    return jax.tree.map(np.asarray, compiled(jnp.asarray(words), lengths))


def event(step: Step) -> tuple[int, int]:
    return step.word, 1 + (step.read is not None) + 2 * (step.output is not None)


@pytest.mark.parametrize(("n", "signed"), [(16, False), (16, True), (32, False), (32, True)])
def test_the_trace_is_that_of_the_plain_machine(n: int, signed: bool) -> None:
    env = Subleq("add", word_size=n, signed=signed)
    rng = np.random.default_rng(0)
    special = rng.integers(n - 3, n, (40, 9))
    drawn = np.where(rng.random((40, 9)) < 0.5, rng.integers(0, n, (40, 9)), special)
    programs = [*PROGRAMS[n], *map(tuple, drawn.tolist())]
    traces = seen(env, subleq.first_results, programs)
    inputs, outputs = examples("add", n)[0]
    for program, found in zip(programs, traces, strict=True):
        steps = subleq.trace_test(program, inputs, outputs, word_size=n, signed=signed)
        events = [event(step) for step, _ in zip(steps, range(TRACED), strict=False)]
        events += [(0, 0)] * (TRACED - len(events))
        assert found.tolist() == [0, *(word for word, _ in events), *(kind for _, kind in events)]


def test_equal_computations_at_other_addresses_have_the_same_trace() -> None:
    env = Subleq("identity")
    one, other, different = seen(
        env, subleq.first_results, [(0, 13, 3, 14, 0, 6), (8, 13, 3, 14, 8, 12), (8, 13, 3, 14, 7, 12)]
    )
    assert one[:3].tolist() == other[:3].tolist()
    assert one.tolist() != different.tolist()


def test_more_examples_tell_apart_what_one_does_not() -> None:
    """Constants that a single example accepts by luck differ on another."""
    env = Subleq("negate", max_words=3)
    programs: list[tuple[int, ...]] = [(a, b, c) for a in (13, 14) for b in range(16) for c in range(16)]
    io, more = (len(np.unique(seen(env, INPUTS[name], programs), axis=0)) for name in ("io", "examples"))
    assert io < more


@pytest.mark.parametrize("name", ["add", "negate-positives", "sum"])
@pytest.mark.parametrize("n", [16, 64])
def test_no_other_shown_example_is_a_hidden_one(name: str, n: int) -> None:
    more = more_shown_examples(name, n)
    assert len(set(more)) == len(more) == MORE_SHOWN
    assert not set(more) & set(examples(name, n)[1:])


def test_length_is_the_number_of_words() -> None:
    assert seen(Subleq("add"), subleq.length, [(), (0,), (0, 0, 0)]).tolist() == [[0], [1], [3]]


def test_no_input_depends_on_the_hidden_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    env = Subleq("negate")
    programs = PROGRAMS[16]

    def solved_and_inputs(env: Subleq, state: subleq.State) -> tuple[jax.Array, ...]:
        return state.solved, *(look(env, state) for look in INPUTS.values())

    solved, *before = seen(env, solved_and_inputs, programs)

    def other_hidden(name: str, word_size: int) -> Example:
        true, other = example_arrays(name, word_size), example_arrays("identity", word_size)
        return jax.tree.map(lambda ours, theirs: jnp.concatenate([ours[:1], theirs[1:]]), true, other)

    monkeypatch.setattr(env_module, "example_arrays", other_hidden)
    solved_by_others, *after = seen(env, solved_and_inputs, programs)
    assert solved_by_others.tolist() != solved.tolist()
    for name, one, other in zip(INPUTS, before, after, strict=True):
        np.testing.assert_array_equal(one, other, err_msg=name)
