"""Worlds to search and learn in, behind one small protocol (`emcts.envs.base`)."""

from emcts.envs.base import AnyEnvironment, Environment, Outcome
from emcts.envs.contract import Checked, ContractError, check
from emcts.envs.deep_sea import DeepSea
from emcts.envs.wrappers import auto_reset, time_limit

__all__ = [
    "AnyEnvironment",
    "Checked",
    "ContractError",
    "DeepSea",
    "Environment",
    "Outcome",
    "auto_reset",
    "check",
    "time_limit",
]
