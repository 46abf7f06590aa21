"""Worlds of seeds, what the replay keeps of a state, and what of a SUBLEQ state can be new."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from emcts.agents.subleq import behaviour, behaviour_and_program

from emcts.envs import DeepSea, Outcome, Subleq
from emcts.training.env_factory import DeepSeaFactory, Programs, SharedEnv

KEY = jax.random.key(0)


@pytest.mark.parametrize("size", [2, 5, 12])
def test_cells_are_numbered_without_a_gap(size: int) -> None:
    env = DeepSea(size)
    numbers = jnp.arange(env.num_states)
    states = jax.vmap(env.state_at)(numbers)
    np.testing.assert_array_equal(jax.vmap(env.index)(states), numbers)
    assert len({(int(r), int(c)) for r, c in zip(states.row, states.column, strict=True)}) == env.num_states
    assert np.all(np.asarray(states.column) <= np.asarray(states.row))


def test_the_end_of_an_episode_has_a_number_of_its_own() -> None:
    env = DeepSea(3)
    for column in range(4):
        state = env.init(KEY).replace(row=jnp.int32(3), column=jnp.int32(column))
        assert int(env.index(state)) == env.num_states


def test_each_seed_has_the_sea_of_that_seed() -> None:
    env_factory = DeepSeaFactory(5)
    maps = jnp.stack([env_factory.draw(seed) for seed in (0, 7)])
    actions = jnp.asarray(np.random.default_rng(0).integers(0, 2, 5), jnp.int32)

    def play(env: Any) -> Any:
        def step(state: Any, action: Any) -> Any:
            after, outcome = env.step(state, action, KEY)
            return after, (after, outcome)

        return jax.lax.scan(step, env.init(KEY), actions)[1]

    mapped = jax.jit(jax.vmap(lambda drawn: play(env_factory.world(drawn))))(maps)
    for place, seed in enumerate((0, 7)):
        per_example = jax.jit(lambda seed=seed: play(DeepSea(5, seed)))()
        for one, other in zip(jax.tree.leaves(mapped), jax.tree.leaves(per_example), strict=True):
            np.testing.assert_array_equal(one[place], other)
    assert not np.array_equal(mapped[0].column[0], mapped[0].column[1])


def test_success_is_the_treasure_and_nothing_else() -> None:
    env_factory = DeepSeaFactory(2, stochastic=True)
    episode_return = Outcome(jnp.float32(1.0), jnp.bool_(True), jnp.bool_(False))
    for column, wanted in [(2, True), (1, False)]:
        after = env_factory.example.init(KEY).replace(row=jnp.int32(2), column=jnp.int32(column))
        assert bool(env_factory.success(env_factory.example, after, episode_return)) is wanted


def random_states(env: Subleq, number: int) -> Any:
    """Programs of all lengths, most of words that do something with input and output."""
    rng = np.random.default_rng(0)
    busy = rng.random((number, env.max_words)) < 0.5
    words = np.where(
        busy,
        rng.choice([env.word_size - 3, env.word_size - 2], busy.shape),
        rng.integers(0, env.word_size, busy.shape),
    )
    lengths = rng.integers(0, env.max_words + 1, number)
    words[np.arange(env.max_words)[None] >= lengths[:, None]] = 0
    tasks = rng.integers(0, len(env.tasks), number)
    return jax.jit(jax.vmap(env.written))(
        jnp.asarray(words, jnp.uint8), jnp.asarray(lengths, jnp.int32), jnp.asarray(tasks, jnp.int32)
    )


def partition(rows: Any) -> np.ndarray:
    """For each row the number of the first one that is equal to it."""
    _, first, group = np.unique(np.asarray(rows), axis=0, return_index=True, return_inverse=True)
    return first[group.reshape(-1)]


@pytest.mark.parametrize(
    "env", [Subleq("identity"), Subleq(("negate", "add"), word_size=32), Subleq("identity", word_size=256)]
)
def test_what_is_looked_at_tells_states_apart_as_observations_do(env: Subleq) -> None:
    @jax.jit
    def views(state: Any) -> Any:
        io, whole = (
            (behaviour(env, state), env.io(state)),
            (behaviour_and_program(env, state), env.observe(state)),
        )
        return io, whole

    for looked, observed in jax.vmap(views)(random_states(env, 3000)):
        np.testing.assert_array_equal(partition(looked), partition(observed))
        assert 20 < len(np.unique(partition(looked))) <= 3000


def test_a_program_is_all_that_needs_to_be_kept() -> None:
    env = Subleq("negate-positives", max_words=6)
    env_factory = Programs(env)
    states = random_states(env, 500)
    packed = jax.jit(jax.vmap(env_factory.pack))(states)
    back = jax.jit(jax.vmap(lambda one: env_factory.unpack(env, one)))(packed)
    for one, other in zip(jax.tree.leaves(states), jax.tree.leaves(back), strict=True):
        np.testing.assert_array_equal(one, other)
        assert one.dtype == other.dtype
    assert np.any(states.solved)
    size = sum(leaf.nbytes for leaf in jax.tree.leaves(packed)) / 500
    assert size <= env.max_words + 8


def test_one_world_for_all_keeps_states_as_they_are() -> None:
    env = DeepSea(3)
    env_factory = SharedEnv(env)
    assert env_factory.world(env_factory.draw(4)) is env_factory.example is env
    state = env.init(KEY)
    assert env_factory.unpack(env, env_factory.pack(state)) is state
    for reward, wanted in [(0.5, True), (0.0, False), (-1.0, False)]:
        outcome = Outcome(jnp.float32(reward), jnp.bool_(False), jnp.bool_(False))
        assert bool(env_factory.success(env, state, outcome)) is wanted
