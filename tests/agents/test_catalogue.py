"""The catalogue: environments, agents, presets and smoke settings by name."""

import dataclasses
from typing import Any

import jax.numpy as jnp
import pytest
from examples.own_environment import KeyCorridor

from emcts.agents.bdqn.learner import Bdqn
from emcts.agents.catalogue import ENVIRONMENTS, Registered, installed
from emcts.agents.mcts.learner import MctsLearner
from emcts.agents.mcts.planners import Gumbel, Puct, UbeAtRoot
from emcts.agents.settings import Settings
from emcts.agents.task import EnvOptions
from emcts.envs import DeepSea
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


REFERENCE = "no_such_module:Corridor"
OBJECTS = Registered(objects={REFERENCE: KeyCorridor(5)})


@pytest.mark.parametrize("agent", CATALOGUE.agents(REFERENCE))
def test_every_agent_is_composed_for_an_environment_of_no_preset(agent: str) -> None:
    assert CATALOGUE.presets(REFERENCE, agent) == ("default",)
    settings = override(OBJECTS.settings(REFERENCE, agent), {"env.time_limit": 15})
    resolved = OBJECTS.resolve(REFERENCE, agent, settings)
    assert isinstance(OBJECTS.compose(REFERENCE, agent, resolved), Learner)
    assert OBJECTS.resolve(REFERENCE, agent, resolved) == resolved
    assert resolved.env == EnvOptions({}, 15, deterministic=True)
    assert resolved.evaluation.max_steps == 15
    if isinstance(resolved, Settings):
        assert resolved.novelty.kind == ("ensemble" if agent in LEARNED_AGENTS else "hash-counts")
    smoke = override(settings, OBJECTS.smoke_changes(REFERENCE, agent))
    assert OBJECTS.trainer(REFERENCE, agent, smoke, (0,)).total_env_steps == 128


def test_what_is_left_open_follows_the_environment() -> None:
    finite = Registered(objects={REFERENCE: DeepSea(3, stochastic=True)})
    settings = finite.settings(REFERENCE, "e-az")
    assert settings.novelty.kind is None
    resolved = finite.resolve(REFERENCE, "e-az", settings)
    assert (resolved.novelty.kind, resolved.evaluation.max_steps) == ("counts", 3)
    assert not resolved.env.deterministic
    asked = override(settings, {"novelty.kind": "rnd", "evaluation.max_steps": 2, "env.deterministic": True})
    resolved = finite.resolve(REFERENCE, "e-az", asked)
    assert (resolved.novelty.kind, resolved.evaluation.max_steps) == ("rnd", 2)
    assert resolved.env.deterministic


def test_what_an_environment_says_of_its_chance_is_believed() -> None:
    @dataclasses.dataclass(frozen=True)
    class RarelyRandom(KeyCorridor):
        deterministic: bool = False

    class Silent(KeyCorridor):
        deterministic: Any = None

    for env, expected in ((RarelyRandom(), False), (Silent(), True), (KeyCorridor(), True)):
        catalogue = Registered(objects={REFERENCE: env})
        settings = override(catalogue.settings(REFERENCE, "bdqn"), {"env.time_limit": 9})
        assert catalogue.resolve(REFERENCE, "bdqn", settings).env.deterministic is expected


def test_code_that_a_folder_names_is_not_run() -> None:
    settings = CATALOGUE.settings(REFERENCE, "az")
    for call in (CATALOGUE.resolve, CATALOGUE.compose):
        with pytest.raises(ValueError, match=f"if you trust it, add --env-from {REFERENCE}"):
            call(REFERENCE, "az", settings)
    with pytest.raises(ValueError, match="there is no module no_such_module"):
        installed((REFERENCE,)).resolve(REFERENCE, "az", settings)


def test_a_broken_rule_is_found_before_a_run() -> None:
    class Undecided(KeyCorridor):
        def legal(self, state: Any) -> Any:
            return jnp.zeros(3, bool)

    broken = Registered(objects={REFERENCE: Undecided(5)})
    with pytest.raises(ValueError, match="breaks the rule 'legal': a state has no legal action at all"):
        broken.resolve(REFERENCE, "az", broken.settings(REFERENCE, "az"))


def test_a_simulator_on_the_host_is_not_searched() -> None:
    pytest.importorskip("gymnasium")
    for agent in SIMULATOR_AGENTS:
        settings = CATALOGUE.settings("gymnasium:CartPole-v1", agent)
        with pytest.raises(ValueError, match="take --agent e-mz, mz-ube, mz, bdqn"):
            CATALOGUE.resolve("gymnasium:CartPole-v1", agent, settings)
    settings = override(CATALOGUE.settings("gymnasium:CartPole-v1", "mz"), {"env.time_limit": 30})
    resolved = CATALOGUE.resolve("gymnasium:CartPole-v1", "mz", settings)
    assert resolved.evaluation.max_steps == 30
    assert not resolved.env.deterministic


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
