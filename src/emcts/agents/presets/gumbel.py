"""What the presets of SUBLEQ and MinAtar have in common: the paper's list for SUBLEQ, which it also used for MinAtar.

Agents search with Gumbel's search, and learn an exploration policy. Rewards are known, and states are novel or not.
"""

from emcts.agents.settings import (
    EvaluationSettings,
    ExplorationSettings,
    NoveltySettings,
    ReplaySettings,
    ScheduleSettings,
    SearchSettings,
    TargetSettings,
)

SEARCH = SearchSettings(simulations=32, discount=0.97, policy="gumbel", temperature=1.0)
EXPLORATION = ExplorationSettings(beta=1.0, betas="spaced", policy_head=True)
NOVELTY = NoveltySettings(kind="hash-set", max_variance=1.0, leaf_horizon="single", count_epsilon=1.0)
TARGETS = TargetSettings(ube="search-edge")
REPLAY = ReplaySettings(capacity=200_000, batch_size=4096, priority="value-error")
SCHEDULE = ScheduleSettings(num_envs=128, rollout_length=32, updates=4, warmup_steps=5000)
EVALUATION = EvaluationSettings(every=20_480, episodes=32)
DISAGREEMENT = NoveltySettings(
    kind="ensemble",
    update="training",
    max_variance=1.0,
    leaf_horizon="endless",
    count_epsilon=1.0,
    ensemble_size=5,
    ensemble_hidden=(128, 128),
    learning_rate=1e-3,
    adam_epsilon=1e-8,
    power=1.0,
    saturation=None,
)
"""The novelty of learned models: an ensemble that predicts the next latent state."""

SMOKE = {
    "steps": 128,
    "evaluation.every": 64,
    "evaluation.episodes": 1,
    "search.simulations": 4,
    "model.width": 8,
    "model.latent": 8,
    "model.dynamics": (8,),
    "novelty.hash_bits": 10,
    "novelty.ensemble_hidden": (8,),
    "ensemble.hidden": (8,),
    "replay.batch_size": 16,
    "replay.capacity": 200,
    "schedule.num_envs": 4,
    "schedule.rollout_length": 4,
    "schedule.updates": 1,
    "schedule.warmup_steps": 32,
}
"""Settings that make a training take seconds; an agent has some of them."""
