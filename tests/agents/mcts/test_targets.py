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
    EDGE,
    LOOKAHEAD,
    ROOT,
    NStep,
    NStepUbe,
    PathUbe,
    Reanalyse,
    SearchedEdgeUbe,
    SearchEstimate,
    TargetContext,
    Targets,
    Trajectory,
    UbeRule,
    ValueRule,
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
    network_agent,
    random_tables,
    state_from_tables,
    tabular_agent,
)

PLANNER = Gumbel(2, gumbel_scale=0.0)  # two simulations: each action once
EXPLORATION_BETA, TEMPERATURE = 2.0, 0.5
RULES: dict[str, UbeRule] = {
    "lookahead 0": NStepUbe(0, LOOKAHEAD),
    "lookahead 1": NStepUbe(1, LOOKAHEAD),
    "root 0": NStepUbe(0, ROOT),
    "root 1": NStepUbe(1, ROOT),
    "edge 0": NStepUbe(0, EDGE),
    "edge 1": NStepUbe(1, EDGE),
    "searched edge": SearchedEdgeUbe(),
    "path 1": PathUbe(1),
}
POSITIONS = np.repeat(np.arange(LENGTH), 2)
ACTIONS = np.tile([STOP, ON], LENGTH)


class ByHand:
    """All quantities of the chain, position by position."""

    def __init__(self, tables: Tables, known_rewards: bool):
        self.tables, self.known_rewards = tables, known_rewards

    def after(self, position: int, action: int) -> int:
        return position + 1 if action == ON else LENGTH

    def reward(self, position: int, action: int) -> float:
        if self.known_rewards:
            return 1.0 if self.after(position, action) == LENGTH and action == ON else 0.0
        return self.tables.reward[position, action]

    def eta(self, position: int, action: int) -> float:
        if self.known_rewards:
            return 1 / (self.tables.visits[self.after(position, action)] + 2.0)
        return 1 / (self.tables.visits[2 * position + action] + 0.5)

    def local(self, position: int, action: int) -> float:
        return 0.0 if self.known_rewards else self.eta(position, action)

    def value(self, position: int) -> float:
        return 0.0 if position == LENGTH else self.tables.value[position]

    def leaf_variance(self, position: int, action: int) -> float:
        after = self.after(position, action)
        if after == LENGTH:
            return 0.0
        if self.known_rewards:
            return min(max(self.tables.ube[after], self.eta(position, action)), 0.6)
        steps_left = sum(GAMMA ** (2 * i) for i in range(LENGTH - after))
        return max(self.tables.ube[after], steps_left * self.eta(position, action))

    def q(self, position: int) -> np.ndarray:
        return np.array(
            [self.reward(position, a) + GAMMA * self.value(self.after(position, a)) for a in (STOP, ON)]
        )

    def variances(self, position: int) -> np.ndarray:
        return np.array(
            [self.local(position, a) + GAMMA**2 * self.leaf_variance(position, a) for a in (STOP, ON)]
        )

    def improved(self, position: int) -> np.ndarray:
        """Gumbel MuZero's policy, when each action was tried once."""
        q = self.q(position)
        logits = self.tables.policy[position] + 0.1 * (50 + 1) * (q - q.min()) / (q.max() - q.min())
        return np.exp(logits) / np.exp(logits).sum()

    def searched(self, position: int) -> float:
        return self.q(position)[np.argmax(self.improved(position))]

    def root_variance(self, position: int) -> float:
        """A mean of stds, including the root's own."""
        own = min(self.tables.ube[position], 0.6) if self.known_rewards else self.tables.ube[position]
        return float(np.mean(np.sqrt([own, *self.variances(position)])) ** 2)

    def exploration(self, position: int) -> np.ndarray:
        scores = (self.q(position) + EXPLORATION_BETA * np.sqrt(self.variances(position))) / TEMPERATURE
        return np.exp(scores) / np.exp(scores).sum()

    def ube(self, rule: str, position: int, action: int) -> float:
        if rule == "searched edge":
            return self.variances(position).max()
        name, steps = rule.split()
        if name == "path":
            variances, after = self.variances(position), self.after(position, action)
            behind = 0.0 if after == LENGTH else self.variances(after).max()
            variances[action] = self.local(position, action) + GAMMA**2 * behind
            return variances.max()
        bootstrap = {
            "lookahead": lambda at: self.variances(at).max(),
            "edge": lambda at: self.variances(at).max(),  # the same for a search of one visit each
            "root": self.root_variance,
        }[name]
        if steps == "0":
            return bootstrap(position)
        after = self.after(position, action)
        return self.local(position, action) + (0.0 if after == LENGTH else GAMMA**2 * bootstrap(after))


def trajectory_of_every_pair() -> Trajectory:
    """One step from each position by each action; rewards are not those of the networks."""
    after = np.where(
        (ACTIONS == ON) & (POSITIONS + 1 < LENGTH), POSITIONS + 1, 0
    )  # a new episode begins at 0
    terminated = (ACTIONS == STOP) | (POSITIONS + 1 == LENGTH)
    return Trajectory(
        states=ChainState(jnp.asarray(np.stack([POSITIONS, after], axis=1), jnp.int32)),
        actions=jnp.asarray(ACTIONS[:, None], jnp.int32),
        rewards=jnp.asarray(0.2 * np.arange(2 * LENGTH)[:, None], jnp.float32),
        terminated=jnp.asarray(terminated[:, None]),
        truncated=jnp.zeros((2 * LENGTH, 1), bool),
        policy=jnp.full((2 * LENGTH, 2), 0.5),
    )


VALUE_RULES: dict[str, ValueRule] = {"searched or td": searched_or_td, "td": NStep(1)}


@dataclasses.dataclass(frozen=True)
class EveryRule(SearchedEdgeUbe):
    """A UBE rule that also records the targets of all other rules: one program makes them all."""

    found: dict[str, Any] = dataclasses.field(default_factory=dict)

    def __call__(self, context: TargetContext) -> Any:
        rules: dict[str, Any] = {**RULES, **VALUE_RULES}
        self.found.update({name: rule(context) for name, rule in rules.items()})
        return super().__call__(context)


@functools.cache
def all_targets(known_rewards: bool) -> tuple[ByHand, Targets, dict[str, Any]]:
    """Targets of every pair, and those of every rule by its name."""
    rule = EveryRule()
    reanalyse = Reanalyse(
        PLANNER,
        searched_value,
        rule,
        exploring=PLANNER,
        exploration_beta=EXPLORATION_BETA,
        exploration_temperature=TEMPERATURE,
    )
    agent = network_agent(reanalyse) if known_rewards else tabular_agent(reanalyse)
    tables = random_tables(pairs=not known_rewards)
    state = state_from_tables(agent, tables)

    @jax.jit
    def run() -> tuple[Targets, dict[str, Any]]:
        return make_targets(agent, Chain(), state, trajectory_of_every_pair(), KEY), rule.found

    return ByHand(tables, known_rewards), *run()


@pytest.fixture(params=[False, True], ids=["tabular", "network"])
def both(request: pytest.FixtureRequest) -> tuple[ByHand, Targets, dict[str, Any]]:
    return all_targets(request.param)


def test_values_and_policies(both: Any) -> None:
    hand, found, _ = both
    np.testing.assert_allclose(found.value, [hand.searched(position) for position in POSITIONS], atol=1e-5)
    np.testing.assert_allclose(found.policy, [hand.improved(position) for position in POSITIONS], atol=1e-4)
    np.testing.assert_allclose(
        found.exploration, [hand.exploration(position) for position in POSITIONS], atol=1e-4
    )
    np.testing.assert_allclose(found.reward, 0.2 * np.arange(2 * LENGTH), rtol=1e-6)


def test_the_one_step_target_is_taken_where_it_is_larger(both: Any) -> None:
    hand, _, found = both
    rewards = 0.2 * np.arange(2 * LENGTH)
    td = [
        reward + GAMMA * hand.value(hand.after(position, action))
        for reward, position, action in zip(rewards, POSITIONS, ACTIONS, strict=True)
    ]
    np.testing.assert_allclose(found["td"], td, atol=1e-5)
    searched = [hand.searched(position) for position in POSITIONS]
    np.testing.assert_allclose(found["searched or td"], np.maximum(searched, td), atol=1e-5)
    assert 0 < np.sum(np.array(td) > searched) < 2 * LENGTH, "either is larger somewhere"


@pytest.mark.parametrize("rule", RULES)
def test_ube_targets(both: Any, rule: str) -> None:
    hand, targets, found = both
    wanted = [hand.ube(rule, position, action) for position, action in zip(POSITIONS, ACTIONS, strict=True)]
    np.testing.assert_allclose(found[rule], wanted, rtol=1e-4)
    if rule == "searched edge":
        np.testing.assert_array_equal(targets.ube, found[rule])


def test_the_fixed_point_of_the_targets_is_the_true_variance() -> None:
    """Iterates the uncertainty Bellman equation, where all transitions are known but the last one."""
    agent = tabular_agent(Reanalyse(PLANNER, searched_value, NStepUbe(0, LOOKAHEAD), exploring=PLANNER))
    visits = np.full(2 * LENGTH, 10**6)
    visits[2 * (LENGTH - 1) + ON] = 0
    tables = dataclasses.replace(random_tables(pairs=True), visits=visits, ube=np.zeros(LENGTH))
    targets = jax.jit(lambda state: make_targets(agent, Chain(), state, trajectory_of_every_pair(), KEY).ube)
    for _ in range(LENGTH):
        tables = dataclasses.replace(tables, ube=np.asarray(targets(state_from_tables(agent, tables)))[::2])
    np.testing.assert_allclose(tables.ube, [2.0 * GAMMA ** (2 * (3 - s)) for s in range(LENGTH)], rtol=1e-3)


def test_a_search_that_explores_finds_more_uncertainty() -> None:
    """Values and policies are those of the other search."""
    greedy = Reanalyse(PLANNER, searched_value, NStepUbe(0, ROOT), exploring=Puct(16, temperature=0.0))
    exploring = dataclasses.replace(greedy, exploration_beta=30.0)
    state = state_from_tables(tabular_agent(greedy), random_tables(pairs=True))
    without, found = (
        jax.jit(
            lambda reanalyse=reanalyse: make_targets(
                tabular_agent(reanalyse), Chain(), state, trajectory_of_every_pair(), KEY
            )
        )()
        for reanalyse in (greedy, exploring)
    )
    np.testing.assert_array_equal(without.value, found.value)
    np.testing.assert_array_equal(without.policy, found.policy)
    assert np.sum(found.ube) > 1.1 * np.sum(without.ube)


def n_step_by_hand(
    n: int, rewards: Any, terminated: Any, truncated: Any, values: Any, gamma: float = GAMMA
) -> float:
    total = 0.0
    for step in range(n):
        if truncated[step] and not terminated[step]:
            return total + gamma**step * values[step]
        total += gamma**step * rewards[step]
        if terminated[step]:
            return total
    return total + gamma**n * values[n]


def context(trajectory: Trajectory, values: np.ndarray) -> TargetContext:
    """The context of a trajectory whose states are numbers, with the given values; all else is zero."""
    number = trajectory.actions.shape[0]
    nothing = jnp.zeros(number)
    searched = SearchEstimate(nothing, jnp.zeros((number, 2)), jnp.zeros((number, 2)), nothing, nothing)
    table = jnp.asarray(values.reshape(-1), jnp.float32)
    return TargetContext(
        trajectory=trajectory,
        discount=GAMMA,
        searched=searched,
        explored=lambda states: searched.replace(root_variance=table[states]),
        value=lambda states: table[states],
        lookahead_variances=lambda states: jnp.stack([0.5 * table[states], table[states]], axis=-1),
        local_variance=lambda step: 0.5 + step + nothing,
    )


def random_trajectory(number: int, steps: int) -> tuple[Trajectory, np.ndarray]:
    rng = np.random.default_rng(1)
    end = rng.random((number, steps))
    return Trajectory(
        states=jnp.arange(number * (steps + 1)).reshape(number, steps + 1),
        actions=jnp.zeros((number, steps), jnp.int32),
        rewards=jnp.asarray(rng.normal(size=(number, steps)), jnp.float32),
        terminated=jnp.asarray(end < 0.15),
        truncated=jnp.asarray((end > 0.85) | (end < 0.05)),
        policy=jnp.zeros((number, 2)),
    ), rng.normal(size=(number, steps + 1))


def path_by_hand(n: int, terminated: Any, truncated: Any, table: Any) -> float:
    """By action 0, which was taken everywhere, lookahead has half of the table, and by action 1 the whole."""
    variance = max(0.5 * table[n], table[n])
    for step in reversed(range(n)):
        ahead = [0.5 * table[step], table[step]]
        if terminated[step]:
            ahead[0] = 0.5 + step
        elif not truncated[step]:
            ahead[0] = 0.5 + step + GAMMA**2 * variance
        variance = max(ahead)
    return float(variance)


@pytest.mark.parametrize("n", [1, 3, 5])
def test_ube_targets_along_a_path_with_ends_and_cuts_inside(n: int) -> None:
    trajectory, values = random_trajectory(200, 5)
    values = 3 * np.abs(values)
    found = PathUbe(n)(context(trajectory, values))
    wanted = [
        path_by_hand(n, *row) for row in zip(trajectory.terminated, trajectory.truncated, values, strict=True)
    ]
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


@pytest.mark.parametrize("n", [1, 3, 5])
def test_n_steps_with_ends_and_cuts_inside(n: int) -> None:
    trajectory, values = random_trajectory(200, 5)
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
@pytest.mark.parametrize("bootstrap", [LOOKAHEAD, ROOT], ids=["lookahead", "root"])
def test_ube_of_n_steps_with_ends_and_cuts_inside(n: int, bootstrap: Any) -> None:
    """Nothing counts after an end; at a cut the target is bootstrapped, since the state after it is not stored."""
    trajectory, values = random_trajectory(200, 5)
    variances = np.abs(values)
    found = NStepUbe(n, bootstrap)(context(trajectory, variances))
    local = np.broadcast_to(0.5 + np.arange(5), (200, 5))
    wanted = [
        n_step_by_hand(n, *row, gamma=GAMMA**2)
        for row in zip(local, trajectory.terminated, trajectory.truncated, variances, strict=True)
    ]
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_each_state_of_a_sequence_begins_a_trajectory() -> None:
    reanalyse = Reanalyse(PLANNER, NStep(2), NStepUbe(1, LOOKAHEAD), exploring=PLANNER, num_steps=2)
    agent = tabular_agent(reanalyse, sequence=3)
    state = state_from_tables(agent, random_tables(pairs=True))
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
    starts = [301, 311, 321, 340, 350, 360]  # rows 30, 31 and then row 0, which holds step 32
    np.testing.assert_array_equal(trajectory.states.position, [[s, s + 10, s + 20] for s in starts])
    np.testing.assert_array_equal(trajectory.actions, [[s, s + 10] for s in starts])
    np.testing.assert_allclose(trajectory.rewards, [[0.1 * s, 0.1 * s + 1] for s in starts], rtol=1e-6)
    np.testing.assert_array_equal(
        trajectory.terminated, [[s // 10 % 3 == 0, (s // 10 + 1) % 3 == 0] for s in starts]
    )
    np.testing.assert_array_equal(trajectory.policy[:, 0], starts)


def test_a_fraction_of_the_policies_is_searched_anew() -> None:
    trajectory, values = random_trajectory(4000, 1)
    trajectory = trajectory.replace(policy=jnp.full((4000, 2), 0.25))
    reanalyse = Reanalyse(PLANNER, NStep(1), SearchedEdgeUbe(), exploring=PLANNER, fraction=0.75)
    policy = reanalyse.targets(jax.random.split(KEY, 4000), context(trajectory, values)).policy
    assert np.mean(np.asarray(policy[:, 0]) == 0.25) == pytest.approx(0.25, abs=0.03)


def _reanalyse(**changes: Any) -> Reanalyse:
    return Reanalyse(PLANNER, NStep(1), NStepUbe(0, LOOKAHEAD), exploring=PLANNER, **changes)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: NStepUbe(-1, ROOT), "a UBE target of -1 steps: give 0 or more"),
        (lambda: NStep(0), "a value target of 0 steps: give at least 1"),
        (lambda: _reanalyse(fraction=1.5), "fraction is 1.5: give a number from 0 to 1"),
        (lambda: _reanalyse(num_steps=0), "num_steps is 0: give at least 1"),
        (
            lambda: _reanalyse(exploration_temperature=0.0),
            "exploration_temperature is 0.0: give a number above 0",
        ),
    ],
)
def test_bad_values(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_a_trajectory_must_be_as_long_as_the_rule_needs() -> None:
    trajectory, values = random_trajectory(5, 2)
    with pytest.raises(
        ValueError, match="targets of 3 steps from trajectories of 2: raise num_steps of Reanalyse"
    ):
        NStep(3)(context(trajectory, values))
