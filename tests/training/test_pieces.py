"""Pieces of a chunk: their lengths change nothing, and a training continues from between two of them."""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from emcts.runs.checkpoints import Checkpoints, Template
from emcts.training.progress import Piece, Progress
from emcts.training.seeds import SeedTrainer
from tests.agents.tiny import assert_equal, trainer

AGENTS = ("bdqn", pytest.param("e-az", marks=pytest.mark.long), pytest.param("e-mz", marks=pytest.mark.long))


def in_pieces(
    one: SeedTrainer[Any], state: Any, lengths: Callable[[], int], between: Callable[..., Any] | None = None
) -> tuple[Any, Progress, list[Piece]]:
    """Trains a chunk. `between` returns what replaces the state and the chunk after each piece."""
    chunk = one.begin_chunk()
    pieces: list[Piece] = []
    while not pieces or not pieces[-1].is_last:
        state, chunk, piece = one.run_piece(state, chunk, lengths())
        pieces.append(piece)
        if between is not None and not piece.is_last:
            state, chunk = between(state, chunk, piece)
    state, progress = one.end_chunk(state, chunk)
    return state, progress, pieces


def assert_same(one: Progress, two: Progress) -> None:
    assert (one.env_steps, one.train_steps, one.artifacts) == (two.env_steps, two.train_steps, two.artifacts)
    assert one.metrics.keys() == two.metrics.keys()
    for name, values in one.metrics.items():
        np.testing.assert_array_equal(values, two.metrics[name], err_msg=name)


@pytest.mark.parametrize("agent", AGENTS)
def test_the_lengths_of_pieces_change_nothing(agent: str) -> None:
    one = trainer("deep-sea", agent)
    whole, split = one.init(), one.init()
    draw = np.random.default_rng(0)
    for lengths in (lambda: 1, lambda: int(draw.integers(1, 40)), lambda: 10**9):
        whole, expected = one.advance(whole)
        split, found, pieces = in_pieces(one, split, lengths)
        assert_equal(whole, split)
        assert_same(expected, found)
        assert sum(piece.iterations for piece in pieces) == one.iterations_per_chunk
        assert pieces[-1].env_steps == found.env_steps


def test_a_piece_ends_where_learning_begins() -> None:
    one = trainer("deep-sea", "bdqn")
    warmup = one.learner.schedule.warmup_steps // one.learner.steps_per_iteration
    state, _, (first, second) = in_pieces(one, one.init(), lambda: one.iterations_per_chunk)
    assert (first.iterations, first.changes_pace, second.changes_pace) == (warmup - 1, True, False)
    assert all(piece.is_finite for piece in (first, second))
    assert len(in_pieces(one, state, lambda: one.iterations_per_chunk)[2]) == 1


@pytest.mark.parametrize("agent", AGENTS)
def test_a_training_continues_from_between_two_pieces(agent: str, tmp_path: Path) -> None:
    one = trainer("deep-sea", agent)
    checkpoints = Checkpoints(tmp_path)

    def saved(state: Any, chunk: Any, piece: Piece) -> tuple[Any, Any]:
        checkpoints.save(state, piece.env_steps, chunk=chunk)
        restored = checkpoints.restore(
            jax.eval_shape(one.init),
            shardings=one.shardings,
            chunk=lambda: Template(jax.eval_shape(one.begin_chunk), one.chunk_shardings),
        )
        assert restored is not None
        assert restored.env_steps == piece.env_steps
        return restored.state, restored.chunk

    lengths = itertools.cycle((3, 40))
    whole, expected = one.advance(one.init())
    split, found, pieces = in_pieces(one, one.init(), lambda: next(lengths), saved)
    assert len(pieces) > 2
    assert_equal(whole, split)
    assert_same(expected, found)
    restored = checkpoints.restore(jax.eval_shape(one.init), shardings=one.shardings)
    assert restored is not None
    assert restored.chunk is None, "for one who wants the networks alone"


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
    assert len(compiled) == before + 2
    for _ in range(2):
        state, _, pieces = in_pieces(one, state, lambda: 33)
        assert len(pieces) > 2
    assert len(compiled) == before + 2


def test_a_chunk_is_ended_once_and_whole() -> None:
    one = trainer("deep-sea", "bdqn")
    state, chunk, piece = one.run_piece(one.init(), one.begin_chunk(), 2)
    assert (piece.iterations, piece.is_last) == (2, False)
    with pytest.raises(ValueError, match="2 of 100 iterations of the chunk are done"):
        one.end_chunk(state, chunk)
    with pytest.raises(ValueError, match="a piece of 0 iterations, of a chunk with 98 left"):
        one.run_piece(state, chunk, 0)
