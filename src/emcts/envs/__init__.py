"""Worlds to search and learn in, behind one small protocol (`emcts.envs.base`)."""

from emcts.envs.base import AnyEnvironment, Environment, Outcome
from emcts.envs.deep_sea import DeepSea
from emcts.envs.wrappers import auto_reset, time_limit

__all__ = ["AnyEnvironment", "DeepSea", "Environment", "Outcome", "auto_reset", "time_limit"]
