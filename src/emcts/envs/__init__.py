"""Worlds to search and learn in, behind one small protocol (`emcts.envs.base`)."""

from emcts.envs.adapters import from_gymnasium, from_gymnax, from_pgx
from emcts.envs.base import AnyEnvironment, Environment, Outcome
from emcts.envs.contract import Checked, ContractError, check
from emcts.envs.deep_sea import DeepSea
from emcts.envs.minatar import MinAtar
from emcts.envs.subleq import Subleq
from emcts.envs.wrappers import auto_reset, time_limit

__all__ = [
    "AnyEnvironment",
    "Checked",
    "ContractError",
    "DeepSea",
    "Environment",
    "MinAtar",
    "Outcome",
    "Subleq",
    "auto_reset",
    "check",
    "from_gymnasium",
    "from_gymnax",
    "from_pgx",
    "time_limit",
]
