"""Trainings that take moments, with the real agents. One trainer of a kind serves all tests: it holds no state."""

import dataclasses
import functools
from typing import Any

import numpy as np
from emcts.runs.trainer import Progress

from emcts.agents import catalogue
from emcts.training.seeds import SeedTrainer

DEEP_SEA: dict[str, Any] = {
    "size": 5,
    "width": 32,
    "simulations": 12,
    "batch_size": 32,
    "updates_per_iteration": 5,
    "learning_rate": 3e-3,
    "replay_capacity": 2000,
    "warm_up": 40,
    "total_env_steps": 1000,
    "steps_between_evaluations": 100,
    "novelty_width": 64,
}
GUMBEL: dict[str, Any] = {
    "episodes": 4,
    "width": 16,
    "simulations": 4,
    "batch_size": 16,
    "moves_per_iteration": 4,
    "updates_per_iteration": 2,
    "hash_bits": 12,
    "replay_capacity": 200,
    "warm_up": 32,
    "evaluation_episodes": 2,
    "total_env_steps": 256,
    "steps_between_evaluations": 64,
}
SUBLEQ = {**GUMBEL, "total_env_steps": 2048, "task": "negate-positives", "word_size": 32, "max_words": 4}
MINATAR = {**GUMBEL, "channels": 2, "evaluation_steps": 5}
BDQN: dict[str, Any] = {
    "ensemble_size": 5,
    "batch_size": 32,
    "replay_capacity": 2000,
    "warm_up": 40,
    "total_env_steps": 1000,
    "steps_between_evaluations": 100,
}
LEARNED: dict[str, Any] = {"sequence": 3, "dynamics": (64,)}
LEARNED_SEA = {
    **{name: value for name, value in DEEP_SEA.items() if name != "width"},
    **LEARNED,
    "latent": 32,
    "representation": (32,),
    "heads": (32,),
    "ube_head": (32,),
}
LEARNED_MINATAR = {**MINATAR, **LEARNED, "ensemble_size": 2}
SUBLEQ_BDQN = {**BDQN, "task": "negate-positives", "word_size": 32, "max_words": 4}
MINATAR_BDQN = {**BDQN, "evaluation_steps": 5}
CHANGES = {"deep-sea": DEEP_SEA, "subleq": SUBLEQ, "minatar-breakout": MINATAR, "minatar-asterix": MINATAR}
CHANGES_OF_AGENTS = {
    **{("deep-sea", agent): LEARNED_SEA for agent in ("e-mz", "mz-ube", "mz")},
    **{("minatar-breakout", agent): LEARNED_MINATAR for agent in ("e-mz", "mz-ube", "mz")},
    ("deep-sea", "bdqn"): {**BDQN, "size": 5},
    ("subleq", "bdqn"): SUBLEQ_BDQN,
    ("minatar-breakout", "bdqn"): MINATAR_BDQN,
}


@functools.cache
def trainer(
    environment: str,
    agent: str,
    seeds: tuple[int, ...] = (0, 1),
    novelty: str | None = None,
    preset: str | None = None,
) -> SeedTrainer:
    changes = CHANGES_OF_AGENTS.get((environment, agent), CHANGES[environment])
    settings = dataclasses.replace(catalogue.settings(environment, agent, preset), **changes)
    if novelty is not None:
        settings = dataclasses.replace(settings, novelty=novelty)
    return catalogue.trainer(environment, agent, settings, seeds)


def advanced(one: SeedTrainer, state: Any, chunks: int) -> tuple[Any, list[Progress]]:
    reports = []
    for _ in range(chunks):
        state, progress = one.advance(state)
        reports.append(progress)
    return state, reports


def table(reports: list[Progress], name: str) -> np.ndarray:
    """A metric, for each chunk and seed."""
    return np.array([report.metrics[name] for report in reports])


def options(changes: dict[str, Any]) -> list[str]:
    """The same changes, as they are given at the command line."""
    return [part for name, value in changes.items() for part in (f"--{name.replace('_', '-')}", str(value))]
