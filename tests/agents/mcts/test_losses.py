"""Losses on a fixed batch: each head learns its own target, and the weights of losses."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from emcts.agents.mcts.agent import LossWeights
from emcts.agents.mcts.losses import batch_loss, clipped_targets
from emcts.agents.mcts.targets import Targets, Trajectory
from emcts.envs import DeepSea
from emcts.models.codecs import Categorical
from emcts.models.evaluators import Evaluator, NetworkEvaluator, NoNovelty, TabularEvaluator
from emcts.models.networks import HeadSpec, Networks, image_networks, indexed_networks, vector_networks
from emcts.models.simulator import SimulatorModel

KEY = jax.random.key(0)
ENV = DeepSea(4, seed=0)
STATES = jax.vmap(ENV.state_at)(jnp.arange(ENV.num_states))
EQUAL = jnp.ones(ENV.num_states)
HEADS = ("value", "policy", "exploration", "ube", "reward")


def random_targets() -> Targets:
    rng = np.random.default_rng(0)
    number = ENV.num_states

    def numbers(low: float, high: float) -> Any:
        return jnp.asarray(rng.uniform(low, high, number), jnp.float32)

    def policies() -> Any:
        return jnp.asarray(rng.dirichlet([0.5, 0.5], number), jnp.float32)

    return Targets(
        value=numbers(-0.9, 0.9),
        policy=policies(),
        exploration=policies(),
        ube=numbers(0.05, 0.95),
        reward=numbers(-0.5, 1),
        terminated=jnp.arange(number) % 3 == 0,
        local_variance=numbers(0, 1),
    )


TARGETS = random_targets()


def one_step_trajectories() -> Trajectory:
    """A trajectory of one step from each state."""
    number = ENV.num_states
    actions = (jnp.arange(number) % 2)[:, None]
    nothing = jnp.zeros((number, 1), bool)
    states = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf], axis=1), STATES)
    return Trajectory(states, actions, jnp.zeros((number, 1)), nothing, nothing, jnp.zeros((number, 2)))


def in_rows_of_one(tree: Any) -> Any:
    return jax.tree.map(lambda leaf: leaf[:, None], tree)


def loss(
    networks: Networks, evaluator: Evaluator[Any], targets: Targets, importance: Any, weights: LossWeights
) -> Any:
    world_model = SimulatorModel(evaluator, 0.9, lambda leaf: jnp.float32(1))
    trajectories = in_rows_of_one(one_step_trajectories())
    return batch_loss(networks, world_model, ENV, trajectories, in_rows_of_one(targets), importance, weights)


def vector(env: Any, state: Any) -> Any:
    return env.observe(state).reshape(-1)


def one_plane(env: Any, state: Any) -> Any:
    return env.observe(state)[..., None]


def heads(*, bounded: bool = False, exploration: bool = True) -> HeadSpec:
    return HeadSpec(2, Categorical(10), bounded=bounded, ube=True, exploration=exploration)


def tabular() -> tuple[Evaluator[Any], Networks]:
    networks = indexed_networks(ENV.num_states, heads(exploration=False), widths=(16,), key=KEY)
    return TabularEvaluator(NoNovelty()), networks


def bounded() -> tuple[Evaluator[Any], Networks]:
    networks = vector_networks(16, heads(bounded=True), widths=(16,), key=KEY)
    return NetworkEvaluator(NoNovelty(), vector, vector), networks


def image() -> tuple[Evaluator[Any], Networks]:
    networks = image_networks((4, 4, 1), heads(), channels=4, width=16, key=KEY)
    return NetworkEvaluator(NoNovelty(), one_plane, vector), networks


@pytest.mark.parametrize("make", [tabular, bounded, image])
def test_every_loss_decreases(make: Any) -> None:
    evaluator, networks = make()
    optimiser = optax.adam(1e-2)

    @jax.jit
    def train(networks: Networks) -> Any:
        def update(carry: Any, _: None) -> Any:
            networks, state = carry
            gradient, learned = jax.grad(loss, has_aux=True)(
                networks, evaluator, TARGETS, EQUAL, LossWeights()
            )
            changes, state = optimiser.update(gradient, state)
            return (optax.apply_updates(networks, changes), state), learned

        return jax.lax.scan(update, (networks, optimiser.init(networks)), None, length=400)[1]

    learned = train(networks)
    for name in HEADS:
        losses = np.asarray(getattr(learned.losses, name))
        if getattr(networks, name) is None:
            assert not losses.any()
        else:
            # What is left of a categorical loss is the entropy of two-hot targets, which cannot be learned away.
            floor = _floor(networks, name)
            assert losses[-1] - floor < 0.2 * (losses[0] - floor), name
    assert np.all(np.asarray(learned.value_error[-1]) < 0.2)
    assert np.all(np.asarray(learned.std_error[-1]) < 0.2)


def _floor(networks: Any, name: str) -> float:
    codec = getattr(networks, name).codec
    if not hasattr(codec, "two_hot"):
        return 0.0
    hot = jax.vmap(codec.two_hot)(getattr(TARGETS, name))
    return float(jnp.sum(jax.scipy.special.entr(hot), axis=-1).mean())


def _losses_of(uncertainty_weight: float, name: str) -> Any:
    evaluator, networks = tabular()
    only = {head: 2.0 * (head == name) for head in HEADS}
    weights = LossWeights(**only, uncertainty_weight=uncertainty_weight)
    importance = jnp.linspace(0.2, 1.0, ENV.num_states)
    run = jax.jit(lambda: loss(networks, evaluator, TARGETS, importance, weights))
    return run()


@pytest.mark.parametrize("name", ["value", "reward"])
def test_the_total_is_a_weighted_mean(name: str) -> None:
    _, networks = tabular()
    codec = getattr(networks, name).codec
    each = np.asarray(jax.vmap(lambda target: codec.loss(jnp.zeros(21), target))(getattr(TARGETS, name)))
    importance = np.linspace(0.2, 1.0, ENV.num_states)
    for uncertainty_weight in (0.0, 3.0):
        total, learned = _losses_of(uncertainty_weight, name)
        trust = 0.5 + 1 / (1 + np.exp(uncertainty_weight * np.sqrt(np.asarray(TARGETS.ube))))
        np.testing.assert_allclose(total, np.mean(importance * trust * 2 * each), rtol=1e-5)
        np.testing.assert_allclose(getattr(learned.losses, name), each.mean(), rtol=1e-5)


def test_a_head_learns_from_its_own_target_alone() -> None:
    evaluator, networks = bounded()
    gradient = jax.jit(
        lambda target: jax.grad(loss, has_aux=True)(networks, evaluator, target, EQUAL, LossWeights())[0]
    )
    before = gradient(TARGETS)
    for name in HEADS[:-1]:
        after = gradient(TARGETS.replace(**{name: getattr(TARGETS, name)[::-1]}))
        for head in HEADS[:-1]:
            pairs = zip(
                jax.tree.leaves(getattr(before, head)), jax.tree.leaves(getattr(after, head)), strict=True
            )
            assert all(np.array_equal(one, two) for one, two in pairs) == (head != name)


@pytest.mark.parametrize(
    ("name", "target", "return_range", "expected"),
    [
        ("value", 100.0, 1.0, 0.0),
        ("value", 500.0, 1.0, 1 / 16),
        ("value", 500.0, 1000.0, 1 / 16),  # values are in units of their own
        ("reward", -500.0, 1.0, 1 / 16),
        ("ube", 500.0, 1.0, 1 / 16),
        ("ube", 500.0, 10.0, 0.0),
    ],
)
def test_targets_that_a_head_cannot_represent_are_counted(
    name: str, target: float, return_range: float, expected: float
) -> None:
    _, networks = tabular()
    targets = TARGETS.replace(**{name: getattr(TARGETS, name).at[3].set(target)})
    clipped = clipped_targets(networks, targets, return_range)
    assert float(clipped.mean()) == pytest.approx(expected * 16 / ENV.num_states)


def test_values_of_a_bounded_task_may_reach_its_bounds() -> None:
    _, networks = bounded()
    bounds = TARGETS.replace(value=jnp.where(TARGETS.value > 0, 1.0, -1.0), ube=jnp.round(TARGETS.ube))
    assert not clipped_targets(networks, bounds, 1.0).any()
    assert clipped_targets(networks, bounds.replace(value=10 * bounds.value), 1.0).all()
