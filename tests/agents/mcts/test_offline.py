"""Learning from a dataset: what was learned is what a few lines of plain Python say about the same transitions."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from emcts.agents.env_objects import name_env
from emcts.agents.mcts.offline import OfflineLearner
from emcts.models.evaluators import all_states
from emcts.runs.config import override
from emcts.training import replay as replays
from emcts.training.dataset import Dataset, laid_out, of_all_seeds
from emcts.training.replay import StoredTransition
from emcts.training.seeds import SeedTrainer
from tests.agents.chain import LENGTH, ON, STOP, Chain, ChainState

DISCOUNT = 0.9
SETTINGS: Mapping[str, Any] = {
    "steps": 640,
    "search.simulations": 12,
    "search.discount": DISCOUNT,
    "novelty.kind": "counts",
    "novelty.return_range": 1.0,
    "optimiser.learning_rate": 5e-3,
    "targets.value_steps": 0,
    "replay.capacity": 100,
    "replay.batch_size": 16,
    "schedule.num_envs": 2,
    "schedule.rollout_length": 2,
    "evaluation.every": 320,
    "evaluation.episodes": 2,
    "evaluation.max_steps": 2 * LENGTH,
    "offline": "a-run",
}
Pair = tuple[int, int]


def transitions(pairs: Sequence[Pair]) -> StoredTransition:
    """The steps of the chain with these positions and actions, one after the other."""
    position, action = (np.array(column, np.int32) for column in zip(*pairs, strict=True))
    last = (position == LENGTH - 1) & (action == ON)
    return StoredTransition(
        state=ChainState(jnp.asarray(position)),
        action=jnp.asarray(action),
        reward=jnp.asarray(last, jnp.float32),
        terminated=jnp.asarray(last | (action == STOP)),
        truncated=jnp.zeros(len(pairs), bool),
        policy=jnp.full((len(pairs), 2), 0.5),
    )


def episodes(*lengths: int) -> list[Pair]:
    """Episodes that go on for some steps, and stop unless they reached the end."""
    pairs: list[Pair] = []
    for length in lengths:
        pairs += [(position, ON) for position in range(length)]
        pairs += [(length, STOP)] if length < LENGTH else []
    return pairs


@functools.cache
def trainer(agent: str = "e-az", **changes: Any) -> SeedTrainer[Any]:
    named = name_env(Chain())
    sizes = {"model.width": 32} if agent == "e-az" else {}
    settings = override(named.catalogue.settings(named.environment, agent), {**SETTINGS, **sizes})
    settings = override(settings, {name.replace("__", "."): value for name, value in changes.items()})
    settings = named.catalogue.resolve(named.environment, agent, settings)
    return named.catalogue.trainer(named.environment, agent, settings, (0,))


def filled(one: SeedTrainer[Any], pairs: Sequence[Pair]) -> Any:
    num_envs = one.learner.exploration.num_envs
    return one.fill(one.init(), of_all_seeds([laid_out(transitions(pairs), num_envs)]))


def trained(one: SeedTrainer[Any], pairs: Sequence[Pair]) -> Any:
    state = filled(one, pairs)
    while int(state.log.env_steps.numbers()[0]) < one.total_env_steps:
        state, _ = one.advance(state)
    return jax.tree.map(lambda leaf: leaf[0], state)


def actions(one: SeedTrainer[Any], state: Any, beta: float) -> np.ndarray:
    policy = one.learner.policy(state, beta=beta)
    return np.asarray(policy(jax.random.key(0), all_states(Chain())))


ALL = episodes(0, 1, 2, 3, 4) * 3


@pytest.mark.long
def test_values_of_a_complete_dataset_are_the_optimal_ones() -> None:
    one = trainer()
    state = trained(one, ALL)
    learner = one.learner
    assert isinstance(learner, OfflineLearner)
    model = learner.world_model.planning_models(Chain(), state.networks)(state.novelty)
    wanted = DISCOUNT ** np.arange(LENGTH - 1, -1, -1)
    np.testing.assert_allclose(model.estimate(all_states(Chain())).value, wanted, atol=0.05)
    np.testing.assert_array_equal(actions(one, state, 0.0), [ON] * LENGTH)


@pytest.mark.long
def test_below_zero_beta_stays_with_what_the_dataset_has() -> None:
    """Nobody went on from position 2, where it is not known what follows: stopping there is known to pay nothing."""
    one = trainer()
    state = trained(one, episodes(0, 1, 2, 2) * 4)
    assert actions(one, state, -10.0)[2] == STOP
    assert actions(one, state, 1.0)[2] == ON


def test_novelty_and_visits_are_those_of_the_dataset() -> None:
    pairs = ALL[:21]  # an odd number for two episodes: one place is padding
    for num_envs in (1, 2, 3):
        one = trainer(schedule__num_envs=num_envs)
        state = filled(one, pairs)
        counts, visits = np.zeros((LENGTH, 2), int), np.zeros(LENGTH, int)
        for position, action in pairs:
            counts[position, action] += 1
            visits[position] += 1
        stored = jax.tree.leaves(state.novelty)
        np.testing.assert_array_equal(np.asarray(stored[0][0]).reshape(LENGTH, 2), counts)
        np.testing.assert_array_equal(state.log.visits[0], visits)
        assert isinstance(one.learner, OfflineLearner)
        assert int(one.learner.dataset_steps(jax.tree.map(lambda leaf: leaf[0], state))) == len(pairs)


def test_nothing_is_played_and_nothing_is_added() -> None:
    one = trainer()
    state = filled(one, ALL)
    replay = jax.tree.map(np.asarray, state.replay.transitions)
    novelty, episode = jax.tree.map(np.asarray, (state.novelty, state.episodes))
    state, progress = one.advance(state)
    jax.tree.map(np.testing.assert_array_equal, replay, state.replay.transitions)
    jax.tree.map(np.testing.assert_array_equal, (novelty, episode), (state.novelty, state.episodes))
    assert progress.metrics["episodes"] == 0
    assert np.isnan(progress.metrics["train_return"])
    assert progress.metrics["dataset_steps"] == len(ALL)
    assert progress.metrics["simulator_steps_acting"] == 0 < progress.metrics["simulator_steps_reanalyse"]
    per_iteration = one.learner.schedule.updates / one.learner.steps_per_iteration
    assert progress.train_steps == per_iteration * progress.env_steps  # from the first iteration on


def test_the_last_transition_of_a_dataset_is_sampled_and_padding_never() -> None:
    one = trainer()
    learner, pairs = one.learner, ALL[:13]
    assert isinstance(learner, OfflineLearner)
    state = jax.tree.map(lambda leaf: leaf[0], filled(one, pairs))
    sample = replays.sample(state.replay, jax.random.key(0), 2000, exponent=0.0, lookahead=learner.lookahead)
    places = set(zip(np.asarray(sample.row).tolist(), np.asarray(sample.env).tolist(), strict=True))
    assert places == {(row, 0) for row in range(7)} | {(row, 1) for row in range(6)}
    np.testing.assert_allclose(sample.probability, 1 / len(pairs), rtol=1e-6)


def test_a_dataset_that_does_not_fit_the_replay_is_refused() -> None:
    with pytest.raises(ValueError, match=r"replay.capacity is 40: raise it"):
        filled(trainer(replay__capacity=40), ALL)
    filled(trainer(replay__capacity=len(ALL)), ALL)


@pytest.mark.long
def test_a_learned_model_reads_the_rewards_of_the_dataset() -> None:
    """All sequences end where an episode or the dataset does: no reward is made up behind its last transition."""
    pairs = [(0, ON), (1, ON), (2, ON), (3, ON), (0, ON), (1, ON)]
    one = trainer(
        "e-mz",
        model__latent=16,
        model__representation=(16,),
        model__dynamics=(32,),
        model__heads=(16,),
        model__ube_head=(16,),
        search__simulations=4,
        replay__sequence=3,
        steps=800,
        model__kind="abstracted",
        schedule__num_envs=1,
    )
    state = trained(one, pairs)
    assert isinstance(one.learner, OfflineLearner)
    model = one.learner.world_model.planning_models(Chain(), state.networks)(state.novelty)
    step = model.step(all_states(Chain()), jnp.full(LENGTH, ON), jax.random.key(0))
    np.testing.assert_allclose(step.reward, [0, 0, 0, 1], atol=0.1)


def test_an_agent_that_acts_takes_no_dataset() -> None:
    one = trainer(offline=None)
    dataset: Dataset = of_all_seeds([laid_out(transitions(ALL), 2)])
    with pytest.raises(ValueError, match="learns from no dataset"):
        one.fill(one.init(), dataset)
    assert dataclasses.is_dataclass(dataset)
