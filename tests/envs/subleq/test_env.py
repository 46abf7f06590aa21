import functools
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from emcts.envs import subleq
from emcts.envs.rollout import QUICK_TO_COMPILE
from emcts.envs.subleq import Subleq

KEY = jax.random.key(0)
IDENTITY = (0, 13, 3, 14, 0, 6)


@functools.cache
def compiled(env):
    return tuple(jax.jit(part, compiler_options=QUICK_TO_COMPILE) for part in (env.init, env.step))


def play(env, actions, key=KEY):
    """The states before, between and after the actions, and what each action brought."""
    init, step = compiled(env)
    states, outcomes = [init(key)], []
    for action in actions:
        state, outcome = step(states[-1], jnp.int32(action), key)
        states.append(state)
        outcomes.append(outcome)
    return states, outcomes


def test_solving_pays_once_and_one_more_action_ends_the_episode():
    env = Subleq("identity")
    states, outcomes = play(env, [*IDENTITY, 9, 4])
    assert [float(o.reward) for o in outcomes] == [0, 0, 0, 0, 0, 1, 0, 0]
    assert [bool(o.terminated) for o in outcomes] == [False] * 6 + [True] * 2
    assert not any(bool(o.truncated) for o in outcomes)
    assert states[-1].words[:7].tolist() == [*IDENTITY, 0], "the action after success writes nothing"


def test_the_last_word_ends_an_episode_that_did_not_solve():
    states, outcomes = play(Subleq("identity", max_words=6), [1, 2, 3, 4, 5, 6, 7])
    assert [bool(o.terminated) for o in outcomes] == [False] * 5 + [True] * 2
    assert states[-1].words.tolist() == [1, 2, 3, 4, 5, 6]
    assert all(float(o.reward) == 0 for o in outcomes)


def test_the_last_word_may_solve():
    _, outcomes = play(Subleq("identity", max_words=6), [*IDENTITY, 0])
    assert [float(o.reward) for o in outcomes[-2:]] == [1, 0]
    assert [bool(o.terminated) for o in outcomes[-2:]] == [False, True]


def test_a_shorter_program_is_worth_more():
    env = Subleq("negate-positives", reward=subleq.shortest)
    short = sum(float(o.reward) for o in play(env, [14, 13])[1])
    # A first instruction that does nothing but go on.
    long = sum(float(o.reward) for o in play(env, [12, 11, 3, 14, 13])[1])
    assert short == pytest.approx(0.9)
    assert long == pytest.approx(0.6)


def test_observation_shows_words_example_and_what_is_left():
    env = Subleq("negate-positives")
    inputs, wanted = subleq.examples("negate-positives", 16)[0]
    states, _ = play(env, [14, 13])
    # `14` alone reads nothing, and 0 - 14 is a wrong output; with `13` everything is read.
    for state, program, left, written in [
        (states[0], [], list(inputs), []),
        (states[1], [14], list(inputs), [2]),
        (states[2], [14, 13], [None] * len(inputs), list(wanted)),
    ]:
        expected = [
            *pad(program, 10),
            *pad(inputs, 8),
            *pad(wanted, 8),
            *pad(left, 8),
            *pad(written, 8),
        ]
        np.testing.assert_array_equal(env.observe(state).reshape(-1, 5), [bits(word) for word in expected])
        np.testing.assert_array_equal(env.io(state), env.observe(state)[10 * 5 :])


def pad(words, length):
    return [*words, *[None] * (length - len(words))]


def bits(word):
    if word is None:
        return [0, 0, 0, 0, 1]
    return [(word % 16) >> place & 1 for place in range(4)] + [0]


def test_one_hot_and_binary_say_the_same():
    states, _ = play(Subleq("identity"), IDENTITY)
    binary, one_hot = Subleq("identity"), Subleq("identity", encoding=subleq.one_hot)
    for state in states:
        places = one_hot.observe(state).reshape(-1, 17).argmax(axis=1)
        rows = binary.observe(state).reshape(-1, 5)
        words = (rows[:, :4] * jnp.array([[1, 2, 4, 8]])).sum(axis=1)
        np.testing.assert_array_equal(places, jnp.where(rows[:, 4] == 1, 16, words))


def test_several_tasks_are_drawn_by_the_key():
    env = Subleq(("negate", "identity", "add"))
    tasks = [int(compiled(env)[0](jax.random.key(seed)).task) for seed in range(30)]
    assert set(tasks) == {0, 1, 2}
    seeds = {tasks.index(task): task for task in range(3)}
    for seed, task in seeds.items():
        _, outcomes = play(env, [14, 13], jax.random.key(seed))
        assert float(outcomes[-1].reward) == (1 if task == 0 else 0)


def test_a_state_is_given_by_its_program():
    env = Subleq("identity")
    states, _ = play(env, [0, 13, 3, 14, 0, 2])
    written = jax.jit(env.written)
    for state in states:
        again = written(state.words, state.num_words, state.task)
        jax.tree.map(np.testing.assert_array_equal, again, state)


def random_states(env, number):
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


def partition(rows):
    """For each row the number of the first one that is equal to it."""
    _, first, group = np.unique(np.asarray(rows), axis=0, return_index=True, return_inverse=True)
    return first[group.reshape(-1)]


@pytest.mark.parametrize(
    "env", [Subleq("identity"), Subleq(("negate", "add"), word_size=32), Subleq("identity", word_size=256)]
)
def test_novelty_inputs_tell_states_apart_as_observations_do(env):
    @jax.jit
    @jax.vmap
    def views(state):
        return (
            (subleq.behaviour(env, state), env.io(state)),
            (subleq.behaviour_and_program(env, state), env.observe(state)),
        )

    for given, observed in views(random_states(env, 3000)):
        np.testing.assert_array_equal(partition(given), partition(observed))
        assert 20 < len(np.unique(partition(given))) <= 3000


def test_packed_states_are_programs():
    env = Subleq("negate-positives", max_words=6)
    states = random_states(env, 500)
    packed = jax.jit(jax.vmap(env.pack))(states)
    back = jax.jit(jax.vmap(env.unpack))(packed)
    for one, other in zip(jax.tree.leaves(states), jax.tree.leaves(back), strict=True):
        np.testing.assert_array_equal(one, other)
        assert one.dtype == other.dtype
    assert np.any(states.solved)
    size = sum(leaf.nbytes for leaf in jax.tree.leaves(packed)) / 500
    assert size <= env.max_words + 8


def test_the_artifact_of_a_success_is_its_program():
    env = Subleq("negate-positives")
    states = jax.tree.map(lambda *leaves: jnp.stack(leaves), *play(env, [14, 13])[0])
    artifacts = jax.tree.map(np.asarray, jax.jit(jax.vmap(env.artifact))(states))
    for i, words in enumerate(([], [14], [14, 13])):
        stored = env.artifact_record(jax.tree.map(lambda leaf, i=i: leaf[i], artifacts))
        assert stored.data == {"words": words}
        assert subleq.assemble(stored.text, env.word_size) == words
        assert json.loads(json.dumps(stored.data)) == stored.data
    stored = env.artifact_record(jax.tree.map(lambda leaf: leaf[2], artifacts), title="step 1,024")
    assert stored.text == "; step 1,024: 14 13\n" + subleq.disassemble([14, 13]) + "\n"
    assert stored.suffix == ".asm"


def test_terminal_states_absorb_and_shapes_stay():
    env = Subleq("identity", word_size=20, max_words=2)
    states, outcomes = play(env, [1, 2, 3])
    jax.tree.map(np.testing.assert_array_equal, states[2], states[3])
    assert bool(outcomes[2].terminated)
    shapes = [jax.tree.map(lambda x: (x.shape, x.dtype), state) for state in states]
    assert all(shape == shapes[0] for shape in shapes)
    assert env.legal(states[3]).tolist() == [True] * 20


def test_batch_of_episodes_equals_one_by_one():
    env = Subleq("negate-positives")
    actions = jnp.array([[14, 13, 0], [14, 14, 13], [13, 14, 2]])
    state = jax.jit(jax.vmap(env.init))(jax.random.split(KEY, 3))
    step = jax.jit(jax.vmap(env.step, in_axes=(0, 0, None)))
    rewards = []
    for i in range(3):
        state, outcome = step(state, actions[:, i], KEY)
        rewards.append(outcome.reward)
    alone = [[float(o.reward) for o in play(env, row)[1]] for row in actions.tolist()]
    np.testing.assert_array_equal(np.stack(rewards, axis=1), alone)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"task": "identiy"}, "unknown task 'identiy': did you mean 'identity'"),
        ({"task": ()}, "name at least one"),
        ({"word_size": 12}, "word_size 12 is out of range"),
        ({"max_words": 14}, "max_words is 14: SUBLEQ-16 has room for 1 to 13"),
        ({"max_words": 0}, "max_words is 0"),
    ],
)
def test_bad_settings_are_said_clearly(settings, message):
    with pytest.raises(ValueError, match=message):
        Subleq(**settings)
