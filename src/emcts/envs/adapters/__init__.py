"""Environments of other libraries behind the protocol. Nothing here imports them: the caller makes the object."""

from emcts.envs.adapters.gymnasium import from_gymnasium
from emcts.envs.adapters.gymnax import from_gymnax
from emcts.envs.adapters.pgx import from_pgx
from emcts.envs.adapters.xminigrid import from_xminigrid

__all__ = ["from_gymnasium", "from_gymnax", "from_pgx", "from_xminigrid"]
