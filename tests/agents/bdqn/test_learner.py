"""Bootstrapped DQN: what members learn, priors, the member that plays an episode, and whole trainings."""

import dataclasses
import functools
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jaxtyping import Array, Bool, Int

from emcts.agents.bdqn.learner import Bdqn
from emcts.agents.bdqn.networks import BootstrappedEnsemble, make_layers
from emcts.agents.bdqn.state import BdqnState, BootstrapTransition
from emcts.envs import Outcome, time_limit
from emcts.training.env_factory import SharedEnv
from emcts.training.learner import EvaluationConfig, Learner, UpdateSchedule
from emcts.training.loop import run_chunk
from emcts.types import Key
from tests.agents.chain import GAMMA, LENGTH, ON, STOP, Chain, ChainState
from tests.agents.tiny import advanced, assert_equal, assert_resumes, table, trainer

KEY = jax.random.key(0)


def make(env: Any, **changes: Any) -> Bdqn:
    settings: dict[str, Any] = {
        "env_factory": SharedEnv(env),
        "ensemble": BootstrappedEnsemble(5, (16,), prior_scale=1.0),
        "discount": GAMMA,
        "optimiser": optax.adam(1e-2),
        "replay_capacity": 256,
        "batch_size": 32,
        "schedule": UpdateSchedule(1, 1, warmup_steps=16, target_period=4),
        "evaluation": EvaluationConfig(1, max_steps=LENGTH),
    }
    return Bdqn(**{**settings, **changes})


def train(learner: Bdqn, state: BdqnState, steps: int) -> tuple[BdqnState, Any]:
    first = int(state.log.env_steps)
    learning = jnp.arange(first + 1, first + steps + 1) >= learner.schedule.warmup_steps
    return program(learner)(state, learning, jnp.zeros(steps))


@functools.cache
def program(learner: Bdqn) -> Any:
    return jax.jit(functools.partial(run_chunk, learner))


def start(learner: Bdqn, seed: int = 0) -> BdqnState:
    return jax.jit(learner.init)(jax.random.key(seed), ())


def member_values(learner: Bdqn, state: BdqnState, env: Any, states: Any) -> np.ndarray:
    """[states, K, A]"""

    def one(now: Any) -> Array:
        return learner.ensemble.all_values(state.networks, state.priors, env.observe(now).reshape(-1))

    return np.asarray(jax.jit(jax.vmap(one))(states))


POSITIONS = ChainState(jnp.arange(LENGTH, dtype=jnp.int32))


@pytest.mark.parametrize("agent", ["bdqn", "e-az"])
def test_agents_with_and_without_search_are_learners(agent: str) -> None:
    assert isinstance(trainer("deep-sea", agent).learner, Learner)


@pytest.fixture(scope="module")
def trained() -> tuple[Bdqn, BdqnState, BdqnState, Any]:
    """In the chain: before and after a thousand steps."""
    learner = make(Chain())
    before = start(learner)
    after, metrics = train(learner, before, 1000)
    return learner, before, after, metrics


def test_every_member_learns_the_true_values(trained: Any) -> None:
    """The value of action ON is GAMMA ** (steps left - 1), and that of STOP is 0."""
    learner, _, after, _ = trained
    values = member_values(learner, after, Chain(), POSITIONS)
    wanted = GAMMA ** np.arange(LENGTH - 1, -1, -1.0)
    np.testing.assert_allclose(values[..., ON], np.tile(wanted[:, None], 5), atol=0.03)
    assert np.all(np.abs(values[..., STOP]) < 0.3), "it was taken seldom"
    evaluation = learner.evaluate(after, KEY, episodes=3, beta=0.0)
    np.testing.assert_array_equal(evaluation.episode_return, np.ones(3))
    np.testing.assert_array_equal(evaluation.length, np.full(3, LENGTH))


def test_priors_never_train_and_members_differ(trained: Any) -> None:
    _, before, after, _ = trained
    assert_equal(before.priors, after.priors)
    for old, new in zip(jax.tree.leaves(before.networks), jax.tree.leaves(after.networks), strict=True):
        assert not np.array_equal(old, new)
    for layers in (before.networks, before.priors, after.networks):
        for layer in layers:
            pairs = np.triu_indices(len(layer.weight), 1)
            assert np.all(np.abs(layer.weight[pairs[0]] - layer.weight[pairs[1]]).max(axis=(1, 2)) > 1e-2)
    first = [layer.weight for layer in before.networks]
    assert not np.allclose(first[0], before.priors[0].weight), "a prior is not the network it is added to"


def test_members_agree_on_visited_states_alone(trained: Any) -> None:
    learner, before, after, metrics = trained
    stds = [member_values(learner, state, Chain(), POSITIONS).std(axis=1) for state in (before, after)]
    assert np.all(stds[1] < 0.2 * stds[0].max())
    over = ChainState(jnp.array([LENGTH], jnp.int32))  # never learned from
    assert np.all(member_values(learner, after, Chain(), over).std(axis=1) > 0.1)
    reported = np.asarray(metrics.rollout.value_std).reshape(-1)
    assert reported[-50:].mean() < 0.2 * reported[:10].mean()


def test_an_episode_keeps_its_member_as_it_was_at_its_start() -> None:
    learner = make(Chain())
    state = start(learner)
    act, learn = jax.jit(learner.act), jax.jit(learner.learn)
    heads, first = [], state.episode
    for _ in range(120):
        before = state
        state, rollout = act(state)
        state, _ = learn(state, jnp.float32(0))
        x = Chain().observe(before.episode.state)
        prior = jax.tree.map(lambda leaf, head=before.episode.head: leaf[head], before.priors)
        taken = state.replay.transitions.action[int(state.replay.cursor) - 1, 0]
        assert int(taken) == int(jnp.argmax(learner.ensemble.values(before.episode.held, prior, x)))
        if rollout.ended[0, 0]:
            first = state.episode
            heads.append(int(first.head))
            # The member before the update of this iteration, which comes after acting.
            assert_equal(first.held, jax.tree.map(lambda leaf, head=first.head: leaf[head], before.networks))
        assert int(state.episode.head) == int(first.head)
        assert_equal(state.episode.held, first.held)
    assert set(heads) == set(range(5))


@pytest.fixture(scope="module")
def cut_short() -> tuple[Bdqn, BdqnState, Any, Any]:
    """In a chain with a limit of 3 steps: a full replay, oldest transition first, and the statistics of these steps."""
    learner = make(
        time_limit(Chain(), 3),
        ensemble=BootstrappedEnsemble(3, (4,), prior_scale=2.0, mask_probability=0.5, noise_scale=0.3),
        replay_capacity=40,
    )
    state, metrics = train(learner, start(learner), 66)
    order = (int(state.replay.cursor) + np.arange(40)) % 40
    kept = jax.tree.map(lambda ring: np.asarray(ring)[order, 0], state.replay.transitions)
    rollout = jax.tree.map(lambda leaf: np.asarray(leaf).reshape(-1)[-40:], metrics.rollout)
    return learner, state, kept, rollout


def test_the_replay_stores_what_happened(cut_short: Any) -> None:
    _, _, kept, rollout = cut_short
    assert isinstance(kept, BootstrapTransition)
    assert kept.truncated.any()
    assert kept.terminated.any()
    over = kept.terminated | kept.truncated
    np.testing.assert_array_equal(over, rollout.ended)
    before, after = kept.state.inner.position, kept.after.inner.position
    np.testing.assert_array_equal(after, np.where(kept.action == ON, before + 1, LENGTH))
    np.testing.assert_array_equal(before[1:], np.where(over, 0, after)[:-1])
    assert 0.3 < kept.mask.mean() < 0.7
    np.testing.assert_allclose([kept.noise.mean(), kept.noise.std()], [0, 1], atol=0.3)


def test_the_loss_of_each_member_by_hand(cut_short: Any) -> None:
    """Computed with numpy: masks, noise, ends, and the target network of each member."""
    learner, state, kept, _ = cut_short
    env = learner.env_factory.example
    found = jax.jit(lambda: learner.member_losses(env, state.networks, state, kept))()

    def q(layers: Any, x: np.ndarray, k: int) -> np.ndarray:
        hidden = np.maximum(x @ np.asarray(layers[0].weight[k]) + np.asarray(layers[0].bias[k]), 0)
        return hidden @ np.asarray(layers[1].weight[k]) + np.asarray(layers[1].bias[k])

    before, after = (np.eye(LENGTH + 1)[part.inner.position] for part in (kept.state, kept.after))
    for k in range(3):
        bootstrap = (q(state.target, after, k) + 2.0 * q(state.priors, after, k)).max(axis=1)
        targets = kept.reward + 0.3 * kept.noise[:, k] + GAMMA * ~kept.terminated * bootstrap
        now = q(state.networks, before, k) + 2.0 * q(state.priors, before, k)
        errors = (now[np.arange(40), kept.action] - targets) ** 2
        np.testing.assert_allclose(found[k], np.mean(kept.mask[:, k] * errors), rtol=1e-4)


def test_target_networks_are_copied_every_fourth_update() -> None:
    learner = make(Chain(), schedule=UpdateSchedule(1, 1, warmup_steps=2, target_period=4))
    state = start(learner)
    networks = [state.networks]
    for step in range(1, 11):
        state, _ = train(learner, state, 1)
        if step >= 2:
            networks.append(state.networks)
        updates = len(networks) - 1
        assert int(state.log.train_steps) == updates
        assert_equal(state.target, networks[4 * (updates // 4)])
    assert not np.array_equal(networks[4][0].weight, networks[8][0].weight)


@dataclasses.dataclass(frozen=True)
class Forbidding(Chain):
    """The chain, where STOP is illegal."""

    def legal(self, state: ChainState) -> Bool[Array, "A"]:
        return jnp.array([False, True])

    def step(self, state: ChainState, action: Int[Array, ""], key: Key) -> tuple[ChainState, Outcome]:
        after, outcome = super().step(state, action, key)
        return after, outcome.replace(reward=outcome.reward - 1.0 * (action == ON))


def test_illegal_actions_are_neither_taken_nor_bootstrapped_from() -> None:
    """Each step costs 1, so that STOP would be better if it were legal."""
    learner = make(Forbidding(), discount=1.0)
    state, metrics = train(learner, start(learner), 800)
    np.testing.assert_array_equal(state.replay.transitions.action, ON)
    assert np.all(np.asarray(metrics.rollout.ended).reshape(-1, LENGTH)[:, -1])
    values = member_values(learner, state, Forbidding(), POSITIONS)[:, :, ON]
    np.testing.assert_allclose(values, np.tile([[-3.0], [-2.0], [-1.0], [0.0]], (1, 5)), atol=0.1)
    evaluation = learner.evaluate(state, KEY, episodes=2, beta=-1.0)
    np.testing.assert_array_equal(evaluation.length, [LENGTH, LENGTH])


def test_beta_weighs_the_standard_deviation_of_members() -> None:
    learner = make(Chain())
    state = start(learner)
    values = member_values(learner, state, Chain(), POSITIONS)
    for beta in (-3.0, 0.0, 3.0):
        scores = values.mean(axis=1) + beta * values.std(axis=1)
        actions = scores.argmax(axis=1)
        stops = np.flatnonzero(actions != ON)
        length = int(stops[0]) + 1 if len(stops) else LENGTH
        assert int(learner.evaluate(state, KEY, episodes=1, beta=beta).length[0]) == length


def test_initial_weights_are_those_of_bsuite() -> None:
    """A normal distribution truncated at two standard deviations has 0.88 of one."""
    (layer,) = make_layers((400, 300), KEY)
    assert np.abs(layer.weight).max() <= 2 / 20
    np.testing.assert_allclose(np.std(layer.weight), 0.8796 / 20, rtol=0.01)
    np.testing.assert_array_equal(layer.bias, 0)


@pytest.mark.usefixtures("key_reuse_checked")
def test_it_solves_deep_sea() -> None:
    one = trainer("deep-sea", "bdqn")
    state, reports = advanced(one, one.init(), 10)
    assert reports[-1].env_steps == 1000
    np.testing.assert_allclose(reports[-1].metrics["return"], 0.99, atol=1e-4)
    first, solved = (reports[-1].metrics[name] for name in ("first_reward_step", "solved_step"))
    assert np.all(first <= solved)
    assert np.all(first % 5 == 0), "the goal is at the end of an episode"
    assert np.all(reports[-1].metrics["train_return"] > 0.9)
    assert np.all(table(reports, "episodes") == 20)
    assert [report.train_steps for report in reports] == [100 * (k + 1) - 39 for k in range(10)]
    assert np.isnan(table(reports, "nan_step")).all()
    assert "table_occupancy" not in reports[-1].metrics, "it has no hash table"
    assert [report.simulator_steps for report in reports] == [0] * 10, "it does not search"
    assert np.all(table(reports, "simulator_steps_evaluation") == 0)
    maps = one.maps(state)
    np.testing.assert_array_equal(np.nansum(maps["visits"], axis=(1, 2)), 1000)
    diagonal = np.arange(5)
    np.testing.assert_allclose(maps["value"][:, diagonal, diagonal], [0.99 ** (4 - diagonal)] * 2, atol=0.1)
    assert np.all(np.isnan(maps["value std"][:, 0, 1:]))


@pytest.mark.usefixtures("key_reuse_checked")
def test_a_seed_does_not_depend_on_the_others() -> None:
    one, two = trainer("deep-sea", "bdqn", (0, 1)), trainer("deep-sea", "bdqn", (1, 7))
    _, reports = advanced(one, one.init(), 3)
    _, others = advanced(one, two.init(), 3)
    for name in reports[-1].metrics:
        np.testing.assert_array_equal(table(reports, name)[:, 1], table(others, name)[:, 0])
    assert not np.array_equal(table(reports, "loss")[:, 0], table(others, "loss")[:, 1])


@pytest.mark.parametrize("environment", ["subleq", pytest.param("minatar-breakout", marks=pytest.mark.long)])
def test_it_trains_in_other_environments(environment: str) -> None:
    one = trainer(environment, "bdqn", (0,))
    _, reports = advanced(one, one.init(), 2)
    for name in ("return", "uncertainty", "loss", "loss_value"):
        assert np.isfinite(table(reports, name)).all(), name
    assert np.isnan(table(reports, "nan_step")).all()
    assert np.all(table(reports, "length") <= 5)
    assert np.all(table(reports, "episodes") > 0)
    solved = table(reports, "return") if environment == "subleq" else np.full((2, 1), np.nan)
    np.testing.assert_array_equal(table(reports, "solved"), solved)
    assert "states_discovered" not in reports[0].metrics
    assert one.maps(one.init()) == {}


@pytest.mark.usefixtures("key_reuse_checked")
def test_a_resumed_training_equals_an_uninterrupted_one(tmp_path: Path) -> None:
    reports = assert_resumes(trainer("deep-sea", "bdqn"), tmp_path)
    assert np.isfinite(table(reports, "loss_value")).all()
    assert not np.array_equal(*table(reports, "loss_value").T), "seeds differ"


@pytest.mark.long
@pytest.mark.parametrize("agent", ["bdqn", "az"])
def test_asterix_is_trained_saved_and_restored(agent: str, tmp_path: Path) -> None:
    """Its state has an array without elements."""
    reports = assert_resumes(trainer("minatar-asterix", agent, (0,)), tmp_path)
    assert np.isfinite(table(reports, "loss")).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"batch_size": 0}, "batch_size is 0: give at least 1"),
        ({"replay_capacity": 10}, "replay of 10 steps does not hold warmup_steps of 16"),
        ({"schedule": UpdateSchedule(1, 2, 16)}, "schedule.updates is 2: give 1"),
    ],
)
def test_bad_values(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make(Chain(), **change)
