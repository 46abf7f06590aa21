"""Moves of an agent: it acts as it does elsewhere, and each move is searched with the betas that are compared."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import emcts
from emcts.agents.mcts.planners import ExplorationParams
from emcts.agents.trained import TrainedAgent
from emcts.inspect.document import unpack
from emcts.inspect.episode import Episode
from emcts.inspect.session import Session
from tests.agents.tiny import trainer
from tests.inspect.agents import episode, session


def test_exploring_episodes_act_as_the_planner_of_the_agent() -> None:
    one = session()
    planner, learner, state = one.planner, one.learner, one.agent.state
    params = ExplorationParams(jnp.full(1, one.run_beta), jnp.array([True]))

    @jax.jit
    def planned(state: Any, key: Any, states: Any) -> Any:
        model = learner.world_model.planning_models(learner.env(state.env_params), state.networks)
        return planner(key, model(state.novelty), states, params)

    for time, move in enumerate(episode().moves):
        states = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], move.position.state)
        key = jax.random.fold_in(one._keys[2], time)
        plan = planned(state, key, states)
        assert move.action == int(plan.action[0])
        assert move.searched.tree.node_values[move.acting, 0] == pytest.approx(float(plan.value[0]), rel=1e-5)


def test_exploiting_episodes_act_as_the_agent_does() -> None:
    one = session(explore=False)
    position = one.begin()
    move = one.move(position, 0)
    assert move.betas[move.acting] == 0
    assert move.action == int(one.agent.act(position.state, jax.random.key(0)))


def test_searches_differ_by_beta_alone() -> None:
    one = session()
    position = one.begin()
    together = one.move(position, 0)
    assert together.betas == (0.0, one.run_beta, -1.0)
    for row, beta in enumerate(together.betas):
        alone = one.move(position, 0, (beta,))
        np.testing.assert_array_equal(
            alone.searched.tree.node_visits[0], together.searched.tree.node_visits[row]
        )
    visits = together.searched.tree.node_visits
    assert (visits[0] != visits[1]).any()


def test_edges_are_named_as_the_state_has_them() -> None:
    """In Deep Sea the same action means left in one cell and right in another."""
    one, move = session(), episode().moves[0]
    record: Any = one.describe(move)["searches"][0]  # type: ignore[index]
    nodes, tree, env = record["nodes"], move.searched.tree, one.agent.env
    rights = np.asarray(env.right_actions)  # type: ignore[attr-defined]
    for place, index in enumerate(nodes["index"][1:], start=1):
        parent = nodes["parent"][place]
        row, column = (int(tree.embeddings.row[0, parent]), int(tree.embeddings.column[0, parent]))
        means_right = nodes["action"][place] == rights[row, column]
        assert nodes["labels"][nodes["label"][place]] == ("right" if means_right else "left"), index


def test_the_page_of_an_episode_has_its_moves_maps_and_reasons() -> None:
    played = episode()
    data = unpack(played.page("e-az on deep-sea"))
    (shown,) = data["episodes"]
    assert len(shown["moves"]) == len(played.moves) + 1 == 6
    assert shown["moves"][-1]["over"] == "terminated"
    assert set(data["maps"]) == {"visits", "UBE std", "search std", "value"}
    assert np.array(data["maps"]["visits"]).shape == (5, 5)
    cells = [move["picture"]["cell"] for move in shown["moves"]]
    assert [cell and cell[0] for cell in cells] == [0, 1, 2, 3, 4, None]
    for move, described in zip(played.moves, shown["moves"], strict=False):
        taken = described["labels"][move.action]
        assert described["sentence"].startswith(f"Takes {taken}")
        assert "beta" in described["choices"]
        assert [one["beta"] for one in described["searches"]] == list(move.betas)


def test_a_page_is_one_call_for_a_loaded_agent() -> None:
    explorer = session()
    written = emcts.inspect.episode_page(explorer.agent, explore=True, max_moves=2, title="Two moves")
    data, (played,) = unpack(written), unpack(written)["episodes"]
    assert data["title"] == "Two moves"
    assert data["subtitle"] == "seed 0, step 0"
    assert [move["action"] for move in played["moves"][:2]] == [move.action for move in episode().moves[:2]]
    assert "<iframe" in written._repr_html_()


def test_an_agent_without_uncertainty_is_searched_once() -> None:
    one = session(name="az", explore=False)
    played = Episode.play(one, max_moves=1)
    data: Any = played.data("az")
    assert [len(move.get("searches", ())) for move in data["episodes"][0]["moves"]] == [1, 0]
    assert any("estimates no uncertainty" in note for note in data["notes"])
    assert any("goes on" in note for note in data["notes"])


@pytest.mark.parametrize("name", ["az-ube", "e-mz"])
def test_other_agents(name: str) -> None:
    one = session(name=name)
    move = one.move(one.begin(), 0)
    described: Any = one.describe(move)
    assert described["sentence"].startswith(f"Takes {described['labels'][move.action]}")
    assert ("one-step scores" in described["sentence"]) == (name == "az-ube")
    labels = {label for search in described["searches"] for label in search["nodes"]["labels"]}
    assert {"left", "right"} <= labels
    assert ("0" in labels) == (name == "e-mz")  # in a learned model, only the root's state is known


def test_what_does_not_search_is_refused() -> None:
    with pytest.raises(ValueError, match="bdqn does not search"):
        Session(TrainedAgent(trainer("deep-sea", "bdqn").learner, None, 0, 0))
    with pytest.raises(ValueError, match="max_moves is 0"):
        Episode.play(session(), 0)
