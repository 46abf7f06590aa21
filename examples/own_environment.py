"""An environment of your own: a corridor with a key at one end and a locked door at the other.

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
class CorridorState(Replaceable):
    """Everything that changes. A record is a frozen dataclass whose fields are the leaves of a pytree."""

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
        """`step` ignores its key: value targets may then keep the best return so far. Left out, it may use it."""
        return True

    def init(self, key: Key) -> CorridorState:
        return CorridorState(jnp.int32(self.length // 2), jnp.bool_(False), jnp.bool_(False))

    def step(self, state: CorridorState, action: Int[Array, ""], key: Key) -> tuple[CorridorState, Outcome]:
        opens = (action == OPEN) & self.legal(state)[OPEN]
        move = jnp.where(action == RIGHT, 1, 0) - jnp.where(action == LEFT, 1, 0)
        move = jnp.where(state.is_open, 0, move)  # the episode is over: nothing changes any more
        position = jnp.clip(state.position + move, 0, self.length - 1)
        state = CorridorState(position, state.has_key | (position == 0), state.is_open | opens)
        outcome = Outcome(opens.astype(jnp.float32), terminated=state.is_open, truncated=jnp.bool_(False))
        return state, outcome

    def observe(self, state: CorridorState) -> Float[Array, "P"]:
        position = jax.nn.one_hot(state.position, self.length)
        flags = jnp.stack([state.has_key, state.is_open]).astype(jnp.float32)
        return jnp.concatenate([position, flags])

    def legal(self, state: CorridorState) -> Bool[Array, "A"]:
        at_door = state.position == self.length - 1
        return jnp.stack([jnp.bool_(True), jnp.bool_(True), at_door & state.has_key & ~state.is_open])


def random_rewards(env: KeyCorridor, key: Key, *, num_envs: int, steps: int) -> Float[Array, "E T"]:
    """The rewards of random legal actions in many environments: `scan` over time, `vmap` over environments."""
    resetting = auto_reset(time_limit(env, 100))

    def step(state, key):
        action_key, step_key = jax.random.split(key)
        logits = jnp.where(resetting.legal(state), 0.0, -jnp.inf)
        state, outcome = resetting.step(state, jax.random.categorical(action_key, logits), step_key)
        return state, outcome.reward

    def rollout(key):
        start_key, step_key = jax.random.split(key)
        return jax.lax.scan(step, resetting.init(start_key), jax.random.split(step_key, steps))[1]

    return jax.jit(jax.vmap(rollout))(jax.random.split(key, num_envs))


def shortest_path(env: KeyCorridor) -> list[int]:
    """The actions to the key, to the door, and to open it."""
    return [LEFT] * (env.length // 2) + [RIGHT] * (env.length - 1) + [OPEN]


def main() -> None:
    env = KeyCorridor(length=7)
    checked = check(env, steps=400)
    print(f"the contract holds: {checked.steps} steps checked, {checked.ended} episodes ended")

    key = jax.random.key(0)
    state, total = env.init(key), 0.0
    for action in shortest_path(env):
        state, outcome = env.step(state, jnp.int32(action), key)
        total += float(outcome.reward)
    print(
        f"the shortest path: {len(shortest_path(env))} steps, return {total}, over: {bool(outcome.terminated)}"
    )

    rewards = random_rewards(env, key, num_envs=64, steps=1000)
    print(
        f"random actions, 64 environments, 1,000 steps each: the door was opened {int(rewards.sum())} times"
    )


if __name__ == "__main__":
    main()
