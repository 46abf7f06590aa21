"""Presets of MinAtar's games."""

from collections.abc import Mapping
from dataclasses import replace

from emcts.agents.bdqn.settings import BdqnSettings
from emcts.agents.builtin_tasks import MinAtarOptions
from emcts.agents.presets import gumbel
from emcts.agents.settings import LearnedModelSettings, NetworkSettings, Settings

DEFAULT = Settings(
    steps=5_000_000,
    env=MinAtarOptions(),
    model=NetworkSettings(width=128),
    search=gumbel.SEARCH,
    exploration=gumbel.EXPLORATION,
    novelty=gumbel.NOVELTY,
    targets=gumbel.TARGETS,
    replay=gumbel.REPLAY,
    schedule=gumbel.SCHEDULE,
    evaluation=replace(gumbel.EVALUATION, every=102_400),
)
"""The paper's list with a hash table for as many states as there are steps. No better one was looked for."""

PAPER = replace(DEFAULT, novelty=replace(gumbel.NOVELTY, hash_bits=24))
"""The paper's list for SUBLEQ, which it also used here, with the full hash."""

LEARNED = Settings(
    steps=DEFAULT.steps,
    env=DEFAULT.env,
    model=LearnedModelSettings(
        latent=128, representation=(), dynamics=(128, 128), heads=(128,), ube_head=(128,)
    ),
    search=gumbel.SEARCH,
    exploration=gumbel.EXPLORATION,
    novelty=gumbel.DISAGREEMENT,
    targets=gumbel.TARGETS,
    replay=replace(gumbel.REPLAY, batch_size=820, sequence=5),
    schedule=gumbel.SCHEDULE,
    evaluation=DEFAULT.evaluation,
)
"""A learned model with a consistency loss. No better one was looked for."""

PAPER_LEARNED = replace(LEARNED, loss=replace(LEARNED.loss, consistency=0.0))
"""The paper's list with a value-equivalent model; it has no MuZero here to compare with."""

PRESETS: Mapping[str, Mapping[str, object]] = {
    "simulator": {"default": DEFAULT, "paper-minatar": PAPER},
    "learned": {"default": LEARNED, "paper-minatar": PAPER_LEARNED},
    "bdqn": {"default": BdqnSettings(steps=100_000, env=MinAtarOptions())},
}

SMOKE = {**gumbel.SMOKE, "model.channels": 2, "evaluation.max_steps": 5}
