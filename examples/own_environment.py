"""A world of your own: a corridor with a key at one end and a locked door at the other.

python examples/own_environment.py
"""

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from emcts.envs import Outcome, auto_reset, check, time_limit
from emcts.types import Key, Replaceable, record

LEFT, RIGHT, OPEN = 0, 1, 2


@record
class Place(Replaceable):
    """Everything that changes. A record is a frozen dataclass that `jit` and `vmap` can carry."""

    position: Int[Array, ""]
    has_key: Bool[Array, ""]
    is_open: Bool[Array, ""]


@dataclasses.dataclass(frozen=True)
class KeyCorridor:
    """Start in the middle, fetch the key at the left end, open the door at the right end: reward 1."""

    length: int = 7

    def __post_init__(self) -> None:
        if self.length < 3:
            raise ValueError(
                f"a corridor of {self.length} has no room for key, start and door: give 3 or more"
            )

    @property
    def num_actions(self) -> int:
        return 3

    @property
    def deterministic(self) -> bool:
        """Nothing depends on chance: targets may then keep the best that was ever paid. Left out, it may."""
        return True

    def init(self, key: Key) -> Place:
        return Place(jnp.int32(self.length // 2), jnp.bool_(False), jnp.bool_(False))

    def step(self, state: Place, action: Int[Array, ""], key: Key) -> tuple[Place, Outcome]:
        opens = (action == OPEN) & self.legal(state)[OPEN]
        walk = jnp.where(action == RIGHT, 1, 0) - jnp.where(action == LEFT, 1, 0)
        walk = jnp.where(state.is_open, 0, walk)  # the episode is over: nothing changes any more
        position = jnp.clip(state.position + walk, 0, self.length - 1)
        state = Place(position, state.has_key | (position == 0), state.is_open | opens)
        outcome = Outcome(opens.astype(jnp.float32), terminated=state.is_open, truncated=jnp.bool_(False))
        return state, outcome

    def observe(self, state: Place) -> Float[Array, "P"]:
        where = jax.nn.one_hot(state.position, self.length)
        flags = jnp.stack([state.has_key, state.is_open]).astype(jnp.float32)
        return jnp.concatenate([where, flags])

    def legal(self, state: Place) -> Bool[Array, "A"]:
        at_door = state.position == self.length - 1
        return jnp.stack([jnp.bool_(True), jnp.bool_(True), at_door & state.has_key & ~state.is_open])


def random_rewards(env: KeyCorridor, key: Key, *, env_factory: int, steps: int) -> Float[Array, "W T"]:
    """What random legal play earns, in many worlds at once: `scan` over time, `vmap` over worlds."""
    endless = auto_reset(time_limit(env, 100))

    def step(state, key):
        action_key, step_key = jax.random.split(key)
        logits = jnp.where(endless.legal(state), 0.0, -jnp.inf)
        state, outcome = endless.step(state, jax.random.categorical(action_key, logits), step_key)
        return state, outcome.reward

    def play(key):
        start_key, play_key = jax.random.split(key)
        return jax.lax.scan(step, endless.init(start_key), jax.random.split(play_key, steps))[1]

    return jax.jit(jax.vmap(play))(jax.random.split(key, env_factory))


def shortest_way(env: KeyCorridor) -> list[int]:
    """To the key, to the door, and open."""
    return [LEFT] * (env.length // 2) + [RIGHT] * (env.length - 1) + [OPEN]


def main() -> None:
    env = KeyCorridor(length=7)
    checked = check(env, steps=400)
    print(f"the contract holds: {checked.steps} steps tried, {checked.ended} episodes ended")

    key = jax.random.key(0)
    state, total = env.init(key), 0.0
    for action in shortest_way(env):
        state, outcome = env.step(state, jnp.int32(action), key)
        total += float(outcome.reward)
    print(
        f"the shortest way: {len(shortest_way(env))} steps, return {total}, over: {bool(outcome.terminated)}"
    )

    rewards = random_rewards(env, key, env_factory=64, steps=1000)
    print(f"random play, 64 worlds of 1,000 steps: the door was opened {int(rewards.sum())} times")


if __name__ == "__main__":
    main()
