"""Targets on a chain, against a slow computation in plain Python."""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from emcts.agents.mcts.planners import Gumbel, Puct
from emcts.agents.mcts.targets import (
    NStep,
    NStepUbe,
    Reanalyse,
    SearchEstimate,
    TargetContext,
    Trajectory,
    UbeRule,
    ValueRule,
    ahead_variance,
    edge_variance,
    largest_edge,
    root_variance,
    searched_or_td,
    searched_value,
)
from emcts.agents.mcts.update import gather_trajectories, make_targets
from emcts.training import replay as replays
from emcts.training.replay import Sample, StoredTransition
from tests.agents.chain import (
    GAMMA,
    KEY,
    LENGTH,
    ON,
    STOP,
    Chain,
    ChainState,
    Tables,
    dense_agent,
    drawn_tables,
    finite_agent,
    told,
)

PLANNER = Gumbel(2, gumbel_scale=0.0)  # two simulations: each action once
EXPLORATION_BETA, TEMPERATURE = 2.0, 0.5
RULES: dict[str, UbeRule] = {
    "ahead 0": NStepUbe(0, ahead_variance),
    "ahead 1": NStepUbe(1, ahead_variance),
    "root 0": NStepUbe(0, root_variance),
    "root 1": NStepUbe(1, root_variance),
    "edge 0": NStepUbe(0, edge_variance),
    "edge 1": NStepUbe(1, edge_variance),
    "largest edge": largest_edge,
}
PLACES = np.repeat(np.arange(LENGTH), 2)
ACTIONS = np.tile([STOP, ON], LENGTH)


class ByHand:
    """Everything that can be said of the chain, place by place."""

    def __init__(self, tables: Tables, dense: bool):
        self.tables, self.dense = tables, dense

    def after(self, place: int, action: int) -> int:
        return place + 1 if action == ON else LENGTH

    def reward(self, place: int, action: int) -> float:
        if self.dense:
            return 1.0 if self.after(place, action) == LENGTH and action == ON else 0.0
        return self.tables.reward[place, action]

    def eta(self, place: int, action: int) -> float:
        if self.dense:
            return 1 / (self.tables.visits[self.after(place, action)] + 2.0)
        return 1 / (self.tables.visits[2 * place + action] + 0.5)

    def local(self, place: int, action: int) -> float:
        return 0.0 if self.dense else self.eta(place, action)

    def value(self, place: int) -> float:
        return 0.0 if place == LENGTH else self.tables.value[place]

    def leaf_variance(self, place: int, action: int) -> float:
        after = self.after(place, action)
        if after == LENGTH:
            return 0.0
        if self.dense:
            return min(max(self.tables.ube[after], self.eta(place, action)), 0.6)
        steps_left = sum(GAMMA ** (2 * i) for i in range(LENGTH - after))
        return max(self.tables.ube[after], steps_left * self.eta(place, action))

    def q(self, place: int) -> np.ndarray:
        return np.array(
            [self.reward(place, a) + GAMMA * self.value(self.after(place, a)) for a in (STOP, ON)]
        )

    def variances(self, place: int) -> np.ndarray:
        return np.array([self.local(place, a) + GAMMA**2 * self.leaf_variance(place, a) for a in (STOP, ON)])

    def improved(self, place: int) -> np.ndarray:
        """Gumbel MuZero's policy, when each action was tried once."""
        q = self.q(place)
        logits = self.tables.policy[place] + 0.1 * (50 + 1) * (q - q.min()) / (q.max() - q.min())
        return np.exp(logits) / np.exp(logits).sum()

    def searched(self, place: int) -> float:
        return self.q(place)[np.argmax(self.improved(place))]

    def root_variance(self, place: int) -> float:
        """A mean of stds, the root's own among them."""
        own = min(self.tables.ube[place], 0.6) if self.dense else self.tables.ube[place]
        return float(np.mean(np.sqrt([own, *self.variances(place)])) ** 2)

    def exploration(self, place: int) -> np.ndarray:
        scores = (self.q(place) + EXPLORATION_BETA * np.sqrt(self.variances(place))) / TEMPERATURE
        return np.exp(scores) / np.exp(scores).sum()

    def ube(self, rule: str, place: int, action: int) -> float:
        if rule == "largest edge":
            return self.variances(place).max()
        name, moves = rule.split()
        of = {
            "ahead": lambda at: self.variances(at).max(),
            "edge": lambda at: self.variances(at).max(),  # a search of one visit each sees no further
            "root": self.root_variance,
        }[name]
        if moves == "0":
            return of(place)
        after = self.after(place, action)
        return self.local(place, action) + (0.0 if after == LENGTH else GAMMA**2 * of(after))


def story_of_every_pair() -> Trajectory:
    """Each place left by each action; what was paid is not what the networks think."""
    after = np.where((ACTIONS == ON) & (PLACES + 1 < LENGTH), PLACES + 1, 0)  # a new episode begins at 0
    terminated = (ACTIONS == STOP) | (PLACES + 1 == LENGTH)
    return Trajectory(
        states=ChainState(jnp.asarray(np.stack([PLACES, after], axis=1), jnp.int32)),
        actions=jnp.asarray(ACTIONS[:, None], jnp.int32),
        rewards=jnp.asarray(0.2 * np.arange(2 * LENGTH)[:, None], jnp.float32),
        terminated=jnp.asarray(terminated[:, None]),
        truncated=jnp.zeros((2 * LENGTH, 1), bool),
        policy=jnp.full((2 * LENGTH, 2), 0.5),
    )


@functools.cache
def made(dense: bool) -> tuple[ByHand, dict[str, Any]]:
    """Targets of every pair by every rule, in one program."""
    make = dense_agent if dense else finite_agent
    reanalyse = Reanalyse(
        PLANNER,
        searched_value,
        largest_edge,
        exploration_beta=EXPLORATION_BETA,
        exploration_temperature=TEMPERATURE,
    )
    tables = drawn_tables(pairs=not dense)
    state = told(make(reanalyse), tables)

    @jax.jit
    def run() -> dict[str, Any]:
        out = {}
        rules = {**RULES, "searched or td": largest_edge, "td": largest_edge}
        values: dict[str, ValueRule] = {"searched or td": searched_or_td, "td": NStep(1)}
        for name, rule in rules.items():
            changed = dataclasses.replace(reanalyse, ube=rule, value=values.get(name, searched_value))
            out[name] = make_targets(make(changed), Chain(), state, story_of_every_pair(), KEY)
        return out

    return ByHand(tables, dense), run()


@pytest.fixture(params=[False, True], ids=["finite", "dense"])
def both(request: pytest.FixtureRequest) -> tuple[ByHand, dict[str, Any]]:
    return made(request.param)


def test_values_and_policies(both: Any) -> None:
    hand, targets = both
    found = targets["largest edge"]
    np.testing.assert_allclose(found.value, [hand.searched(place) for place in PLACES], atol=1e-5)
    np.testing.assert_allclose(found.policy, [hand.improved(place) for place in PLACES], atol=1e-4)
    np.testing.assert_allclose(found.exploration, [hand.exploration(place) for place in PLACES], atol=1e-4)
    np.testing.assert_allclose(found.reward, 0.2 * np.arange(2 * LENGTH), rtol=1e-6)


def test_one_move_of_the_story_may_be_worth_more(both: Any) -> None:
    hand, targets = both
    episode_return = 0.2 * np.arange(2 * LENGTH)
    td = [
        reward + GAMMA * hand.value(hand.after(place, action))
        for reward, place, action in zip(episode_return, PLACES, ACTIONS, strict=True)
    ]
    np.testing.assert_allclose(targets["td"].value, td, atol=1e-5)
    searched = [hand.searched(place) for place in PLACES]
    np.testing.assert_allclose(targets["searched or td"].value, np.maximum(searched, td), atol=1e-5)
    assert 0 < np.sum(np.array(td) > searched) < 2 * LENGTH, "either is larger somewhere"


@pytest.mark.parametrize("rule", RULES)
def test_uncertainty(both: Any, rule: str) -> None:
    hand, targets = both
    wanted = [hand.ube(rule, place, action) for place, action in zip(PLACES, ACTIONS, strict=True)]
    np.testing.assert_allclose(targets[rule].ube, wanted, rtol=1e-4)


def test_the_fixed_point_of_the_targets_is_the_true_variance() -> None:
    """The uncertainty Bellman equation: iterated, it says how unknown the rest of the way is, discounted."""
    agent = finite_agent(Reanalyse(PLANNER, searched_value, NStepUbe(0, ahead_variance)))
    visits = np.full(2 * LENGTH, 10**6)
    visits[2 * (LENGTH - 1) + ON] = 0  # all was seen often but for the last step
    tables = dataclasses.replace(drawn_tables(pairs=True), visits=visits, ube=np.zeros(LENGTH))
    targets = jax.jit(lambda state: make_targets(agent, Chain(), state, story_of_every_pair(), KEY).ube)
    for _ in range(LENGTH):
        tables = dataclasses.replace(tables, ube=np.asarray(targets(told(agent, tables)))[::2])
    np.testing.assert_allclose(tables.ube, [2.0 * GAMMA ** (2 * (3 - s)) for s in range(LENGTH)], rtol=1e-3)


def test_a_search_that_explores_finds_more_uncertainty() -> None:
    """And leaves values and policies to the other search."""
    calm = Reanalyse(PLANNER, searched_value, NStepUbe(0, root_variance), exploring=Puct(16, temperature=0.0))
    eager = dataclasses.replace(calm, exploring_beta=30.0)
    state = told(finite_agent(calm), drawn_tables(pairs=True))
    without, found = (
        jax.jit(lambda how=how: make_targets(finite_agent(how), Chain(), state, story_of_every_pair(), KEY))()
        for how in (calm, eager)
    )
    np.testing.assert_array_equal(without.value, found.value)
    np.testing.assert_array_equal(without.policy, found.policy)
    assert np.sum(found.ube) > 1.1 * np.sum(without.ube)


def n_step_by_hand(
    n: int, rewards: Any, terminated: Any, truncated: Any, values: Any, gamma: float = GAMMA
) -> float:
    total = 0.0
    for move in range(n):
        if truncated[move] and not terminated[move]:
            return total + gamma**move * values[move]
        total += gamma**move * rewards[move]
        if terminated[move]:
            return total
    return total + gamma**n * values[n]


def context(trajectory: Trajectory, values: np.ndarray) -> TargetContext:
    """Of a story whose states are numbers, with values for them, and nothing else."""
    number = trajectory.actions.shape[0]
    nothing = jnp.zeros(number)
    searched = SearchEstimate(nothing, jnp.zeros((number, 2)), jnp.zeros((number, 2)), nothing, nothing)
    table = jnp.asarray(values.reshape(-1), jnp.float32)
    return TargetContext(
        trajectory=trajectory,
        discount=GAMMA,
        here=searched,
        explored=lambda states: searched.replace(root_variance=table[states]),
        value=lambda states: table[states],
        ahead_variance=lambda states: table[states],
        local_variance=lambda move: 0.5 + move + nothing,
    )


def drawn_story(number: int, moves: int) -> tuple[Trajectory, np.ndarray]:
    rng = np.random.default_rng(1)
    end = rng.random((number, moves))
    return Trajectory(
        states=jnp.arange(number * (moves + 1)).reshape(number, moves + 1),
        actions=jnp.zeros((number, moves), jnp.int32),
        rewards=jnp.asarray(rng.normal(size=(number, moves)), jnp.float32),
        terminated=jnp.asarray(end < 0.15),
        truncated=jnp.asarray((end > 0.85) | (end < 0.05)),
        policy=jnp.zeros((number, 2)),
    ), rng.normal(size=(number, moves + 1))


@pytest.mark.parametrize("n", [1, 3, 5])
def test_n_steps_with_ends_and_cuts_inside(n: int) -> None:
    trajectory, values = drawn_story(200, 5)
    found = NStep(n)(context(trajectory, values))
    wanted = [
        n_step_by_hand(n, *row)
        for row in zip(trajectory.rewards, trajectory.terminated, trajectory.truncated, values, strict=True)
    ]
    np.testing.assert_allclose(found, wanted, atol=1e-5)


@pytest.mark.parametrize(
    ("terminated", "truncated", "wanted"),
    [
        ([0, 0, 0], [0, 0, 0], 1 + GAMMA * 2 + GAMMA**2 * 4 + GAMMA**3 * 80),
        ([0, 1, 0], [0, 0, 0], 1 + GAMMA * 2),
        ([0, 0, 1], [0, 0, 0], 1 + GAMMA * 2 + GAMMA**2 * 4),
        ([0, 0, 0], [0, 1, 0], 1 + GAMMA * 20),
        ([0, 0, 0], [1, 0, 0], 10),
        ([0, 1, 0], [0, 0, 1], 1 + GAMMA * 2),
        ([0, 0, 1], [0, 1, 0], 1 + GAMMA * 20),
        ([0, 1, 0], [0, 1, 0], 1 + GAMMA * 2),
        ([1, 0, 0], [1, 0, 0], 1),
    ],
)
def test_three_steps_by_hand(terminated: list[int], truncated: list[int], wanted: float) -> None:
    trajectory = Trajectory(
        states=jnp.arange(4)[None],
        actions=jnp.zeros((1, 3), jnp.int32),
        rewards=jnp.array([[1.0, 2.0, 4.0]]),
        terminated=jnp.array([terminated], bool),
        truncated=jnp.array([truncated], bool),
        policy=jnp.zeros((1, 2)),
    )
    np.testing.assert_allclose(NStep(3)(context(trajectory, np.array([10.0, 20, 40, 80]))), wanted, rtol=1e-6)


@pytest.mark.parametrize("n", [0, 1, 3, 5])
@pytest.mark.parametrize("bootstrap", [ahead_variance, root_variance])
def test_uncertainty_of_n_steps_with_ends_and_cuts_inside(n: int, bootstrap: Any) -> None:
    """After an end there is nothing; at a cut the story is not followed, for nobody knows where it led."""
    trajectory, values = drawn_story(200, 5)
    variances = np.abs(values)
    found = NStepUbe(n, bootstrap)(context(trajectory, variances))
    local = np.broadcast_to(0.5 + np.arange(5), (200, 5))
    wanted = [
        n_step_by_hand(n, *row, gamma=GAMMA**2)
        for row in zip(local, trajectory.terminated, trajectory.truncated, variances, strict=True)
    ]
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_recall_gives_each_step_of_a_sequence_its_story() -> None:
    agent = finite_agent(Reanalyse(PLANNER, NStep(2), NStepUbe(1, ahead_variance), moves=2), sequence=3)
    state = told(agent, drawn_tables(pairs=True))
    ring = state.replay
    for number in range(40):  # of 32 rows: it wraps
        names = jnp.array([10 * number, 10 * number + 1])
        flags = jnp.full(2, number % 3 == 0)
        ring = replays.add(
            ring,
            StoredTransition(
                ChainState(names), names, 0.1 * names, flags, ~flags, jnp.stack([names, names], -1) * 1.0
            ),
        )
    at = Sample(jnp.array([30, 2]), jnp.array([1, 0]), jnp.ones(2))
    trajectory = jax.jit(lambda: gather_trajectories(agent, Chain(), state.replace(replay=ring), at))()
    starts = [301, 311, 321, 340, 350, 360]  # rows 30, 31 and then row 0, which holds move 32
    np.testing.assert_array_equal(trajectory.states.position, [[s, s + 10, s + 20] for s in starts])
    np.testing.assert_array_equal(trajectory.actions, [[s, s + 10] for s in starts])
    np.testing.assert_allclose(trajectory.rewards, [[0.1 * s, 0.1 * s + 1] for s in starts], rtol=1e-6)
    np.testing.assert_array_equal(
        trajectory.terminated, [[s // 10 % 3 == 0, (s // 10 + 1) % 3 == 0] for s in starts]
    )
    np.testing.assert_array_equal(trajectory.policy[:, 0], starts)


def test_a_share_of_the_policies_is_what_acting_proposed() -> None:
    trajectory, values = drawn_story(4000, 1)
    trajectory = trajectory.replace(policy=jnp.full((4000, 2), 0.25))
    reanalyse = Reanalyse(PLANNER, NStep(1), largest_edge, fraction=0.75)
    policy = reanalyse.targets(jax.random.split(KEY, 4000), context(trajectory, values)).policy
    assert np.mean(np.asarray(policy[:, 0]) == 0.25) == pytest.approx(0.25, abs=0.03)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: NStepUbe(-1, root_variance), "follows -1 moves of the story: give 0 or more"),
        (lambda: NStep(0), "takes 0 moves of the story: give at least 1"),
        (
            lambda: Reanalyse(PLANNER, NStep(1), NStepUbe(0, ahead_variance), fraction=1.5),
            "fraction is 1.5: give a share",
        ),
        (
            lambda: Reanalyse(PLANNER, NStep(1), NStepUbe(0, ahead_variance), moves=0),
            "moves is 0: give at least 1",
        ),
        (
            lambda: Reanalyse(PLANNER, NStep(1), NStepUbe(0, ahead_variance), exploration_temperature=0.0),
            "exploration_temperature is 0.0: give a number above 0",
        ),
    ],
)
def test_bad_values(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_a_story_must_be_as_long_as_the_rule_asks() -> None:
    trajectory, values = drawn_story(5, 2)
    with pytest.raises(ValueError, match="3 moves are asked of stories of 2: raise Reanalyse's moves"):
        NStep(3)(context(trajectory, values))
