"""Agents whose searches go on in the tree of the last move, against loops that call the search library."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Bool, Float, Int

import emcts
from emcts.agents.mcts.acting import act
from emcts.agents.mcts.evaluation import evaluate
from emcts.agents.mcts.planners import (
    ExplorationParams,
    Gumbel,
    Puct,
    UbeAtRoot,
    Uct,
    exploration_prior,
    uniform_prior,
)
from emcts.agents.mcts.state import init
from emcts.agents.mcts.targets import Reanalyse, SearchedEdgeUbe, searched_or_td
from emcts.agents.mcts.tree_reuse import empty_tree, plan_move, tree_after
from emcts.envs import Outcome
from emcts.envs.base import advance
from emcts.models.beyond_known import BeyondKnown, BeyondKnownPlanning
from emcts.models.simulator import SimulatorPlanningModel
from emcts.training.env_factory import SharedEnv
from emcts.types import Key
from tests.agents.chain import KEY, Chain, ChainState, random_tables, state_from_tables, tabular_agent
from tests.agents.tiny import CATALOGUE, settings

SIMULATIONS, MOVES = 6, 8
cut = jax.jit(emcts.subtree)


@dataclasses.dataclass(frozen=True)
class Walk(Chain):
    """A chain in which action 0 stays where it is, with a chance to slip on. Episodes end at the last position."""

    slip: float = 0.0

    @property
    def deterministic(self) -> bool:
        return self.slip == 0

    def step(self, state: ChainState, action: Int[Array, ""], key: Key) -> tuple[ChainState, Outcome]:
        forward = (action == 1) | (jax.random.uniform(key) < self.slip)
        after = jnp.minimum(state.position + forward, self.length)
        over = after == self.length
        return ChainState(after), Outcome(0.5 * action, over, jnp.bool_(False))


def agent(planner: Any, env: Any = None, reuse: bool = True) -> Any:
    made = tabular_agent(Reanalyse(Gumbel(2), searched_or_td, SearchedEdgeUbe(), exploring=Gumbel(2)))
    factory = made.env_factory if env is None else SharedEnv(env)
    return dataclasses.replace(made, planner=planner, env_factory=factory, reuse_tree=reuse)


def state_of(one: Any) -> Any:
    state = state_from_tables(one, random_tables(pairs=True))
    return state.replace(networks=state.target)


POLICIES: dict[str, tuple[Any, Any, Any, dict[str, Any]]] = {
    "puct": (
        Puct(SIMULATIONS, temperature=0.0),
        emcts.muzero_policy,
        uniform_prior,
        {"dirichlet_fraction": 0.0, "temperature": 0.0},
    ),
    "gumbel": (
        Gumbel(SIMULATIONS),
        emcts.gumbel_muzero_policy,
        exploration_prior,
        {"max_num_considered_actions": 16, "gumbel_scale": 1.0},
    ),
    "uct": (Uct(SIMULATIONS), emcts.uct_policy, uniform_prior, {"c": 1.0}),
}


def by_hand(one: Any, state: Any, policy: str) -> tuple[np.ndarray, np.ndarray, dict[str, int]]:
    """Actions, policies, and what became of the trees, of a loop over episodes and moves."""
    _, run, exploring_prior, constants = POLICIES[policy]
    env = one.env(())
    models = one.world_model.planning_models(env, state.networks)
    novelty, states = state.novelty, state.episodes.state
    num_envs = one.num_envs
    trees: list[Any] = [None] * num_envs
    actions, weights, seen = [], [], {"went on": 0, "ended": 0, "elsewhere": 0}
    step = jax.jit(lambda *inputs: advance(env, *inputs))
    _, steps_key = jax.random.split(state.key)

    @jax.jit
    def search(key: Key, root: Any, novelty: Any, beta: Any, explores: Any, tree: Any) -> Any:
        def prior(estimate: Any) -> Array:
            return jnp.where(explores, exploring_prior(estimate), estimate.policy)

        model = models(novelty)
        return run(
            None,
            key,
            model.root(root, prior),
            model.recurrent_fn(prior),
            SIMULATIONS,
            model.invalid_actions(root),
            beta=beta,
            tree=tree,
            max_nodes=2 * SIMULATIONS + 1,
            **constants,
        )

    for step_key in jax.random.split(steps_key, MOVES):
        plan_key, env_key, reset_key = jax.random.split(step_key, 3)
        plan_keys, env_keys, reset_keys = (
            jax.random.split(key, num_envs) for key in (plan_key, env_key, reset_key)
        )
        chosen, rows, befores, afters = [], [], [], []
        for row in range(num_envs):
            before = jax.tree.map(lambda leaf, row=row: leaf[row], states)
            root = jax.tree.map(lambda leaf: leaf[None], before)
            seen["went on"] += trees[row] is not None
            beta = jnp.array([one.exploration.betas[row]])
            out = search(plan_keys[row], root, novelty, beta, one.exploration.exploring[row], trees[row])
            action = int(out.action[0])
            after, outcome, following = step(before, jnp.int32(action), env_keys[row], reset_keys[row])
            child = out.search_tree.children_index[0, 0, action]
            elsewhere = out.search_tree.embeddings.position[0, child] != after.position
            seen["ended"] += bool(outcome.over)
            seen["elsewhere"] += bool(elsewhere)
            goes_on = not outcome.over and not elsewhere
            trees[row] = cut(out.search_tree, out.action.astype(jnp.int32)) if goes_on else None
            chosen.append(action)
            rows.append(out.action_weights[0])
            befores.append(int(before.position))
            afters.append(following)
        states = jax.tree.map(lambda *leaves: jnp.stack(leaves), *afters)
        pairs = np.array(befores) * 2 + np.array(chosen)
        novelty = novelty.replace(visits=novelty.visits.at[pairs].add(1))
        actions.append(chosen)
        weights.append(rows)
    return np.array(actions), np.array(weights), seen


@pytest.mark.parametrize(
    "policy", ["gumbel", *(pytest.param(p, marks=pytest.mark.long) for p in ("puct", "uct"))]
)
def test_a_rollout_equals_a_loop_that_hands_trees_on(policy: str) -> None:
    """Move for move: with novelty that is updated, episodes that end, and steps that lead elsewhere."""
    one = agent(POLICIES[policy][0], Walk(slip=0.4))
    state = state_of(one)
    after, _ = jax.jit(lambda: act(one, state))()
    actions, weights, seen = by_hand(one, state, policy)
    stored = after.replay.transitions
    np.testing.assert_array_equal(stored.action[:MOVES], actions)
    np.testing.assert_allclose(stored.policy[:MOVES], weights, rtol=1e-5, atol=1e-6)
    assert min(seen.values()) >= 1


def walker(position: Any) -> ChainState:
    return ChainState(jnp.asarray(position, jnp.int32))


@pytest.fixture(scope="module")
def grown() -> tuple[Any, Any]:
    """A model of the walk without slipping, and trees of its searches."""
    one = agent(Uct(SIMULATIONS), Walk())
    state = state_of(one)
    model = one.world_model.planning_models(one.env(()), state.networks)(state.novelty)
    states = walker([0, 1, 2, 3])
    return model, jax.jit(lambda: one.planner.grow(KEY, model, states, constant(states), None)[1])()


def constant(states: Any) -> ExplorationParams:
    return ExplorationParams.constant(states)


def test_rows_that_ended_or_went_elsewhere_start_afresh(grown: tuple[Any, Any]) -> None:
    model, tree = grown
    slipping = dataclasses.replace(model, env=Walk(slip=0.1))
    ahead = jnp.ones(4, jnp.int32)
    goes_on = jnp.array([True, True, False, True])
    below = tree_after(slipping, tree, ahead, walker([1, 0, 3, 4]), goes_on)
    assert below is not None
    # The second went elsewhere, the third was reset, and the model knows that the fourth is over.
    np.testing.assert_array_equal(below.node_visits[:, 0] > 0, [True, False, False, False])
    assert below.embeddings.position[0, 0] == 1
    declared = tree_after(model, tree, ahead, walker([1, 0, 3, 4]))
    assert declared is not None
    np.testing.assert_array_equal(declared.node_visits[:, 0] > 0, [True, True, True, False])


def test_an_empty_tree_changes_nothing(grown: tuple[Any, Any]) -> None:
    """The first move of an episode is that of a search without reuse."""
    model, _ = grown
    states = walker([0, 1, 2, 3])
    score = UbeAtRoot(Gumbel(SIMULATIONS))

    @jax.jit
    def plans() -> Any:
        params = ExplorationParams(jnp.full(4, 2.0), jnp.arange(4) > 1)
        tree = empty_tree(score, model, states, params)
        first, grown = plan_move(score, model, KEY, states, params, tree)
        return first, grown, plan_move(score, model, KEY, states, params, None)[0]

    first, grown_tree, afresh = plans()
    assert grown_tree.node_visits.shape == (4, 2 * SIMULATIONS + 1)
    for one, two in zip(jax.tree.leaves(first), jax.tree.leaves(afresh), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-6)


def unused(*inputs: Any) -> Any:
    raise AssertionError("states are compared without networks")


def test_states_are_compared_up_to_rounding() -> None:
    model = SimulatorPlanningModel(Walk(slip=0.5), unused, unused, 0.9, unused, 1.0)
    one = {"x": jnp.array([[1.0, jnp.nan], [1.0, 2.0], [1.0, 2.0]]), "key": jax.random.split(KEY, 3)}
    two = {
        "x": jnp.array([[1.0 + 1e-6, jnp.nan], [1.0, 2.1], [1.0, 2.0]]),
        "key": one["key"].at[2].set(jax.random.key(9)),
    }
    np.testing.assert_array_equal(model.stands_for(one, two), [True, False, False])


def test_a_node_past_an_unknown_step_is_no_root(grown: tuple[Any, Any]) -> None:
    """Appendix B makes everything below an unknown step maximally uncertain; once taken, it is known."""
    model = BeyondKnownPlanning(grown[0], r_max=1.0, gamma=0.9, unknown_at=1.0)
    embeddings = BeyondKnown(walker([1, 2]), jnp.array([False, True]))
    np.testing.assert_array_equal(model.stands_for(embeddings, walker([1, 2])), [True, False])


VISITS: list[np.ndarray] = []


class Recorded(Gumbel):
    """A search that tells the host how many visits its trees had."""

    def grow(self, key: Key, model: Any, states: Any, params: Any, tree: Any) -> Any:
        if tree is not None:
            jax.debug.callback(lambda roots: VISITS.append(np.asarray(roots)), tree.node_visits[:, 0])
        return super().grow(key, model, states, params, tree)


def test_evaluation_keeps_its_trees() -> None:
    """From the second move on a search begins with visits, and an episode that ended has none."""
    one = agent(Puct(SIMULATIONS, temperature=0.0), Walk())
    state = state_of(one)
    recorded = dataclasses.replace(one, evaluation_planner=Recorded(SIMULATIONS, gumbel_scale=0.0))
    VISITS.clear()
    result = jax.jit(lambda: evaluate(recorded, state, KEY, episodes=2, beta=50.0))()
    jax.effects_barrier()
    assert len(VISITS) == np.max(result.length) >= 2
    assert not VISITS[0].any()
    assert all(visits.all() for visits in VISITS[1:])


@pytest.mark.long
@pytest.mark.parametrize("name", ["e-az", "e-mz"])
def test_reuse_acts_otherwise(name: str) -> None:
    """The first of 5 moves is the same; and no tree is stored with the state of the training."""

    def rollout(reuse: bool) -> tuple[Float[Array, "..."], Bool[Array, "..."]]:
        learner: Any = CATALOGUE.compose(
            "deep-sea", name, settings("deep-sea", name, {"search.reuse": reuse})
        )
        assert learner.reuse_tree is reuse
        state = init(learner, KEY, jnp.asarray(learner.env_factory.params(0)))
        after, stats = jax.jit(learner.act)(state)
        before: Any = jax.tree.structure(state)
        assert before == jax.tree.structure(after)
        return after.replay.transitions.policy, stats.ended

    policy, ended = rollout(True)
    afresh, _ = rollout(False)
    assert np.isfinite(policy).all()
    np.testing.assert_array_equal(policy[0], afresh[0])
    assert not np.array_equal(policy, afresh)
    assert ended.any()


def test_reuse_is_off_by_default_and_refused_with_several_outcomes() -> None:
    default: Any = CATALOGUE.compose("deep-sea", "e-az", settings("deep-sea", "e-az"))
    assert not default.reuse_tree
    given = settings("deep-sea", "e-az", {"search.reuse": True, "search.outcomes": 4})
    with pytest.raises(ValueError, match="search.reuse with search.outcomes 4: .* Give --search.outcomes 1"):
        CATALOGUE.compose("deep-sea", "e-az", given)
