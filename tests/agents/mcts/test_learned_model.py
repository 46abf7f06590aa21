"""Learned models: which steps of an unroll are valid, what its losses train, and a small environment learned."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from emcts.agents.builtin_tasks import row_and_column
from emcts.agents.mcts.agent import LossWeights
from emcts.agents.mcts.losses import batch_loss
from emcts.agents.mcts.targets import Targets, Trajectory
from emcts.envs import DeepSea
from emcts.models.codecs import Categorical
from emcts.models.evaluators import NoNovelty
from emcts.models.layers import mlp
from emcts.models.learned.local_uncertainty import LatentNovelty, TrueStateNovelty
from emcts.models.learned.model import LearnedModel, LearnedPlanningModel, half_gradient
from emcts.models.learned.networks import (
    Anchored,
    Consistent,
    Sizes,
    ValueEquivalent,
    abstracted_networks,
    anchored_networks,
)
from emcts.models.networks import HeadSpec
from emcts.novelty import Counts

KEY = jax.random.key(0)
ENV = DeepSea(3, seed=2)
GAMMA = 0.9
HEADS = HeadSpec(2, Categorical(10), bounded=False, ube=True, exploration=False)
SIZES = Sizes(latent=12, representation=(16,), dynamics=(16,), heads=(16,), ube=(16,))


def abstracted(dynamics_loss: Any = ValueEquivalent()) -> tuple[LearnedModel, Any]:  # noqa: B008
    world_model = LearnedModel(
        LatentNovelty(NoNovelty()), dynamics_loss, lambda env, state: env.index(state), GAMMA, tabular=True
    )
    body = mlp(ENV.num_states, (16, 12), key=KEY, indexed=True)
    return world_model, abstracted_networks(body, HEADS, sizes=SIZES, key=KEY)


def anchored() -> tuple[LearnedModel, Any]:
    world_model = LearnedModel(LatentNovelty(NoNovelty()), Anchored(), row_and_column, GAMMA, tabular=True)
    return world_model, anchored_networks(6, HEADS, sizes=SIZES, key=KEY)


def perturbed(networks: Any) -> Any:
    """Adds noise to all weights: the last layers of heads start at zero, and then pass no gradient back."""
    leaves, tree = jax.tree.flatten(networks)
    keys = jax.random.split(KEY, len(leaves))
    noise = [leaf + 0.3 * jax.random.normal(key, leaf.shape) for leaf, key in zip(leaves, keys, strict=True)]
    return jax.tree.unflatten(tree, noise)


def rollout(actions: np.ndarray) -> tuple[Any, Any, np.ndarray, np.ndarray]:
    """States, next states, rewards and ends of steps in which each end is followed by a new episode."""
    step = jax.jit(ENV.step)
    state, states, after, rewards, over = ENV.init(KEY), [], [], [], []
    for action in actions:
        following, outcome = step(state, jnp.int32(action), KEY)
        states.append(state)
        after.append(following)
        rewards.append(float(outcome.reward))
        over.append(bool(outcome.terminated))
        state = ENV.init(KEY) if over[-1] else following
    stack = lambda rows: jax.tree.map(lambda *leaves: jnp.stack(leaves), *rows)  # noqa: E731
    return stack(states), stack(after), np.array(rewards, np.float32), np.array(over)


ACTIONS = np.array([1, 0, 1, 1, 0], np.int32)
STATES, AFTER, REWARDS, OVER = rollout(ACTIONS)  # the third of five steps ends the episode


def trajectory(states: Any = STATES) -> Trajectory:
    """K trajectories of one step each, as `update` gives them to the loss."""
    return Trajectory(
        states=jax.tree.map(lambda one, two: jnp.stack([one, two], axis=1), states, AFTER),
        actions=jnp.asarray(ACTIONS)[:, None],
        rewards=jnp.asarray(REWARDS)[:, None],
        terminated=jnp.asarray(OVER)[:, None],
        truncated=jnp.zeros((len(ACTIONS), 1), bool),
        policy=jnp.full((len(ACTIONS), 2), 0.5),
    )


def targets() -> Targets:
    rng = np.random.default_rng(1)
    number = len(ACTIONS)

    def draw(low: float, high: float) -> Any:
        return jnp.asarray(rng.uniform(low, high, number), jnp.float32)

    return Targets(
        value=draw(-1, 1),
        policy=jnp.asarray(rng.dirichlet([1, 1], number), jnp.float32),
        exploration=jnp.full((number, 2), 0.5),
        ube=draw(0, 2),
        reward=jnp.asarray(REWARDS),
        terminated=jnp.asarray(OVER),
        local_variance=draw(0, 1),
    )


def as_batch(tree: Any) -> Any:
    return jax.tree.map(lambda leaf: leaf[None], tree)


def loss(
    networks: Any, world_model: LearnedModel, trajectory: Trajectory, targets: Targets, weights: LossWeights
) -> Any:
    return batch_loss(
        networks, world_model, ENV, as_batch(trajectory), as_batch(targets), jnp.ones(1), weights
    )


@pytest.mark.parametrize("make", [abstracted, anchored])
def test_nothing_is_valid_after_an_end(make: Any) -> None:
    world_model, networks = make()
    networks = perturbed(networks)
    unroll = jax.jit(
        lambda: world_model.unroll(ENV, networks, STATES, jnp.asarray(ACTIONS), jnp.asarray(OVER))
    )()
    assert unroll.valid.tolist() == [True, True, True, False, False]
    run = jax.jit(lambda targets: loss(networks, world_model, trajectory(), targets, LossWeights())[0])
    whole = run(targets())
    for name in ("value", "policy", "ube", "reward", "terminated"):
        wanted = getattr(targets(), name)
        other = ~wanted if wanted.dtype == bool else wanted + 0.25
        later, at_the_end = (targets().replace(**{name: wanted.at[k].set(other[k])}) for k in (3, 2))
        assert run(later) == whole
        assert run(at_the_end) != whole


@pytest.mark.parametrize("make", [abstracted, anchored])
def test_the_losses_of_an_unroll_by_hand(make: Any) -> None:
    """One step after the other, without a scan: the mean over the valid steps of each head's loss."""
    world_model, networks = make()
    networks = perturbed(networks)
    _, learned = jax.jit(lambda: loss(networks, world_model, trajectory(), targets(), LossWeights()))()
    latent = world_model.encode(ENV, networks, jax.tree.map(lambda leaf: leaf[0], STATES))
    value, reward, continuation, consistency = [], [], [], []
    for k in range(3):
        pair = jnp.concatenate([latent, jax.nn.one_hot(ACTIONS[k], 2)])
        heads = networks.heads
        value.append(heads.value.codec.loss(heads.value(latent), targets().value[k]))
        reward.append(heads.reward.codec.loss(heads.reward(pair), targets().reward[k]))
        continuation.append(-jnp.log(jnp.abs(OVER[k] - jax.nn.sigmoid(heads.continuation(pair)[0] + 3.0))))
        there = world_model.encode(ENV, networks, jax.tree.map(lambda leaf, k=k: leaf[k], STATES))
        consistency.append(world_model.dynamics_loss.consistency(latent, there) if k else 0.0)
        latent = networks.dynamics(pair)
    for name, parts in {
        "value": value,
        "reward": reward,
        "continuation": continuation,
        "consistency": consistency,
    }.items():
        np.testing.assert_allclose(getattr(learned.losses, name), np.mean(parts), rtol=2e-4, err_msg=name)


@pytest.mark.parametrize("make", [abstracted, lambda: abstracted(Consistent()), anchored])
def test_the_gradient_of_an_unroll_by_hand(make: Any) -> None:
    """Heads train dynamics and representation, by half from step to step; consistency trains the dynamics alone."""
    world_model, networks = make()
    networks, actions = perturbed(networks), jnp.asarray(ACTIONS)

    def by_unroll(networks: Any) -> Any:
        out = world_model.unroll(ENV, networks, STATES, actions, jnp.asarray(OVER))
        return jnp.sum(jnp.sin(out.raw.value)) + jnp.sum(jnp.cos(out.reward)) + jnp.sum(out.consistency)

    def by_hand(networks: Any) -> Any:
        encoded = [
            world_model.encode(ENV, networks, jax.tree.map(lambda leaf, k=k: leaf[k], STATES))
            for k in range(len(ACTIONS))
        ]
        latent, alone, total = encoded[0], jax.lax.stop_gradient(encoded[0]), jnp.zeros(())
        for k in range(len(ACTIONS)):
            action = jax.nn.one_hot(ACTIONS[k], 2)
            read = world_model.dynamics_loss.head_input(latent)
            total += jnp.sum(jnp.sin(networks.heads.value(read)))
            total += jnp.sum(jnp.cos(networks.heads.reward(jnp.concatenate([read, action]))))
            total += world_model.dynamics_loss.consistency(alone, encoded[k]) if k else 0.0
            latent, alone = (
                half_gradient(networks.dynamics(jnp.concatenate([at, action]))) for at in (latent, alone)
            )
        return total

    found, expected = (jax.jit(jax.value_and_grad(total))(networks) for total in (by_unroll, by_hand))
    jax.tree.map(
        lambda one, other: np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-5), found, expected
    )


def test_only_the_first_state_is_encoded() -> None:
    world_model, networks = abstracted()
    networks = perturbed(networks)
    run = jax.jit(
        lambda states: world_model.unroll(ENV, networks, states, jnp.asarray(ACTIONS), jnp.asarray(OVER)).raw
    )
    plain = run(STATES)
    other = jax.tree.map(lambda leaf: leaf.at[1:].set(0), STATES)
    np.testing.assert_array_equal(run(other).value, plain.value)
    first = jax.tree.map(lambda leaf: leaf.at[0].set(1), STATES)
    assert not np.allclose(run(first).value, plain.value)


ONLY = {
    "heads": LossWeights(consistency=0.0),
    "consistency": LossWeights(0.0, 0.0, 0.0, 0.0, 0.0, 0.0),
}


@pytest.mark.parametrize(
    ("make", "only", "dynamics", "heads"),
    [
        (abstracted, "heads", True, True),
        (abstracted, "consistency", False, False),
        (lambda: abstracted(Consistent()), "consistency", True, False),
        (anchored, "heads", False, True),
        (anchored, "consistency", True, False),
    ],
)
def test_which_losses_train_the_dynamics(make: Any, only: str, dynamics: bool, heads: bool) -> None:
    world_model, networks = make()
    gradient = jax.jit(
        lambda networks: jax.grad(loss, has_aux=True)(
            networks, world_model, trajectory(), targets(), ONLY[only]
        )[0]
    )(perturbed(networks))

    def reached(part: Any) -> bool:
        return any(np.any(np.asarray(leaf) != 0) for leaf in jax.tree.leaves(part))

    assert reached(gradient.dynamics) == dynamics
    assert reached(gradient.heads) == heads
    assert reached(gradient.representation) == (dynamics and heads), (
        "consistency does not train the representation"
    )


def test_half_gradient() -> None:
    x = jnp.array([1.0, -2.0])
    np.testing.assert_array_equal(half_gradient(x), x)
    np.testing.assert_array_equal(jax.grad(lambda x: half_gradient(x).sum())(x), [0.5, 0.5])


def two_steps(cell: Any, actions: Any) -> tuple[Trajectory, Targets]:
    """From a cell, with true rewards, values and ends, and a variance that differs between columns."""
    first = ENV.state_at(cell)
    second, one = ENV.step(first, actions[0], KEY)
    third, two = ENV.step(second, actions[1], KEY)

    def pair(one: Any, two: Any) -> Any:
        return jax.tree.map(lambda a, b: jnp.stack([a, b]), one, two)

    where, outcome = pair(first, second), pair(one, two)
    trajectory = Trajectory(
        states=jax.tree.map(lambda a, b: jnp.stack([a, b], axis=1), where, pair(second, third)),
        actions=actions[:, None],
        rewards=outcome.reward[:, None],
        terminated=outcome.terminated[:, None],
        truncated=jnp.zeros((2, 1), bool),
        policy=jnp.full((2, 2), 0.5),
    )
    return trajectory, Targets(
        value=jax.vmap(ENV.optimal_value)(where),
        policy=jax.nn.one_hot(jax.vmap(ENV.optimal_action)(where), 2),
        exploration=jnp.full((2, 2), 0.5),
        ube=1.0 + where.column,
        reward=outcome.reward,
        terminated=outcome.terminated,
        local_variance=jnp.zeros(2),
    )


def every_two_steps() -> tuple[Trajectory, Targets]:
    cells = jnp.repeat(jnp.arange(ENV.num_states), 4)
    actions = jnp.tile(jnp.array([[0, 0], [0, 1], [1, 0], [1, 1]]), (ENV.num_states, 1))
    return jax.vmap(two_steps)(cells, actions)


@pytest.mark.parametrize("make", [abstracted, lambda: abstracted(Consistent()), anchored])
def test_a_small_environment_is_learned(make: Any) -> None:
    """After a short training the model predicts rewards, ends, and the values and variances of the next state."""
    world_model, networks = make()
    batch, wanted = every_two_steps()
    optimiser = optax.adam(1e-2)

    @jax.jit
    def train(networks: Any) -> Any:
        def update(carry: Any, _: None) -> Any:
            networks, state = carry
            gradient, learned = jax.grad(batch_loss, has_aux=True)(
                networks, world_model, ENV, batch, wanted, jnp.ones(len(batch.actions)), LossWeights()
            )
            changes, state = optimiser.update(gradient, state)
            return (optax.apply_updates(networks, changes), state), learned.total

        return jax.lax.scan(update, (networks, optimiser.init(networks)), None, length=500)[0][0]

    networks = train(networks)
    cells = jax.vmap(ENV.state_at)(jnp.arange(ENV.num_states))
    for action in (0, 1):
        actions = jnp.full(ENV.num_states, action)
        model = world_model.planning_models(ENV, networks)(())
        out = jax.jit(lambda actions=actions, model=model: model.step(cells, actions, KEY))()
        after, outcome = jax.vmap(ENV.step, in_axes=(0, 0, None))(cells, actions, KEY)
        inside = ~np.asarray(outcome.terminated)
        np.testing.assert_allclose(out.reward, outcome.reward, atol=0.1)
        np.testing.assert_allclose(out.discount, np.where(inside, GAMMA, 0), atol=0.05)
        value = np.asarray(jax.vmap(ENV.optimal_value)(after))
        np.testing.assert_allclose(out.value[inside], value[inside], atol=0.15)
        np.testing.assert_allclose(out.value_variance[inside], (1.0 + after.column)[inside], atol=0.4)


def test_planning_counts_the_steps_left_and_tracks_true_states() -> None:
    """Novelty is that of the true pairs, and a leaf's variance that of the remaining steps."""
    _, networks = abstracted()
    local_uncertainty = TrueStateNovelty(
        Counts(2 * ENV.num_states, epsilon=0.5), lambda env, s, a, after: 2 * ENV.index(s) + a
    )
    world_model = LearnedModel(
        local_uncertainty,
        ValueEquivalent(),
        lambda env, state: env.index(state),
        GAMMA,
        steps_left=lambda state: (ENV.size - state.row).astype(jnp.float32),
    )
    visits = jnp.arange(2 * ENV.num_states, dtype=jnp.int32)
    model = world_model.planning_models(ENV, networks)(
        local_uncertainty.novelty.init(KEY).replace(visits=visits)
    )
    assert isinstance(model, LearnedPlanningModel)
    state = ENV.init(KEY)
    nodes = model.root(as_batch(state), lambda estimate: estimate.policy).embedding
    step = jax.jit(model.recurrent_fn(lambda estimate: estimate.policy))
    for time, action in enumerate((1, 0, 1, 0)):
        out, nodes = step(None, KEY, jnp.array([action]), nodes)
        pair = 2 * int(ENV.index(state)) + action
        eta = 1 / (float(visits[pair]) + 0.5) if pair < 2 * ENV.num_states else 0.0
        left = max(ENV.size - time - 1, 0)
        np.testing.assert_allclose(out.reward_variance[0], eta, rtol=1e-6)
        factor = sum(GAMMA ** (2 * step) for step in range(left))
        np.testing.assert_allclose(out.value_variance[0], factor * eta, rtol=1e-5)
        state, _ = ENV.step(state, jnp.int32(action), KEY)
    certain = world_model.without_novelty().planning_models(ENV, networks)(())
    out = certain.step(as_batch(ENV.init(KEY)), jnp.array([1]), KEY)
    assert out.reward_variance == 0


def test_equal_states_are_evaluated_once() -> None:
    world_model, _ = abstracted()
    every: Any = world_model.all_states(ENV)
    np.testing.assert_array_equal(jax.vmap(ENV.index)(every), np.arange(ENV.num_states))
    assert dataclasses.replace(world_model, tabular=False).all_states(ENV) is None
