"""Presets of SUBLEQ."""

from collections.abc import Mapping
from dataclasses import replace

from emcts.agents.bdqn.settings import BdqnSettings
from emcts.agents.builtin_tasks import SubleqOptions
from emcts.agents.presets import gumbel
from emcts.agents.settings import LearnedModelSettings, NetworkSettings, Settings

PAPER = Settings(
    steps=2_000_000,
    env=SubleqOptions(),
    model=NetworkSettings(width=256),
    search=gumbel.SEARCH,
    exploration=gumbel.EXPLORATION,
    novelty=replace(gumbel.NOVELTY, hash_bits=24),
    targets=gumbel.TARGETS,
    replay=gumbel.REPLAY,
    schedule=gumbel.SCHEDULE,
    evaluation=gumbel.EVALUATION,
)
"""The paper's list, with the IO hash."""

DEFAULT = replace(
    PAPER,
    search=replace(gumbel.SEARCH, discount=0.9),
    novelty=replace(gumbel.NOVELTY, kind="hash-counts"),
    replay=replace(gumbel.REPLAY, capacity=1_000_000),
)
"""What worked best here: docs/notes/presets.md has the reasons."""

LEARNED = Settings(
    steps=DEFAULT.steps,
    env=DEFAULT.env,
    model=LearnedModelSettings(latent=128, dynamics=(128, 128), heads=(128,), ube_head=(128,)),
    search=DEFAULT.search,
    exploration=gumbel.EXPLORATION,
    novelty=gumbel.DISAGREEMENT,
    targets=gumbel.TARGETS,
    replay=replace(DEFAULT.replay, batch_size=820, sequence=5),
    schedule=gumbel.SCHEDULE,
    evaluation=gumbel.EVALUATION,
)
"""A learned model with the numbers of MinAtar's. No better ones were looked for."""

PRESETS: Mapping[str, Mapping[str, object]] = {
    "simulator": {"default": DEFAULT, "paper-subleq": PAPER},
    "learned": {"default": LEARNED},
    "bdqn": {"default": BdqnSettings(steps=100_000, env=SubleqOptions())},
}

SMOKE = {**gumbel.SMOKE, "env.max_words": 3}
