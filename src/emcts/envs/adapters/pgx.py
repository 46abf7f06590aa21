"""Single-player games of pgx (2.0 and later, where `step` takes a key).

env = from_pgx(pgx.make("2048"))
"""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from emcts.envs.base import Outcome
from emcts.types import Key


@dataclasses.dataclass(frozen=True)
class PgxGame:
    """A pgx game. The state is pgx's own, with its rewards paid out: `Outcome` has them."""

    game: Any

    def __post_init__(self) -> None:
        if self.game.num_players != 1:
            raise ValueError(
                f"{self.game.id} is a game for {self.game.num_players} players: "
                "only games for one can be environments here"
            )

    @functools.cached_property
    def num_actions(self) -> int:
        return jax.eval_shape(self.init, jax.random.key(0)).legal_action_mask.shape[0]

    def init(self, key: Key) -> Any:
        with jax.numpy_rank_promotion("allow"):
            return self.game.init(key)

    def step(self, state: Any, action: Int[Array, ""], key: Key) -> tuple[Any, Outcome]:
        with jax.numpy_rank_promotion("allow"):
            state = jax.tree.map(jnp.asarray, self.game.step(state, action, key))
        outcome = Outcome(state.rewards[0], state.terminated, state.truncated)
        # pgx keeps the last reward in its state: left there, an ended game would change once more.
        return state.replace(rewards=jnp.zeros_like(state.rewards)), outcome

    def observe(self, state: Any) -> Array:
        return state.observation

    def legal(self, state: Any) -> Bool[Array, "A"]:
        return state.legal_action_mask


def from_pgx(game: Any) -> PgxGame:
    """An environment made of a game object of pgx, such as `pgx.make("2048")`."""
    return PgxGame(game)
