"""The presets of an environment that nobody here has tuned numbers for, and the values that depend on it.

A preset says None where the value depends on the environment; `fill_open` decides it once the environment is made.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

from emcts.agents.bdqn.settings import BdqnSettings
from emcts.agents.novelty import default_kind
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

STOCHASTIC_OUTCOMES = (
    8  # of each action that a search samples: docs/notes/stochastic-worlds.md has the reasons
)

STEPS = 100_000
MOST_EVALUATIONS, EVALUATED_AFTER = 50, 2_048  # steps, or more
VALUE_STEPS, SUMMED_VALUE_STEPS = 1, 5  # the second where values are sums of many rewards
SEARCH = replace(gumbel.SEARCH, simulations=16, discount=0.99, outcomes=None)
NOVELTY = replace(
    gumbel.NOVELTY,
    kind=None,
    return_range=None,
    max_variance=None,
    rnd_width=128,
    ensemble_size=5,
    ensemble_hidden=(64,),
    learning_rate=1e-3,
)
REPLAY = ReplaySettings(batch_size=128, priority="value-error")
SCHEDULE = ScheduleSettings(num_envs=8, rollout_length=8, updates=8, warmup_steps=256)
EVALUATION = EvaluationSettings(every=None, episodes=8)

SIMULATOR = Settings(
    steps=STEPS,
    env=EnvOptions(),
    model=NetworkSettings(torso="shared", width=128, normalise_observations=True, support="wide"),
    search=SEARCH,
    exploration=gumbel.EXPLORATION,
    novelty=NOVELTY,
    targets=replace(gumbel.TARGETS, value_steps=None),
    replay=REPLAY,
    schedule=SCHEDULE,
    evaluation=EVALUATION,
)
"""For az, az-ube and e-az. Values are n-step returns: docs/notes/any-environment.md has what else was tried."""

LEARNED = Settings(
    steps=STEPS,
    env=EnvOptions(),
    model=LearnedModelSettings(
        kind=None,
        torso="shared",
        normalise_observations=True,
        latent=128,
        representation=(128,),
        dynamics=(256, 256),
        heads=(128, 128),
        ube_head=(128, 128),
        support="wide",
    ),
    search=SEARCH,
    exploration=gumbel.EXPLORATION,
    novelty=replace(
        gumbel.DISAGREEMENT,
        kind=None,
        return_range=None,
        max_variance=None,
        leaf_horizon="single",
        power=2.0,
        saturation=0.4,
    ),
    targets=replace(gumbel.TARGETS, value_steps=SUMMED_VALUE_STEPS),
    replay=replace(REPLAY, batch_size=64, sequence=5),
    schedule=SCHEDULE,
    evaluation=EVALUATION,
)
"""For mz, mz-ube and e-mz. The model predicts observations if they are small, else latent states."""

BDQN = BdqnSettings(
    steps=STEPS, env=EnvOptions(), return_range=None, normalise_observations=True, evaluation=EVALUATION
)

PRESETS: Mapping[str, Mapping[str, object]] = {
    "simulator": {"default": SIMULATOR},
    "learned": {"default": LEARNED},
    "bdqn": {"default": BDQN},
}

SMOKE = {**gumbel.SMOKE, "model.channels": 2, "evaluation.max_steps": 5, "schedule.warmup_steps": 48}


def fill_open(settings: SettingsT, task: Task) -> SettingsT:
    """Returns the settings with a value for each that is None and depends on the environment. Others are kept."""
    filled: Any = settings
    filled = _fill(
        filled,
        "evaluation",
        every=EVALUATED_AFTER * max(1, math.ceil(filled.steps / (MOST_EVALUATIONS * EVALUATED_AFTER))),
        max_steps=task.max_steps,
        solved_return=task.solved_return,
        baseline_return=None if task.found is None else task.found.baseline_return,
    )
    if isinstance(filled.env, EnvOptions) and task.found is not None:
        filled = _fill(filled, "env", deterministic=task.is_deterministic)
    if not isinstance(filled, Settings):
        return filled
    learned = isinstance(filled.model, LearnedModelSettings)
    one = learned or task.is_deterministic
    filled = _fill(filled, "search", outcomes=1 if one else STOCHASTIC_OUTCOMES)
    filled = _fill(filled, "targets", value_steps=_value_steps(task))
    if learned:
        filled = _fill(filled, "model", kind=_model_kind(task))
    return _fill(
        _with_estimator(filled, task),
        "novelty",
        max_variance=1.0 if task.bounded_returns else None,
    ).with_table_bits()


def _fill(settings: Any, group: str, **values: object) -> Any:
    """Replaces the values of a group that are None."""
    before = getattr(settings, group)
    left_open = {name: value for name, value in values.items() if getattr(before, name) is None}
    return replace(settings, **{group: replace(before, **left_open)})


def _value_steps(task: Task) -> int:
    """One where it can be: a network memorises what chance, or an exploring agent, did in the steps of a target.

    But a value that is the sum of many rewards would move by one of them with each copy of the target networks.
    """
    summed = task.found is not None and task.found.dense and task.is_deterministic
    return SUMMED_VALUE_STEPS if summed else VALUE_STEPS


def default_settings(task: Task, steps: int) -> Settings[EnvOptions, NetworkSettings]:
    """Returns the settings of the agents that plan with a simulator (az, az-ube and e-az) for a task."""
    return fill_open(replace(SIMULATOR, steps=steps), task)


def _with_estimator(settings: Settings[Any, Any], task: Task) -> Settings[Any, Any]:
    """The settings with an estimator of novelty that suits the observation, where they leave it open."""
    novelty = settings.novelty
    if novelty.kind is not None and None not in (novelty.hash, novelty.bins):
        return settings
    learned = isinstance(settings.model, LearnedModelSettings)
    changes = default_kind(task, learned=learned, kind=novelty.kind, input_name=novelty.input)
    filled: Settings[Any, Any] = _fill(settings, "novelty", **changes)
    return filled


def _model_kind(task: Task) -> str:
    """Observations stay what they are while a representation changes: novelty of them is more reliable."""
    return "abstracted" if task.anchor is None or task.encoder is not None else "anchored"
