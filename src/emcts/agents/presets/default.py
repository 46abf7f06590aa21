"""The presets of an environment that nobody here has tuned numbers for, and the values that depend on it.

A preset says None where the value depends on the environment; `fill_open` decides it once the environment is made.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

from emcts.agents.bdqn.settings import BdqnSettings
from emcts.agents.presets import gumbel
from emcts.agents.settings import (
    EvaluationSettings,
    LearnedModelSettings,
    NetworkSettings,
    ReplaySettings,
    ScheduleSettings,
    Settings,
)
from emcts.agents.task import EnvOptions, Task

SettingsT = TypeVar("SettingsT")

STEPS = 100_000
SCHEDULE = ScheduleSettings(num_envs=8, rollout_length=16, updates=4, warmup_steps=256)
EVALUATION = EvaluationSettings(every=2_560, episodes=8)

SIMULATOR = Settings(
    steps=STEPS,
    env=EnvOptions(),
    model=NetworkSettings(torso="shared", width=64, normalise_observations=True, support="wide"),
    search=replace(gumbel.SEARCH, simulations=16),
    exploration=gumbel.EXPLORATION,
    novelty=replace(gumbel.NOVELTY, kind=None, reward_range=None, max_variance=None, leaf_horizon=None),
    targets=gumbel.TARGETS,
    replay=ReplaySettings(batch_size=256, priority="value-error"),
    schedule=SCHEDULE,
    evaluation=EVALUATION,
)
"""For az, az-ube and e-az."""

LEARNED = Settings(
    steps=STEPS,
    env=EnvOptions(),
    model=LearnedModelSettings(
        torso="shared",
        normalise_observations=True,
        latent=64,
        representation=(64,),
        dynamics=(64, 64),
        heads=(64,),
        ube_head=(64,),
        support="wide",
    ),
    search=replace(gumbel.SEARCH, simulations=16),
    exploration=gumbel.EXPLORATION,
    novelty=replace(
        gumbel.DISAGREEMENT,
        kind=None,
        reward_range=None,
        max_variance=None,
        leaf_horizon=None,
        ensemble_hidden=(64, 64),
    ),
    targets=gumbel.TARGETS,
    replay=ReplaySettings(batch_size=64, sequence=5, priority="value-error"),
    schedule=SCHEDULE,
    evaluation=EVALUATION,
)
"""For mz, mz-ube and e-mz."""

BDQN = BdqnSettings(
    steps=STEPS, env=EnvOptions(), reward_range=None, normalise_observations=True, evaluation=EVALUATION
)

PRESETS: Mapping[str, Mapping[str, object]] = {
    "simulator": {"default": SIMULATOR},
    "learned": {"default": LEARNED},
    "bdqn": {"default": BDQN},
}

SMOKE = {**gumbel.SMOKE, "model.channels": 2, "evaluation.max_steps": 5}


def fill_open(settings: SettingsT, task: Task) -> SettingsT:
    """Returns the settings with a value for each that is None and depends on the environment. Others are kept."""
    filled: Any = settings
    filled = _fill(
        filled,
        "evaluation",
        max_steps=task.max_steps,
        solved_return=task.solved_return,
        baseline_return=None if task.found is None else task.found.baseline_return,
    )
    if isinstance(filled.env, EnvOptions) and task.found is not None:
        filled = _fill(filled, "env", deterministic=task.is_deterministic)
    if not isinstance(filled, Settings):
        return filled
    return _fill(
        filled,
        "novelty",
        kind=_novelty_kind(filled, task),
        leaf_horizon=_leaf_horizon(filled),
        max_variance=1.0 if task.bounded_returns else None,
    ).with_table_bits()


def _fill(settings: Any, group: str, **values: object) -> Any:
    """Replaces the values of a group that are None."""
    before = getattr(settings, group)
    left_open = {name: value for name, value in values.items() if getattr(before, name) is None}
    return replace(settings, **{group: replace(before, **left_open)})


def default_settings(task: Task, steps: int) -> Settings[EnvOptions, NetworkSettings]:
    """Returns the settings of the agents that plan with a simulator (az, az-ube and e-az) for a task."""
    return fill_open(replace(SIMULATOR, steps=steps), task)


def _novelty_kind(settings: Settings[Any, Any], task: Task) -> str:
    """Counts where states are few; of other states a hash of the observation, or of latent ones an ensemble."""
    if isinstance(settings.model, LearnedModelSettings):
        return "ensemble"
    return "counts" if task.is_finite else "hash-counts"


def _leaf_horizon(settings: Settings[Any, Any]) -> str:
    return "endless" if isinstance(settings.model, LearnedModelSettings) else "single"
