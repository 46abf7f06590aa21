"""Trainings that take moments, with the real agents. One trainer of a kind serves all tests: it holds no state."""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from emcts.agents.catalogue import Registered
from emcts.runs.checkpoints import Checkpoints, Restored, Template
from emcts.runs.config import override
from emcts.training.progress import Piece, Progress
from emcts.training.seeds import SeedTrainer

CATALOGUE = Registered()
Changes = dict[str, Any]  # of settings, by dotted path

COMMON: Changes = {
    "steps": 1000,
    "evaluation.every": 100,
    "replay.batch_size": 32,
    "replay.capacity": 2000,
    "schedule.warmup_steps": 40,
}
PLANNING: Changes = {
    **COMMON,
    "search.simulations": 12,
    "optimiser.learning_rate": 3e-3,
    "schedule.updates": 5,
    "novelty.rnd_width": 64,
}
DEEP_SEA: Changes = {**PLANNING, "env.size": 5, "model.width": 32}
LEARNED: Changes = {"replay.sequence": 3, "model.dynamics": (64,)}
LEARNED_DEEP_SEA: Changes = {
    **PLANNING,
    **LEARNED,
    "env.size": 5,
    "model.latent": 32,
    "model.representation": (32,),
    "model.heads": (32,),
    "model.ube_head": (32,),
}
GUMBEL: Changes = {
    "steps": 256,
    "evaluation.every": 64,
    "evaluation.episodes": 2,
    "search.simulations": 4,
    "replay.batch_size": 16,
    "replay.capacity": 200,
    "schedule.num_envs": 4,
    "schedule.rollout_length": 4,
    "schedule.updates": 2,
    "schedule.warmup_steps": 32,
}
SUBLEQ_ENV: Changes = {"env.task": "negate-positives", "env.word_size": 32, "env.max_words": 4}
SUBLEQ: Changes = {**GUMBEL, **SUBLEQ_ENV, "steps": 2048, "model.width": 16, "novelty.hash_bits": 12}
SHORT_GAMES: Changes = {"evaluation.max_steps": 5}
MINATAR: Changes = {
    **GUMBEL,
    **SHORT_GAMES,
    "model.width": 16,
    "model.channels": 2,
    "novelty.hash_bits": 12,
}
LEARNED_MINATAR: Changes = {
    **GUMBEL,
    **SHORT_GAMES,
    **LEARNED,
    "model.latent": 16,
    "model.channels": 2,
    "model.heads": (16,),
    "model.ube_head": (16,),
    "novelty.ensemble_size": 2,
    "novelty.ensemble_hidden": (16, 16),
}
BDQN: Changes = {**COMMON, "ensemble.size": 5}
SIMULATOR_AGENTS, LEARNED_AGENTS = ("e-az", "az-ube", "az"), ("e-mz", "mz-ube", "mz")


def _changes(environment: str, agent: str) -> Changes:
    if agent == "bdqn":
        of_env = {"deep-sea": {"env.size": 5}, "subleq": SUBLEQ_ENV}
        return {**BDQN, **of_env.get(environment, SHORT_GAMES)}
    simulator = {"deep-sea": DEEP_SEA, "subleq": SUBLEQ}
    learned = {"deep-sea": LEARNED_DEEP_SEA}
    if agent in LEARNED_AGENTS:
        return learned.get(environment, LEARNED_MINATAR)
    return simulator.get(environment, MINATAR)


def settings(
    environment: str, agent: str, changes: Mapping[str, Any] | None = None, preset: str | None = None
) -> Any:
    """Settings of a preset at which a training takes moments, with some more of them changed."""
    tiny = {**_changes(environment, agent), **(changes or {})}
    return override(CATALOGUE.settings(environment, agent, preset), tiny)


def trainer(
    environment: str,
    agent: str,
    seeds: tuple[int, ...] = (0, 1),
    novelty: str | None = None,
    preset: str | None = None,
) -> SeedTrainer[Any]:
    """Returns the one trainer of its kind. Its programs are compiled once for all tests of a process."""
    return _trainer(environment, agent, seeds, novelty, preset)


@functools.cache
def _trainer(
    environment: str, agent: str, seeds: tuple[int, ...], novelty: str | None, preset: str | None
) -> SeedTrainer[Any]:
    changes = {} if novelty is None else {"novelty.kind": novelty}
    return CATALOGUE.trainer(environment, agent, settings(environment, agent, changes, preset), seeds)


def with_steps(one: SeedTrainer[Any], steps: int) -> SeedTrainer[Any]:
    """The same trainer, with its compiled programs, for another number of steps."""
    other = dataclasses.replace(one, total_env_steps=steps)
    fields = {field.name for field in dataclasses.fields(one)}
    assert one._piece is not None, "made now, to be shared"
    assert one._evaluation is not None
    vars(other).update({name: value for name, value in vars(one).items() if name not in fields})
    return other


def advanced(one: SeedTrainer[Any], state: Any, chunks: int) -> tuple[Any, list[Progress]]:
    reports = []
    for _ in range(chunks):
        state, progress = one.advance(state)
        reports.append(progress)
    return state, reports


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


def assert_same_progress(one: Progress, two: Progress) -> None:
    assert (one.env_steps, one.train_steps, one.artifacts) == (two.env_steps, two.train_steps, two.artifacts)
    assert one.metrics.keys() == two.metrics.keys()
    for name, values in one.metrics.items():
        np.testing.assert_array_equal(values, two.metrics[name], err_msg=name)


def table(reports: list[Progress], name: str) -> np.ndarray:
    """A metric, for each chunk and seed."""
    return np.array([report.metrics[name] for report in reports])


def options(changes: Mapping[str, Any]) -> list[str]:
    """The same changes, as they are given at the command line."""
    return [part for path, value in changes.items() for part in (f"--{path.replace('_', '-')}", str(value))]


def assert_equal(one: Any, two: Any, *, rtol: float = 0.0, atol: float = 0.0) -> None:
    """Compares leaf by leaf; random keys by their data."""
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(two), strict=True):
        if jax.dtypes.issubdtype(a.dtype, jax.dtypes.prng_key):
            a, b = jax.random.key_data(a), jax.random.key_data(b)
        np.testing.assert_allclose(a, b, rtol=rtol, atol=atol)


def restored(one: SeedTrainer[Any], checkpoints: Checkpoints) -> Restored:
    """Returns what the last checkpoint has, sharded as a run does it: the compiled programs then serve it too."""
    found = checkpoints.restore(
        jax.eval_shape(one.init),
        shardings=one.shardings,
        chunk=lambda: Template(jax.eval_shape(one.begin_chunk), one.chunk_shardings),
    )
    assert found is not None
    return found


def restored_state(one: SeedTrainer[Any], checkpoints: Checkpoints) -> Any:
    return restored(one, checkpoints).state


def assert_resumes(one: SeedTrainer[Any], folder: Path) -> list[Progress]:
    """Compares a training that was saved and restored after one chunk with one that was not, for two more chunks.

    Returns the reports of these two.
    """
    state, _ = advanced(one, one.init(), 1)
    checkpoints = Checkpoints(folder / "checkpoints")
    checkpoints.save(state, 100)
    state, reports = advanced(one, state, 2)
    resumed, later = advanced(one, restored_state(one, checkpoints), 2)
    assert_equal(state, resumed)
    for first, second in zip(reports, later, strict=True):
        assert_same_progress(first, second)
    return reports
