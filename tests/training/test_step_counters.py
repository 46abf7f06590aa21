"""Trainings beyond the range of 32-bit integers: the same as at the start, at other numbers of steps."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from emcts.counter import NEVER, Counter
from emcts.novelty import Counts
from emcts.runs.checkpoints import Checkpoints
from emcts.runs.logging.display import RunProgress
from emcts.runs.logging.metrics import to_lines, with_lines
from emcts.runs.summary import summarise
from emcts.training.log import MAX_VISITS
from emcts.training.seeds import SeedTrainer
from tests.agents.tiny import advanced, restored_state, trainer, with_steps

CHUNK = 100
STEPS = {"first_reward_step", "solved_step", "regret_step"}
SIMULATOR_STEPS = ("simulator_steps_acting", "simulator_steps_reanalyse")
FAR = 2**40 // CHUNK * CHUNK
# The first chunk ends at 100 steps. From there on, the first passes a power of two; chunks end at multiples of 100.
JUMPS = [2**31 // CHUNK * CHUNK - CHUNK, 2**32 // CHUNK * CHUNK - CHUNK, FAR]


def at_its_end(one: SeedTrainer[Any]) -> SeedTrainer[Any]:
    """The same trainer, at its end after the first chunk: progress then changes nothing."""
    return with_steps(one, CHUNK)


def bdqn() -> SeedTrainer[Any]:
    return at_its_end(trainer("deep-sea", "bdqn"))


def with_log(one: SeedTrainer[Any], state: Any, **changes: Any) -> Any:
    """The states of all seeds with other entries of their logs, [S] each."""
    changed = jax.vmap(lambda state, changes: state.replace(log=state.log.replace(**changes)))(state, changes)
    return jax.device_put(changed, one.shardings)


def counters(numbers: Iterable[int]) -> Counter:
    return jax.tree.map(lambda *words: jnp.stack(words), *[Counter.of(int(number)) for number in numbers])


def later(one: SeedTrainer[Any], state: Any, steps: int) -> Any:
    """The state as if there had been so many more steps and updates before."""
    names = ("env_steps", "train_steps", "first_success", "solved", "not_finite", "low_regret")
    before = {name: getattr(state.log, name).numbers() for name in names}
    shifted = {
        name: counters(number if number == NEVER else int(number) + steps for number in numbers)
        for name, numbers in before.items()
    }
    return with_log(one, state, **shifted)


def assert_counts_past_32_bits(one: SeedTrainer[Any], folder: Path) -> None:
    """Compares a training with the same one after a large number of steps."""
    one = at_its_end(one)
    state, _ = advanced(one, one.init(), 1)
    state = with_log(one, state, first_success=counters([NEVER] * 2), solved=counters([NEVER] * 2))
    saved = Checkpoints(folder)
    saved.save(state, 100)
    _, reports = advanced(one, state, 4)
    assert np.any(reports[-1].metrics["first_reward_step"] > CHUNK), "else no first success is counted"
    for jump in JUMPS:
        _, others = advanced(one, later(one, restored_state(one, saved), jump), 4)
        for first, second in zip(reports, others, strict=True):
            steps = (first.env_steps + jump, first.train_steps + jump)
            assert (second.env_steps, second.train_steps) == steps
            for name, values in first.metrics.items():
                if name in SIMULATOR_STEPS:
                    continue  # computed from the steps above: tests/agents/mcts/test_simulator_steps.py
                shifted = values + jump if name in STEPS else values
                np.testing.assert_array_equal(second.metrics[name], shifted, err_msg=name)


def test_steps_are_counted_past_32_bits(tmp_path: Path) -> None:
    """The same for agents that plan is in tests/agents/mcts/test_simulator_training.py."""
    assert_counts_past_32_bits(trainer("deep-sea", "bdqn"), tmp_path)


def test_a_loss_that_is_not_finite_is_reported_with_its_step() -> None:
    one = bdqn()
    state, _ = advanced(one, one.init(), 1)
    broken = jax.tree.map(lambda leaf: leaf.at[1].set(jnp.nan), state.networks)
    _, (report,) = advanced(one, later(one, state.replace(networks=broken), FAR), 1)
    np.testing.assert_array_equal(report.metrics["nan_step"], [np.nan, FAR + 101])


def test_a_checkpoint_stores_the_counters(tmp_path: Path) -> None:
    one = bdqn()
    start = FAR
    state, (report,) = advanced(one, later(one, one.init(), start), 1)
    assert report.env_steps == start + CHUNK
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(state, 2**31)
    checkpoints.save(state, report.env_steps)
    restored = checkpoints.restore(jax.eval_shape(one.init), shardings=one.shardings)
    assert restored is not None
    assert restored.env_steps == report.env_steps
    np.testing.assert_array_equal(restored.state.log.env_steps.numbers(), [report.env_steps] * 2)
    resumed, (later_report,) = advanced(one, restored.state, 1)
    assert later_report.env_steps == start + 2 * CHUNK
    np.testing.assert_array_equal(resumed.log.train_steps.numbers(), [later_report.train_steps] * 2)


def test_metrics_display_and_summary_show_large_numbers_of_steps() -> None:
    one = bdqn()
    state, _ = advanced(one, one.init(), 1)
    found = counters([FAR + 7] * 2)
    _, (report,) = advanced(one, with_log(one, later(one, state, FAR), first_success=found), 1)
    lines = to_lines(one.seeds, report, 1.0)
    assert [line["env_steps"] for line in lines] == [FAR + 200] * 2
    assert [line["first_reward_step"] for line in lines] == [FAR + 7] * 2
    latest = with_lines({}, lines)
    cells = RunProgress(report.env_steps, 2**41, latest, None, None).cells()
    assert cells["steps"] == "1,099,511,627,900 of 2,199,023,255,552"
    assert cells["first reward"].startswith("1,099,511,627,707 ")
    seeds = summarise(one.seeds, latest, "running", 2**41)["seeds"]
    assert [seed["first_reward_step"] for seed in seeds] == [FAR + 7] * 2


def test_visits_stop_before_they_overflow() -> None:
    counts = Counts(3)
    state = counts.init(jax.random.key(0)).replace(visits=jnp.array([MAX_VISITS - 1, 5, 0], jnp.int32))
    for _ in range(3):
        state = jax.jit(counts.update)(state, jnp.array([0, 0, 1]), jnp.ones(3, bool))
    np.testing.assert_array_equal(state.visits, [MAX_VISITS + 1, 8, 0])
    one = bdqn()
    start = one.init()
    full = start.log.visits.at[:, 0].set(2**31 - 200)
    after, _ = advanced(one, with_log(one, start, visits=full), 3)
    np.testing.assert_array_equal(after.log.visits[:, 0], 2**31 - 200)
