"""MinAtar's games as tasks."""

import dataclasses
from collections.abc import Callable

from emcts.agents.task import Task
from emcts.envs import MinAtar
from emcts.training.env_factory import SharedEnv

MAX_STEPS = 1000  # of an evaluation episode: games may never end


@dataclasses.dataclass(frozen=True)
class MinAtarOptions:
    """The environment."""

    sticky_action_prob: float = 0.1
    """with which the last action is repeated"""


def minatar(game: str) -> Callable[[MinAtarOptions], Task]:
    """Returns the task of a game."""
    return lambda options: Task(
        env_factory=SharedEnv(MinAtar(game, options.sticky_action_prob)), max_steps=MAX_STEPS
    )
