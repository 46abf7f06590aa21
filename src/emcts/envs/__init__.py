"""Environments to search and learn in, behind one small protocol (`emcts.envs.base`)."""

from emcts.envs.adapters import from_gymnasium, from_gymnax, from_pgx, from_xminigrid
from emcts.envs.base import (
    AnyEnvironment,
    ArtifactEnvironment,
    ArtifactRecord,
    Environment,
    FiniteEnvironment,
    GoalEnvironment,
    GridEnvironment,
    NamedActionsEnvironment,
    NoveltyEnvironment,
    Outcome,
    PackableEnvironment,
    RegretEnvironment,
    RenderableEnvironment,
)
from emcts.envs.contract import Checked, ContractError, check
from emcts.envs.deep_sea import DeepSea
from emcts.envs.minatar import MinAtar
from emcts.envs.subleq import Subleq
from emcts.envs.wrappers import auto_reset, time_limit

__all__ = [
    "AnyEnvironment",
    "ArtifactEnvironment",
    "ArtifactRecord",
    "Checked",
    "ContractError",
    "DeepSea",
    "Environment",
    "FiniteEnvironment",
    "GoalEnvironment",
    "GridEnvironment",
    "MinAtar",
    "NamedActionsEnvironment",
    "NoveltyEnvironment",
    "Outcome",
    "PackableEnvironment",
    "RegretEnvironment",
    "RenderableEnvironment",
    "Subleq",
    "auto_reset",
    "check",
    "from_gymnasium",
    "from_gymnax",
    "from_pgx",
    "from_xminigrid",
    "time_limit",
]
