"""Presets of Deep Sea."""

from collections.abc import Mapping
from dataclasses import replace

from emcts.agents.bdqn.settings import BdqnSettings
from emcts.agents.builtin_tasks import DeepSeaOptions
from emcts.agents.mcts.agent import LossWeights
from emcts.agents.settings import (
    EvaluationSettings,
    ExplorationSettings,
    LearnedModelSettings,
    NetworkSettings,
    NoveltySettings,
    OptimiserSettings,
    ReplaySettings,
    ScheduleSettings,
    SearchSettings,
    Settings,
    TargetSettings,
)

PAPER_SEARCH = SearchSettings(temperature=1.0, gumbel_scale=0.0)
PAPER_SCHEDULE = ScheduleSettings(updates=10, warmup_steps=300)
PAPER_EVALUATION = EvaluationSettings(episodes=8)
PAPER_IMPORTANCE = (0.4, 1.0)

SIMULATOR = Settings(
    steps=10_000,
    env=DeepSeaOptions(),
    model=NetworkSettings(),
    search=SearchSettings(gumbel_scale=0.0, backup_exponent=None),
    novelty=NoveltySettings(unseen_variance=3.0, rnd_width=512),
    targets=TargetSettings(ube_depth=None),
    replay=ReplaySettings(importance=PAPER_IMPORTANCE, recent=128),
    loss=LossWeights(value=0.5, policy=0.5, ube=0.125),
)
"""What worked best here for agents with a simulator: docs/notes/presets.md has the reasons."""

PAPER_SIMULATOR = replace(
    SIMULATOR,
    steps=45_000,
    env=DeepSeaOptions(size=40),
    search=PAPER_SEARCH,
    exploration=ExplorationSettings(beta=10.0),
    novelty=NoveltySettings(
        kind="rnd",
        adam_epsilon=1e-8,
        power=1.0,
        saturation=None,
        reward_noise=False,
        leaf_horizon="endless",
    ),
    targets=TargetSettings(search="puct", value_steps=5, ube_steps=1, fraction=0.99),
    replay=ReplaySettings(priority="value-error", importance=PAPER_IMPORTANCE, sequence=5),
    optimiser=OptimiserSettings(5e-4),
    schedule=PAPER_SCHEDULE,
    evaluation=PAPER_EVALUATION,
)
"""The paper's tables for agents with a simulator."""

ABSTRACTED = Settings(
    steps=10_000,
    env=DeepSeaOptions(),
    model=LearnedModelSettings(latent=256),
    search=SearchSettings(gumbel_scale=0.0),
    exploration=ExplorationSettings(beta=1.0),
    novelty=NoveltySettings(unseen_variance=3.0, ensemble_size=5, ensemble_hidden=(256, 256)),
    replay=replace(SIMULATOR.replay, sequence=5, batch_size=64),
    loss=LossWeights(value=0.5, policy=0.5, ube=4.0, consistency=1.0),
)
"""What worked best here for an abstracted model: docs/notes/presets.md has the reasons."""

ANCHORED = replace(
    ABSTRACTED,
    model=LearnedModelSettings(kind="anchored"),
    exploration=ExplorationSettings(beta=10.0),
    novelty=replace(ABSTRACTED.novelty, kind="rnd", saturation=0.2, adam_epsilon=1e-8),
    loss=replace(ABSTRACTED.loss, ube=0.125),
)
"""The same for an anchored model, whose predictions are novel; no other epsilon of Adam was run with it."""

PAPER_ABSTRACTED = replace(
    ABSTRACTED,
    steps=35_000,
    env=DeepSeaOptions(size=40),
    model=LearnedModelSettings(representation=(512, 512), dynamics=(1024, 1024, 1024)),
    search=PAPER_SEARCH,
    novelty=replace(
        ABSTRACTED.novelty,
        count_epsilon=0.5,
        unseen_variance=2.0,
        reward_noise=False,
        leaf_horizon="endless",
    ),
    targets=TargetSettings(search="puct", value_steps=5, ube="root", ube_steps=1, fraction=0.99),
    replay=replace(SIMULATOR.replay, sequence=5, priority="value-error"),
    loss=LossWeights(value=0.5, policy=0.5, ube=0.25, consistency=0.0),
    optimiser=OptimiserSettings(5e-4),
    schedule=PAPER_SCHEDULE,
    evaluation=PAPER_EVALUATION,
)
"""The paper's tables for an abstracted model."""

PAPER_ANCHORED = replace(
    PAPER_ABSTRACTED,
    steps=45_000,
    model=replace(PAPER_ABSTRACTED.model, kind="anchored", heads=(256, 256), ube_head=(256, 256)),
    exploration=ExplorationSettings(beta=10.0),
    novelty=replace(
        PAPER_ABSTRACTED.novelty,
        kind="rnd",
        unseen_variance=0.001,
        adam_epsilon=1e-8,
        power=1.0,
        saturation=None,
    ),
    targets=replace(PAPER_ABSTRACTED.targets, ube="lookahead"),
    replay=replace(PAPER_ABSTRACTED.replay, recent=0),
    loss=replace(PAPER_ABSTRACTED.loss, ube=0.125, consistency=1.0),
)
"""The paper's tables for an anchored model."""

BDQN = BdqnSettings(steps=20_000, env=DeepSeaOptions())
PAPER_BDQN = replace(BDQN, steps=400_000, env=DeepSeaOptions(size=40))
"""The paper's, for as many episodes as bsuite plays: 10,000."""

PRESETS: Mapping[str, Mapping[str, object]] = {
    "simulator": {"default": SIMULATOR, "paper-deep-sea": PAPER_SIMULATOR},
    "learned": {
        "default": ABSTRACTED,
        "anchored": ANCHORED,
        "paper-deep-sea-abstracted": PAPER_ABSTRACTED,
        "paper-deep-sea-anchored": PAPER_ANCHORED,
    },
    "bdqn": {"default": BDQN, "paper-deep-sea": PAPER_BDQN},
}

SMOKE = {
    "env.size": 4,
    "steps": 600,
    "evaluation.every": 60,
    "evaluation.episodes": 1,
    "search.simulations": 3,
    "model.width": 8,
    "model.latent": 8,
    "model.representation": (8,),
    "model.dynamics": (8,),
    "model.heads": (8,),
    "model.ube_head": (8,),
    "ensemble.hidden": (8,),
    "replay.batch_size": 16,
    "replay.capacity": 500,
    "replay.recent": 0,
    "schedule.updates": 1,
    "schedule.warmup_steps": 50,
}
"""Settings that make a training take seconds; an agent has some of them."""
