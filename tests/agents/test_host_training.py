"""Training on simulators that run on the host: one call for a move, and the same results after a restart."""

import functools
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from emcts.agents.bdqn import settings as bdqn
from emcts.agents.mcts.variants import VARIANTS, compose
from emcts.agents.task import Task
from emcts.envs import from_gymnasium
from emcts.envs.adapters.gymnasium import GymnasiumEnvironment
from emcts.envs.adapters.simulators import Moves
from emcts.envs.base import SimulatorError
from emcts.runs.checkpoints import Checkpoints
from emcts.training.env_factory import SharedEnv
from emcts.training.progress import Piece
from emcts.training.seeds import SeedTrainer
from tests.agents import tiny
from tests.envs.adapters.simulators import Wanderer

SEEDS, EVALUATION_STEPS = (0, 1), 5
ITERATIONS = 4  # of a chunk; 13 times as many for bdqn, whose are a step each


class Switched(Wanderer):
    """Ignores its seed, or fails, once it is told to."""

    fails = ignores_seed = False

    def reset(self, *, seed: int) -> Any:
        return super().reset(seed=None if Switched.ignores_seed else seed)

    def step(self, action: int) -> Any:
        if Switched.fails:
            raise KeyError("no such level")
        return super().step(action)


def make(agent: str, env: GymnasiumEnvironment, **changes: Any) -> SeedTrainer[Any]:
    task = Task(SharedEnv(env), max_steps=EVALUATION_STEPS)
    settings = tiny.settings("minatar-breakout", agent, changes)
    learner = bdqn.compose(task, settings) if agent == "bdqn" else compose(VARIANTS[agent], task, settings)
    return SeedTrainer(learner, SEEDS, 1000, ITERATIONS * (13 if agent == "bdqn" else 1))


@functools.cache
def trainer(agent: str) -> tuple[SeedTrainer[Any], GymnasiumEnvironment]:
    """The one trainer of its kind, whose programs are compiled once, and its environment."""
    env = from_gymnasium(Switched)
    return make(agent, env), env


@pytest.mark.parametrize("agent", [pytest.param("e-mz", marks=pytest.mark.long), "bdqn"])
def test_a_resumed_training_equals_an_uninterrupted_one(agent: str, tmp_path: Path) -> None:
    one, env = trainer(agent)
    reports = tiny.assert_resumes(one, tmp_path)
    env.close()
    assert np.isfinite(tiny.table(reports, "loss")).all()
    assert tiny.table(reports, "length").max() == EVALUATION_STEPS
    assert tiny.table(reports, "episodes").sum() > 0


def test_a_training_continues_from_between_two_pieces(tmp_path: Path) -> None:
    """Its programs are compiled ahead of time, and its simulators are started again."""
    one, env = trainer("bdqn")
    checkpoints = Checkpoints(tmp_path)

    def saved(state: Any, chunk: Any, piece: Piece) -> tuple[Any, Any]:
        checkpoints.save(state, piece.env_steps, chunk=chunk)
        env.close()
        found = tiny.restored(one, checkpoints)
        return found.state, found.chunk

    whole, expected = one.advance(one.init())
    env.close()
    state = one.init()
    for compile_now in one.compilations(state).values():
        compile_now()
    split, progress, pieces = tiny.in_pieces(one, state, lambda: 20, saved)
    env.close()
    assert len(pieces) > 2
    tiny.assert_equal(whole, split)
    tiny.assert_same_progress(expected, progress)


def test_a_move_of_all_episodes_is_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """Training calls the host when it acts and when it evaluates, and at no other time."""
    one, env = trainer("e-mz")
    state = one.init()
    batches, steps = [], env.pool.step

    def counted(moves: Moves) -> Any:
        batches.append((len(moves), moves.reset_seed is not None))
        return steps(moves)

    monkeypatch.setattr(env.pool, "step", counted)
    state, progress = one.advance(state)
    envs, length = tiny.GUMBEL["schedule.num_envs"], tiny.GUMBEL["schedule.rollout_length"]
    assert progress.train_steps > 0
    assert (
        batches
        == [(len(SEEDS) * envs, True)] * (ITERATIONS * length)
        + [(len(SEEDS) * tiny.GUMBEL["evaluation.episodes"], False)] * EVALUATION_STEPS
    )


def test_training_goes_on_without_reproducible_simulators(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    one, env = trainer("bdqn")
    monkeypatch.setattr(Switched, "ignores_seed", True)
    state, _ = one.advance(one.init())
    assert "emcts" not in capfd.readouterr().err
    for _ in range(50):  # its noise is real: an episode may just have begun
        if (times := np.asarray(state.episode.state.time)).min() > 0:
            break
        state, _ = one.advance(state)
    assert times.min() > 0
    env.close()
    row = int(state.replay.cursor[0])
    state, progress = one.advance(state)
    lost = jax.tree.map(lambda leaf: np.asarray(leaf[:, row, 0]), state.replay.transitions)
    assert lost.truncated.all()
    np.testing.assert_array_equal(lost.reward, 0)
    np.testing.assert_array_equal(lost.state.time, times)
    np.testing.assert_array_equal(state.replay.transitions.state.time[:, row + 1, 0], 0)
    assert np.isfinite(progress.metrics["loss"]).all()
    env.close()
    one.advance(state)
    assert capfd.readouterr().err.count("is not determined by its seed") == 1


def test_an_exception_of_a_simulator_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    one, env = trainer("bdqn")
    state = one.init()
    monkeypatch.setattr(Switched, "fails", True)
    with pytest.raises(
        SimulatorError, match="Switched failed in step 0 of seed .*: KeyError: 'no such level'"
    ):
        one.advance(state)
    monkeypatch.setattr(Switched, "fails", False)
    one.advance(one.init())
    env.close()


@pytest.mark.parametrize("agent", ["az", "az-ube", "e-az"])
def test_agents_that_search_the_environment_are_refused(agent: str) -> None:
    with pytest.raises(ValueError, match="searches the environment itself.*take --agent mz"):
        make(agent, from_gymnasium(Wanderer))


@pytest.mark.parametrize("kind", ["hash-set", "hash-counts"])
def test_novelty_that_follows_plans_through_the_environment_is_refused(kind: str) -> None:
    with pytest.raises(
        ValueError, match=f"novelty.kind {kind} follows plans.*take --novelty.kind ensemble or rnd"
    ):
        make("e-mz", from_gymnasium(Wanderer), **{"novelty.kind": kind, "novelty.update": "acting"})
