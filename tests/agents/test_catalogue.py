"""The catalogue: environments, agents, presets and smoke settings by name."""

import dataclasses

import pytest

from emcts.agents.bdqn.learner import Bdqn
from emcts.agents.catalogue import ENVIRONMENTS, installed
from emcts.agents.mcts.learner import MctsLearner
from emcts.agents.mcts.planners import Gumbel, Puct, UbeAtRoot
from emcts.models.learned.model import LearnedModel
from emcts.models.simulator import SimulatorModel
from emcts.runs.config import override
from emcts.training.catalogue import Catalogue
from emcts.training.learner import Learner
from tests.agents.tiny import CATALOGUE, LEARNED_AGENTS, SIMULATOR_AGENTS

SOME = ("deep-sea", "subleq", "minatar-breakout")  # the games of MinAtar share their presets
AGENTS = [(environment, agent) for environment in SOME for agent in CATALOGUE.agents(environment)]


def test_every_environment_has_every_agent() -> None:
    assert isinstance(installed(), Catalogue)
    assert set(SOME) < set(installed().environments)
    for environment in installed().environments:
        assert set(installed().agents(environment)) == {*SIMULATOR_AGENTS, *LEARNED_AGENTS, "bdqn"}


@pytest.mark.parametrize(("environment", "agent"), AGENTS)
def test_every_preset_can_be_composed(environment: str, agent: str) -> None:
    presets = CATALOGUE.presets(environment, agent)
    assert CATALOGUE.settings(environment, agent) == CATALOGUE.settings(environment, agent, presets[0])
    for preset in presets:
        settings = CATALOGUE.settings(environment, agent, preset)
        learner = CATALOGUE.compose(environment, agent, settings)
        assert isinstance(learner, Learner)
        if agent == "bdqn":
            assert isinstance(learner, Bdqn)
            continue
        assert isinstance(learner, MctsLearner)
        model = LearnedModel if agent in LEARNED_AGENTS else SimulatorModel
        assert isinstance(learner.world_model, model)
        assert isinstance(learner.planner, UbeAtRoot if agent.endswith("-ube") else Puct | Gumbel)
        explores = agent not in ("az", "mz")
        assert any(learner.exploration.exploring) == explores
        assert (max(learner.exploration.betas) > 0) == explores


@pytest.mark.parametrize(("environment", "agent"), AGENTS)
def test_smoke_settings_belong_to_the_agent(environment: str, agent: str) -> None:
    settings = CATALOGUE.settings(environment, agent)
    changes = CATALOGUE.smoke_changes(environment, agent)
    trainer = CATALOGUE.trainer(environment, agent, override(settings, changes), (0, 3))
    assert trainer.seeds == (0, 3)
    assert trainer.total_env_steps == changes["steps"]
    assert trainer.name == f"{environment}/{agent}"


def test_an_evaluation_comes_after_the_given_number_of_steps() -> None:
    settings = CATALOGUE.settings("deep-sea", "e-az")
    for every, iterations in ((200, 20), (205, 20), (5, 1)):
        changed = override(settings, {"evaluation.every": every})
        assert CATALOGUE.trainer("deep-sea", "e-az", changed, (0,)).iterations_per_chunk == iterations


def test_unknown_names_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="unknown environment 'deep-see': did you mean 'deep-sea'"):
        CATALOGUE.agents("deep-see")
    with pytest.raises(ValueError, match="unknown agent 'e-ax': did you mean 'e-az'"):
        CATALOGUE.presets("deep-sea", "e-ax")
    with pytest.raises(ValueError, match="unknown preset 'papr-subleq': did you mean 'paper-subleq'"):
        CATALOGUE.settings("subleq", "az", "papr-subleq")
    entry = ENVIRONMENTS["subleq"]
    only_bdqn = dataclasses.replace(entry, presets={"bdqn": entry.presets["bdqn"]})
    monkeypatch.setitem(ENVIRONMENTS, "subleq", only_bdqn)
    with pytest.raises(ValueError, match="there is no agent 'az' for subleq: choose one of bdqn"):
        CATALOGUE.settings("subleq", "az")
