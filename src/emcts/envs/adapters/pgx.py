"""Single-player games of pgx (2.0 and later, where `step` takes a key).

env = from_pgx(pgx.make("2048"))
"""

import dataclasses
import functools
from typing import Protocol, TypeVar, runtime_checkable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from emcts.envs.base import Outcome
from emcts.types import Key

SelfT = TypeVar("SelfT")


@runtime_checkable
class PgxState(Protocol):
    """The fields of pgx's states that are used here."""

    @property
    def observation(self) -> Array: ...

    @property
    def rewards(self) -> Array: ...

    @property
    def terminated(self) -> Array: ...

    @property
    def truncated(self) -> Array: ...

    @property
    def legal_action_mask(self) -> Array: ...

    def replace(self: SelfT, *, rewards: Array) -> SelfT: ...


@runtime_checkable
class PgxGame(Protocol):
    """The members of pgx's games that are used here."""

    @property
    def id(self) -> str: ...

    @property
    def num_players(self) -> int: ...

    def init(self, key: Key) -> PgxState: ...

    def step(self, state: PgxState, action: Array, key: Key) -> PgxState: ...


@dataclasses.dataclass(frozen=True)
class PgxEnvironment:
    """A pgx game. The state is pgx's own, with its rewards set to 0: `Outcome` has them."""

    game: PgxGame

    def __post_init__(self) -> None:
        if self.game.num_players != 1:
            raise ValueError(
                f"{self.game.id} is a game for {self.game.num_players} players: "
                "only games for one can be environments here"
            )

    @property
    def max_steps(self) -> int | None:
        """Known for 2048 alone: a move adds at least 2 to a sum of 16 tiles that is below 2**18."""
        return 2**17 if self.game.id == "2048" else None

    @functools.cached_property
    def num_actions(self) -> int:
        return jax.eval_shape(self.init, jax.random.key(0)).legal_action_mask.shape[0]

    def init(self, key: Key) -> PgxState:
        with jax.numpy_rank_promotion("allow"):
            return self.game.init(key)

    def step(self, state: PgxState, action: Int[Array, ""], key: Key) -> tuple[PgxState, Outcome]:
        with jax.numpy_rank_promotion("allow"):
            state = jax.tree.map(jnp.asarray, self.game.step(state, action, key))
        outcome = Outcome(state.rewards[0], state.terminated, state.truncated)
        # pgx keeps the last reward in its state: left there, a state that is over would change once more.
        return state.replace(rewards=jnp.zeros_like(state.rewards)), outcome

    def observe(self, state: PgxState) -> Array:
        return state.observation

    def legal(self, state: PgxState) -> Bool[Array, "A"]:
        return state.legal_action_mask


def from_pgx(game: PgxGame) -> PgxEnvironment:
    """Makes an environment from a game object of pgx, such as `pgx.make("2048")`."""
    return PgxEnvironment(game)
