"""Pieces of a chunk: their lengths change nothing, and a training continues from between two of them."""

import dataclasses
import itertools
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Bool, Float, Int

from emcts.agents.catalogue import Registered
from emcts.envs import Outcome
from emcts.runs.checkpoints import Checkpoints
from emcts.training.progress import Piece, Progress
from emcts.training.seeds import SeedTrainer
from emcts.types import Key
from tests.agents.tiny import (
    assert_equal,
    assert_same_progress,
    in_pieces,
    restored,
    table,
    trainer,
    with_steps,
)

AGENTS = ("bdqn", pytest.param("e-az", marks=pytest.mark.long), pytest.param("e-mz", marks=pytest.mark.long))


@pytest.mark.parametrize("agent", AGENTS)
def test_the_lengths_of_pieces_change_nothing(agent: str) -> None:
    one = trainer("deep-sea", agent)
    whole, split = one.init(), one.init()
    draw = np.random.default_rng(0)
    for lengths in (lambda: 1, lambda: int(draw.integers(1, 40)), lambda: 10**9):
        whole, expected = one.advance(whole)
        split, found, pieces = in_pieces(one, split, lengths)
        assert_equal(whole, split)
        assert_same_progress(expected, found)
        assert sum(piece.iterations for piece in pieces) == one.iterations_per_chunk
        assert pieces[-1].env_steps == found.env_steps


def test_a_piece_ends_where_learning_begins() -> None:
    one = trainer("deep-sea", "bdqn")
    warmup = one.learner.schedule.warmup_steps // one.learner.steps_per_iteration
    state, _, pieces = in_pieces(one, one.init(), lambda: one.iterations_per_chunk)
    pace = [piece.env_steps // one.learner.steps_per_iteration for piece in pieces if piece.changes_pace]
    assert pace == [warmup - 1]
    assert all(piece.is_finite for piece in pieces)
    assert len(in_pieces(one, state, lambda: one.iterations_per_chunk)[2]) == 1


@pytest.mark.parametrize("agent", AGENTS)
def test_a_training_continues_from_between_two_pieces(agent: str, tmp_path: Path) -> None:
    one = trainer("deep-sea", agent)
    checkpoints = Checkpoints(tmp_path)

    def saved(state: Any, chunk: Any, piece: Piece) -> tuple[Any, Any]:
        checkpoints.save(state, piece.env_steps, chunk=chunk)
        found = restored(one, checkpoints)
        assert found.env_steps == piece.env_steps
        return found.state, found.chunk

    lengths = itertools.cycle((3, 40))
    whole, expected = one.advance(one.init())
    split, found, pieces = in_pieces(one, one.init(), lambda: next(lengths), saved)
    assert len(pieces) > 2
    assert_equal(whole, split)
    assert_same_progress(expected, found)
    alone = checkpoints.restore(jax.eval_shape(one.init), shardings=one.shardings)
    assert alone is not None
    assert alone.chunk is None, "for one who wants the networks alone"


def test_nothing_compiles_twice() -> None:
    """Programs that were compiled ahead of time serve the first piece and the first evaluation."""
    one = trainer("deep-sea", "bdqn", seeds=(5, 6))
    compiled = []

    def listen(event: str, duration_secs: float, **kwargs: str | int) -> None:
        if "backend_compile" in event:
            compiled.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    state = one.init()
    one._env_steps(state.log)
    one.begin_chunk()
    before = len(compiled)
    for compile_now in one.compilations(state).values():
        compile_now()
    assert len(compiled) == before + 3

    def reported(state: Any, chunk: Any, piece: Piece) -> tuple[Any, Any]:
        one.report(state, chunk)
        return state, chunk

    for _ in range(2):
        state, _, pieces = in_pieces(one, state, lambda: 33, reported)
        assert len(pieces) > 2
    assert len(compiled) == before + 3


@dataclasses.dataclass(frozen=True)
class Countdown:
    """Three steps, counted from a Python number: the state begins with a weak type, and loses it in the first step."""

    num_actions: int = 2
    max_steps: int = 3

    def init(self, key: Key) -> Int[Array, ""]:
        return jnp.asarray(3)

    def step(self, state: Int[Array, ""], action: Int[Array, ""], key: Key) -> tuple[Int[Array, ""], Outcome]:
        left = jnp.maximum(state - 1, 0).astype(jnp.int32)
        return left, Outcome(jnp.float32(action), left == 0, jnp.bool_(False))

    def observe(self, state: Int[Array, ""]) -> Float[Array, "1"]:
        return state[None].astype(jnp.float32)

    def legal(self, state: Int[Array, ""]) -> Bool[Array, "2"]:
        return jnp.ones(2, bool)


def test_the_first_state_has_the_types_of_all_others() -> None:
    """Otherwise the first piece compiles for weak types, and the second piece for the others."""
    catalogue = Registered(objects={"tests:Countdown": Countdown()})
    settings = catalogue.settings("tests:Countdown", "bdqn")
    one = catalogue.trainer("tests:Countdown", "bdqn", settings, (0, 1))
    assert jax.eval_shape(Countdown().init, jax.random.key(0)).weak_type
    assert not any(leaf.weak_type for leaf in jax.tree.leaves(jax.eval_shape(one.init)))


@pytest.mark.parametrize("agent", AGENTS)
def test_the_first_chunk_is_reported_before_it_is_evaluated(agent: str) -> None:
    one = trainer("deep-sea", agent)
    reports: list[Progress] = []

    def reported(state: Any, chunk: Any, piece: Piece) -> tuple[Any, Any]:
        if piece.is_report_due:
            reports.append(one.report(state, chunk))
        return state, chunk

    state, whole, pieces = in_pieces(one, one.init(), lambda: 3, reported)
    per_iteration, iterations = one.learner.steps_per_iteration, one.iterations_per_chunk
    powers = [2**power for power in range(20) if 2**power < iterations]
    assert [report.env_steps for report in reports] == [number * per_iteration for number in powers]
    assert not any({"return", "length", "solved"} & set(report.metrics) for report in reports)
    assert set(whole.metrics) - set(reports[-1].metrics) == {
        "return",
        "length",
        "solved",
        "simulator_steps_evaluation",
    }
    warmup = one.learner.schedule.warmup_steps
    learned = [bool(np.isfinite(report.metrics["loss"]).all()) for report in reports]
    assert learned == [report.env_steps >= warmup for report in reports]
    assert [report.train_steps > 0 for report in reports] == learned
    episodes = table([*reports, whole], "episodes")
    assert (np.diff(episodes, axis=0) >= 0).all(), "they are of the chunk so far"
    _, _, later = in_pieces(one, state, lambda: 3)
    assert not any(piece.is_report_due for piece in later)
    assert whole.env_steps == pieces[-1].env_steps


def test_a_chunk_is_ended_once_and_whole() -> None:
    one = trainer("deep-sea", "bdqn")
    state, chunk, piece = one.run_piece(one.init(), one.begin_chunk(), 2)
    assert (piece.iterations, piece.is_last) == (1, False)
    with pytest.raises(ValueError, match="1 of 100 iterations of the chunk are done"):
        one.end_chunk(state, chunk)
    with pytest.raises(ValueError, match="a piece of 0 iterations, of a chunk with 99 left"):
        one.run_piece(state, chunk, 0)
    chunk = one.begin_chunk()
    with pytest.raises(ValueError, match="0 of 99 iterations of the chunk are done"):
        with_steps(one, 1).end_chunk(state, chunk)


def to_its_end(one: SeedTrainer[Any], state: Any) -> tuple[Any, list[Progress]]:
    """Trains as a run does, in pieces of 17 iterations, and returns all reports."""
    reports: list[Progress] = []

    def reported(state: Any, chunk: Any, piece: Piece) -> tuple[Any, Any]:
        if piece.is_report_due:
            reports.append(one.report(state, chunk))
        return state, chunk

    while not reports or reports[-1].env_steps < one.total_env_steps:
        state, progress, _ = in_pieces(one, state, lambda: 17, reported)
        reports.append(progress)
    return state, reports


@pytest.mark.parametrize("first", [40, 150, 200])
def test_a_longer_training_continues_a_shorter_one(first: int, tmp_path: Path) -> None:
    """The last chunk of a training ends with it, and that of a longer one where it would have without that end."""
    one = trainer("deep-sea", "bdqn")  # evaluated every 100 steps
    whole, expected = to_its_end(with_steps(one, 300), one.init())
    state, before = to_its_end(with_steps(one, first), one.init())
    assert before[-1].env_steps == first
    assert np.isfinite(before[-1].metrics["return"]).all()
    Checkpoints(tmp_path).save(state, first)
    state, after = to_its_end(with_steps(one, 300), restored(one, Checkpoints(tmp_path)).state)
    # An evaluation more may find it solved earlier; nothing else of the state knows of it.
    without = jax.vmap(lambda one: one.replace(log=one.log.replace(solved=one.log.not_finite)))
    assert_equal(without(whole), without(state))
    alone = [] if first == 200 else [first]
    assert [one.env_steps for one in [*before, *after]] == sorted(
        [*alone, *(one.env_steps for one in expected)]
    )
    assert_same_progress(after[-1], expected[-1])
    episodes = [sum(table(reports, "episodes")) for reports in (expected[-3:], [*before[-2:], *after])]
    assert expected[-3].env_steps == 100
    if first == 150:  # no report was in the middle of a chunk, so that each episode is in one
        np.testing.assert_array_equal(*episodes)


@pytest.mark.parametrize(
    ("agent", "steps", "end"), [("bdqn", 130, 130), pytest.param("e-az", 124, 130, marks=pytest.mark.long)]
)
def test_a_training_ends_with_the_iteration_that_reaches_its_steps(agent: str, steps: int, end: int) -> None:
    one = with_steps(trainer("deep-sea", agent), steps)
    state, progress = one.advance(one.init())
    assert progress.env_steps == 100
    state, progress = one.advance(state)
    assert progress.env_steps == end
    later = with_steps(one, 10**6).advance(state)[1]
    assert later.env_steps == 200
