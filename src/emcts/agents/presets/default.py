"""Settings for an environment that has no preset: small numbers, for a first training on a CPU."""

from dataclasses import replace

from emcts.agents.presets import gumbel
from emcts.agents.settings import (
    EvaluationSettings,
    NetworkSettings,
    ReplaySettings,
    ScheduleSettings,
    Settings,
)
from emcts.agents.task import Task


def default_settings(task: Task, steps: int) -> Settings[None, NetworkSettings]:
    """Returns settings of the agents that plan with a simulator: az, az-ube and e-az.

    States are novel by their counts. The variance of a value is at most 1 if the returns of the task are bounded.
    """
    return Settings(
        steps=steps,
        env=None,
        model=NetworkSettings(width=64),
        search=replace(gumbel.SEARCH, simulations=16),
        exploration=gumbel.EXPLORATION,
        novelty=replace(
            gumbel.NOVELTY,
            kind="counts" if task.is_finite else "hash-counts",
            max_variance=1.0 if task.bounded_returns else None,
        ),
        targets=gumbel.TARGETS,
        replay=ReplaySettings(batch_size=256, priority="value-error"),
        schedule=ScheduleSettings(num_envs=8, rollout_length=16, updates=4, warmup_steps=256),
        evaluation=EvaluationSettings(every=640),
    )
