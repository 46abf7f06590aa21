"""Lookahead of several steps: the uncertainty Bellman equation applied by hand, in tables and by branching."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import emcts
from emcts.agents.mcts.lookahead import further_steps, lookahead
from emcts.agents.mcts.planners import Gumbel
from emcts.agents.mcts.targets import LOOKAHEAD, NStepUbe, PathUbe, Reanalyse, searched_value
from emcts.models.evaluators import all_states
from emcts.runs.config import override
from tests.agents.chain import (
    KEY,
    LENGTH,
    Chain,
    network_agent,
    random_tables,
    state_from_tables,
    tabular_agent,
)
from tests.agents.mcts.test_simulator_steps import calls, counting
from tests.agents.mcts.test_targets import PLANNER, ByHand
from tests.agents.tiny import CATALOGUE

DEPTHS = (1, 2, 3, LENGTH + 2)


def by_hand(known_rewards: bool, depth: int) -> np.ndarray:
    """Writes what the equation gives into the table of variances, `depth` times."""
    hand = ByHand(random_tables(pairs=not known_rewards), known_rewards)
    for _ in range(depth):
        hand.tables.ube[:] = [hand.variances(position).max() for position in range(LENGTH)]
    return hand.tables.ube


def model_of(known_rewards: bool) -> Any:
    reanalyse = Reanalyse(PLANNER, searched_value, NStepUbe(0, LOOKAHEAD), exploring=PLANNER)
    agent = network_agent(reanalyse) if known_rewards else tabular_agent(reanalyse)
    state = state_from_tables(agent, random_tables(pairs=not known_rewards))
    return agent.world_model.planning_models(Chain(), state.target)(state.novelty)


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("known_rewards", [False, True], ids=["tabular", "network"])
@pytest.mark.parametrize("in_tables", [True, False])
def test_the_equation_is_applied_as_often_as_asked(depth: int, known_rewards: bool, in_tables: bool) -> None:
    states = all_states(Chain())
    model = model_of(known_rewards)

    @jax.jit
    def found() -> Any:
        return lookahead(model, KEY, Chain(), states if in_tables else None, depth)(KEY, states).max(axis=-1)

    np.testing.assert_allclose(found(), by_hand(known_rewards, depth), rtol=1e-4)


def test_what_lies_deep_arrives_at_once() -> None:
    """All transitions are known but the last one, and the head knows nothing: a depth of the whole chain does."""
    visits = np.full(2 * LENGTH, 10**6)
    visits[-1] = 0
    tables = random_tables(pairs=True)
    tables.visits[:], tables.ube[:] = visits, 0
    agent = tabular_agent(
        Reanalyse(PLANNER, searched_value, NStepUbe(0, LOOKAHEAD), exploring=PLANNER, lookahead_depth=LENGTH)
    )
    state = state_from_tables(agent, tables)
    model = agent.world_model.planning_models(Chain(), state.target)(state.novelty)
    states = all_states(Chain())
    variances = [lookahead(model, KEY, Chain(), states, n)(KEY, states).max(axis=-1) for n in (1, LENGTH)]
    assert variances[0][0] < 1e-3
    assert variances[1][0] == pytest.approx(2.0 * 0.9 ** (2 * (LENGTH - 1)), rel=1e-3)


@pytest.mark.parametrize("known_rewards", [False, True], ids=["tabular", "network"])
def test_simulator_steps_are_counted(known_rewards: bool) -> None:
    """A sweep steps every state by every action; elsewhere each further step branches again."""
    reanalyse = Reanalyse(
        Gumbel(2),
        searched_value,
        NStepUbe(0, LOOKAHEAD),
        exploring=PLANNER,
        uses_novelty=False,
        lookahead_depth=3,
    )
    agent = counting(network_agent(reanalyse) if known_rewards else tabular_agent(reanalyse))
    model = model_of(known_rewards)
    env: Any = agent.env_factory.example
    states = all_states(env)
    counted = type(model)(
        env, *[getattr(model, name) for name in model.__dataclass_fields__ if name != "env"]
    )

    def run() -> Any:
        return lookahead(counted, KEY, env, None if known_rewards else states, 3)(KEY, states).max(axis=-1)

    _, steps = calls(run)
    assert steps == LENGTH * (2 + further_steps(2, 3, tabular=not known_rewards))


@pytest.mark.parametrize(
    ("agent", "changes", "message"),
    [
        ("e-az", {"targets.ube": "edge"}, "is that of lookahead, got targets.ube edge"),
        ("e-mz", {}, "a learned model is searched"),
    ],
)
def test_a_depth_that_would_do_nothing_is_refused(agent: str, changes: Any, message: str) -> None:
    settings = override(CATALOGUE.settings("deep-sea", agent), {**changes, "targets.ube_depth": 2})
    with pytest.raises(ValueError, match=message):
        CATALOGUE.compose("deep-sea", agent, settings)


def test_the_setting_reaches_the_targets() -> None:
    settings = override(CATALOGUE.settings("deep-sea", "e-az"), {"targets.ube_depth": 7})
    learner: Any = CATALOGUE.compose("deep-sea", "e-az", settings)
    assert learner.reanalyse.lookahead_depth == 7
    assert jnp.isfinite(jnp.float32(learner.simulator_rates.reanalyse))


@pytest.mark.parametrize(
    ("agent", "exponent", "depth"), [("e-az", 16, 6), ("az-ube", 1, 6), ("az", 1, 1), ("e-mz", 16, 1)]
)
def test_what_is_left_open_suits_the_agent(agent: str, exponent: float, depth: int) -> None:
    changes = {"env.size": 6, "search.backup_exponent": None, "targets.ube_depth": None}
    settings = override(CATALOGUE.settings("deep-sea", agent), changes)
    filled: Any = CATALOGUE.resolve("deep-sea", agent, settings)
    assert (filled.search.backup_exponent, filled.targets.ube_depth) == (exponent, depth)
    learner: Any = CATALOGUE.compose("deep-sea", agent, settings)
    assert learner.reanalyse.lookahead_depth == depth
    same: Any = CATALOGUE.compose("deep-sea", agent, filled)
    assert learner.planner == same.planner
    along = CATALOGUE.resolve("deep-sea", agent, override(settings, {"targets.ube": "path"}))
    assert along.targets.ube_depth == 1, "a path has no depth"


def test_a_path_is_for_deterministic_worlds() -> None:
    changes = {"targets.ube": "path", "targets.ube_steps": 3}
    settings = override(CATALOGUE.settings("deep-sea", "e-az"), changes)
    learner: Any = CATALOGUE.compose("deep-sea", "e-az", settings)
    assert learner.reanalyse.ube == PathUbe(3)
    assert learner.lookahead == 3
    with pytest.raises(ValueError, match="takes the state that was drawn"):
        CATALOGUE.compose("deep-sea", "e-az", override(settings, {"env.stochastic": True}))
    with pytest.raises(ValueError, match="path of 0 steps"):
        CATALOGUE.compose("deep-sea", "e-az", override(settings, {"targets.ube_steps": 0}))


@pytest.mark.parametrize("agent", ["az-ube", "az"])
def test_an_exponent_without_an_uncertain_search_is_refused(agent: str) -> None:
    settings = override(CATALOGUE.settings("deep-sea", agent), {"search.backup_exponent": 2.0})
    with pytest.raises(ValueError, match="backup_exponent 2.0 is that of stds"):
        CATALOGUE.compose("deep-sea", agent, settings)


def test_the_exponent_reaches_the_search_that_acts_alone() -> None:
    settings = override(CATALOGUE.settings("deep-sea", "e-az"), {"search.backup_exponent": 2.0})
    learner: Any = CATALOGUE.compose("deep-sea", "e-az", settings)
    assert learner.planner.backup == emcts.power_mean(2.0)
    assert learner.evaluation_planner.backup is learner.reanalyse.exploring.backup is emcts.mean_backup
