"""Deep Sea: the environment, its score in bsuite (regret), and its pictures (`emcts.envs.deep_sea.render`)."""

from emcts.envs.deep_sea.env import (
    GOAL_REWARD,
    MOVE_COST,
    SOLVED_BELOW,
    DeepSea,
    DeepSeaState,
    average_regret,
    episodes_to_solve,
    regret,
)

__all__ = [
    "GOAL_REWARD",
    "MOVE_COST",
    "SOLVED_BELOW",
    "DeepSea",
    "DeepSeaState",
    "average_regret",
    "episodes_to_solve",
    "regret",
]
