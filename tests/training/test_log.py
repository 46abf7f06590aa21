"""The training log: the step at which the average regret of all episodes is low, as bsuite scores it."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from emcts.envs import DeepSea, MinAtar, Subleq
from emcts.envs.deep_sea import episodes_to_solve
from emcts.training.log import MAX_LOSS, MAX_REGRET, log_updates, new_log, regret_balance, zero_regret
from emcts.training.seeds import SeedTrainer
from tests.agents.tiny import advanced, table, trainer


def low_regret_step(ended: np.ndarray, good: np.ndarray) -> float:
    """bsuite's score of parallel episodes [steps, E], in the order in which they end."""
    (steps,) = np.nonzero(ended.reshape(-1))
    count = episodes_to_solve(~good.reshape(-1)[steps])
    return np.nan if count is None else float(steps[count - 1] + 1)


@pytest.mark.parametrize("seed", range(5))
def test_the_regret_balance_is_the_score_of_bsuite(seed: int) -> None:
    """With episodes of any length, several of which may end in one step, and few without regret."""
    rng = np.random.default_rng(seed)
    ended, good = rng.random((200, 4)) < 0.4, rng.random((200, 4)) < 0.1
    balance, found = jnp.int32(0), np.nan
    for step, (over, without) in enumerate(zip(ended, good, strict=True)):
        after = np.asarray(regret_balance(balance, jnp.asarray(over), jnp.asarray(without)))
        if np.isnan(found) and np.any(low := over & (after > 0)):
            found = float(4 * step + np.argmax(low) + 1)
        balance = jnp.int32(after[-1])
    np.testing.assert_equal(found, low_regret_step(ended, good))


def test_the_regret_balance_does_not_overflow() -> None:
    over, no = jnp.ones(1, bool), jnp.zeros(1, bool)
    assert int(regret_balance(jnp.int32(-MAX_REGRET), over, no)[0]) == -MAX_REGRET
    assert int(regret_balance(jnp.int32(MAX_REGRET), over, ~no)[0]) == MAX_REGRET


def assert_regret_is_scored(one: SeedTrainer[Any], chunks: int = 6) -> None:
    """In Deep Sea, where an episode has no regret if and only if it ends at the goal."""
    state, steps = one.init(), []
    for _ in range(chunks):
        chunk, is_last = one.begin_chunk(), False
        while not is_last:
            state, chunk, piece = one.run_piece(state, chunk, one.iterations_per_chunk)
            is_last = piece.is_last
        rollout = jax.device_get(chunk.metrics.rollout)
        steps.append((rollout.ended, rollout.success))
    ended, success = (np.concatenate([part[k] for part in steps]).swapaxes(0, 1) for k in range(2))
    wanted = [
        low_regret_step(ended[seed].reshape(-1, 1), success[seed].reshape(-1, 1))
        for seed in range(len(one.seeds))
    ]
    assert np.isfinite(wanted).any()
    found = np.asarray(state.log.low_regret.numbers(), np.float64)
    np.testing.assert_array_equal(np.where(np.isnan(wanted), np.nan, found), wanted)


def test_regret_is_scored_at_the_end_of_each_episode() -> None:
    """The same for parallel episodes is in tests/agents/mcts/test_simulator_training.py."""
    assert_regret_is_scored(trainer("deep-sea", "bdqn"))


def test_the_reported_step_of_low_regret_is_that_of_the_episode() -> None:
    one = trainer("deep-sea", "bdqn")
    _, reports = advanced(one, one.init(), 10)
    found = reports[-1].metrics["regret_step"]
    assert np.all(found % 5 == 0), "an episode has five steps"
    assert np.any(found % 100 != 0), "and an evaluation comes after a hundred"
    total = np.cumsum(table(reports, "train_return") * table(reports, "episodes"), axis=0)
    low = 1 - total / np.cumsum(table(reports, "episodes"), axis=0) / 0.99 < 0.9
    np.testing.assert_array_equal(low.argmax(axis=0), np.ceil(found / 100) - 1)


def test_only_environments_that_define_regret_have_it() -> None:
    env = DeepSea(3)
    end = env.init(jax.random.key(0)).replace(row=jnp.int32(3))
    for column in (3, 2):
        without = zero_regret(env, end.replace(column=jnp.int32(column)))
        assert without is not None
        assert bool(without) is (column == 3)
    assert zero_regret(Subleq("negate", 16, 4), end) is None
    assert zero_regret(MinAtar("breakout"), end) is None


@pytest.mark.parametrize(
    ("losses", "stops"),
    [
        ([1.0, 0.5 * MAX_LOSS], False),
        ([1.0, 2 * MAX_LOSS], True),
        ([-2 * MAX_LOSS, 0.0], True),
        ([np.nan], True),
    ],
)
def test_a_loss_that_explodes_is_logged_as_one_that_is_not_finite(losses: list[float], stops: bool) -> None:
    log = log_updates(new_log(DeepSea(4)), jnp.array(losses), num_updates=2, env_steps=7)
    assert bool(log.not_finite.happened) == stops
    assert int(log.not_finite) == 7 or not stops
