"""Episodes of an evaluation as a file: all of them as arrays, or pictures of the first ones."""

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree

from emcts.envs.base import (
    AnyEnvironment,
    HostEnvironment,
    NamedActionsEnvironment,
    Outcome,
    simulator_errors,
)
from emcts.inspect.document import Data, fitted
from emcts.inspect.gif import write_gif
from emcts.inspect.pictures import grid_of, picture_of
from emcts.inspect.records import number
from emcts.registry import lookup
from emcts.runs.files import replace_atomically, write_atomically
from emcts.training.seeds import SeedTrainer
from emcts.types import JSON, Key

PICTURED = 8  # episodes of which there are pictures: the first of each seed, then the second, ...


@dataclasses.dataclass(frozen=True)
class RecordedEpisodes:
    """The E episodes of a seed, of up to T steps. Steps after the end of an episode are zero."""

    seed: int
    env: AnyEnvironment
    states: tuple[PyTree, ...]  # batches of E, from the first one to that after the last step
    action: Int[np.ndarray, "E T"]
    reward: Float[np.ndarray, "E T"]
    length: Int[np.ndarray, "E"]
    terminated: Bool[np.ndarray, "E"]

    def state(self, episode: int, time: int) -> PyTree:
        return jax.tree.map(lambda leaf: leaf[episode], self.states[time])


Recorded = Sequence[RecordedEpisodes]


def play(
    trainer: SeedTrainer[PyTree], state: PyTree, *, episodes: int, beta: float, seed: int
) -> tuple[RecordedEpisodes, ...]:
    """Plays the episodes that `trainer.evaluate` plays with the same arguments, and keeps what happens."""
    keys = trainer.evaluation_keys(seed)
    found = []
    for row, name in enumerate(trainer.seeds):
        one = jax.tree.map(lambda leaf: leaf[row], state)  # noqa: B023
        env = trainer.learner.env_factory.make(one.env_params)
        with simulator_errors(env):
            found.append(_play(trainer, one, env, keys[row], name, episodes, beta))
    return tuple(found)


def writer(file: Path) -> Callable[[Path, Recorded, str], None]:
    """Returns what writes a file of this name, by its suffix."""
    if file.suffix not in WRITERS:
        raise ValueError(f"--record {file}: choose a name that ends in {', '.join(WRITERS)}")
    return lookup(WRITERS, file.suffix, "suffix")


def _play(
    trainer: SeedTrainer[PyTree],
    state: PyTree,
    env: AnyEnvironment,
    key: Key,
    seed: int,
    episodes: int,
    beta: float,
) -> RecordedEpisodes:
    learner, max_steps = trainer.learner, trainer.learner.evaluation.max_steps
    env = env.limited(max_steps) if isinstance(env, HostEnvironment) else env
    init_key, play_key = jax.random.split(key)

    @jax.jit
    def step(state: PyTree, states: PyTree, time: Int[Array, ""]) -> tuple[Array, PyTree, Outcome]:
        # The keys are those of `play_episodes`.
        action_key, step_key = jax.random.split(jax.random.fold_in(play_key, time))
        actions = learner.policy(state, beta=beta)(action_key, states)
        after, outcome = jax.vmap(env.step)(states, actions, jax.random.split(step_key, episodes))
        return actions, after, outcome

    states = [jax.device_get(jax.jit(jax.vmap(env.init))(jax.random.split(init_key, episodes)))]
    over, terminated, length = (np.zeros(episodes, dtype) for dtype in (bool, bool, int))
    actions: list[np.ndarray] = []
    rewards: list[np.ndarray] = []
    while not over.all() and len(actions) < max_steps:
        action, after, outcome = jax.device_get(step(state, states[-1], jnp.int32(len(actions))))
        states.append(after)
        actions.append(np.where(over, 0, action))
        rewards.append(np.where(over, 0.0, outcome.reward).astype(np.float32))
        length += ~over
        terminated |= outcome.terminated & ~over
        over |= outcome.terminated | outcome.truncated
    columns = (np.stack(actions, axis=1), np.stack(rewards, axis=1))
    return RecordedEpisodes(seed, env, tuple(states), *columns, length, terminated)


def _write_npz(file: Path, recorded: Recorded, title: str) -> None:
    """Arrays [episodes, steps] of all seeds; observations have one more step, the one after the last."""
    steps = max(one.action.shape[1] for one in recorded)
    arrays: dict[str, Any] = {
        "seed": np.concatenate([np.full(len(one.length), one.seed) for one in recorded]),
        "length": np.concatenate([one.length for one in recorded]),
        "terminated": np.concatenate([one.terminated for one in recorded]),
        "return": np.concatenate([one.reward.sum(axis=1, dtype=np.float64) for one in recorded]),
        "action": np.concatenate([_padded(one.action, steps) for one in recorded]),
        "reward": np.concatenate([_padded(one.reward, steps) for one in recorded]),
    }
    observed = [_observations(one, steps + 1) for one in recorded]
    for path, _ in jax.tree_util.tree_leaves_with_path(observed[0]):
        name = f"observation{jax.tree_util.keystr(path)}"
        arrays[name] = np.concatenate([dict(_named(tree))[name] for tree in observed])

    def save(stream: IO[bytes]) -> None:
        np.savez_compressed(stream, **arrays)

    replace_atomically(file, save)


def _observations(one: RecordedEpisodes, steps: int) -> PyTree:
    observe = jax.jit(jax.vmap(one.env.observe))
    several = [jax.device_get(observe(states)) for states in one.states]
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves, axis=1), *several)
    return jax.tree.map(lambda leaf: _padded(leaf, steps), stacked)


def _named(tree: PyTree) -> list[tuple[str, np.ndarray]]:
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return [(f"observation{jax.tree_util.keystr(path)}", leaf) for path, leaf in leaves]


def _padded(array: np.ndarray, steps: int) -> np.ndarray:
    return np.pad(array, [(0, 0), (0, steps - array.shape[1]), *[(0, 0)] * (array.ndim - 2)])


def _write_html(file: Path, recorded: Recorded, title: str) -> None:
    episodes = [_described(one, number) for one, number in _pictured(recorded)]
    data: Data = {"title": title, "grid": grid_of(recorded[0].env), "maps": None, "episodes": episodes}
    write_atomically(file, fitted(lambda limits: data))


def _write_gif(file: Path, recorded: Recorded, title: str) -> None:
    episodes = [_described(one, number) for one, number in _pictured(recorded)]
    replace_atomically(file, lambda stream: write_gif(stream, episodes, grid_of(recorded[0].env)))


def _pictured(recorded: Recorded) -> list[tuple[RecordedEpisodes, int]]:
    """The first episode of each seed, then the second of each, as many as there are pictures of."""
    count = len(recorded[0].length)
    return [(one, episode) for episode in range(count) for one in recorded][:PICTURED]


def _described(one: RecordedEpisodes, episode: int) -> dict[str, Any]:
    length, total = int(one.length[episode]), float(one.reward[episode].sum(dtype=np.float64))
    ended = "terminated" if one.terminated[episode] else "truncated"
    moves: list[dict[str, JSON]] = []
    for time in range(length + 1):
        state = one.state(episode, time)
        names = one.env.action_names(state) if isinstance(one.env, NamedActionsEnvironment) else ()
        moves.append(
            {
                "picture": picture_of(one.env, state),
                "labels": [*names] or [str(action) for action in range(one.env.num_actions)],
                "return": number(float(one.reward[episode, :time].sum(dtype=np.float64))),
                "reward": number(float(one.reward[episode, time - 1])) if time else None,
                "over": ended if time == length else "",
                **({"action": int(one.action[episode, time])} if time < length else {}),
            }
        )
    title = f"Seed {one.seed}, episode {episode + 1}: return {total:.4g} in {length} steps, {ended}"
    return {"title": title, "moves": moves}


WRITERS = {".npz": _write_npz, ".html": _write_html, ".gif": _write_gif}
