"""What can be trained, by the names of the command line: which agents an environment has, and their presets."""

import dataclasses
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from emcts.agents import deep_sea, deep_sea_mz, minatar, minatar_mz, subleq
from emcts.agents.bdqn.learner import settings as bdqn
from emcts.agents.mcts.learner import MctsLearner
from emcts.envs.minatar import GAMES
from emcts.registry import lookup
from emcts.training.catalogue import Catalogue
from emcts.training.learner import Learner
from emcts.training.seeds import SeedTrainer

AGENTS: Mapping[str, str] = {
    "e-az": "Epistemic AlphaZero: its search carries uncertainty, and explores by it",
    "az-ube": "AlphaZero that explores by the uncertainty of one step ahead",
    "az": "AlphaZero, which knows of no uncertainty",
    "e-mz": "Epistemic MuZero: the same with a learned model",
    "mz-ube": "MuZero that explores by the uncertainty of one step ahead",
    "mz": "MuZero, which knows of no uncertainty",
    "bdqn": "Bootstrapped DQN with randomised priors, which explores without planning",
}
MINATAR = tuple(f"minatar-{game.replace('_', '-')}" for game in GAMES)
ENVIRONMENTS: Mapping[str, str] = {
    "deep-sea": "one path of many finds the treasure, and every other looks better at first",
    "subleq": "write a program in a language of one instruction",
    **{name: f"the game {name.removeprefix('minatar-')} (needs pgx)" for name in MINATAR},
}

Settings = Any  # a dataclass, of each environment and kind of agent its own
Presets = Mapping[str, Settings]  # the first is the default


@dataclasses.dataclass(frozen=True)
class Offer:
    """An agent in an environment: the presets of its settings, and how it is made of them."""

    presets: Presets
    learner: Callable[[Settings], Learner]


def installed() -> Catalogue:
    """Returns the catalogue of this package. Other processes find it by the name of this function."""
    return _Installed()


class _Installed:
    """The functions of this module, as an object."""

    environments = ENVIRONMENTS

    def agents(self, environment: str) -> Mapping[str, str]:
        return agents(environment)

    def presets(self, environment: str, agent: str) -> tuple[str, ...]:
        return presets(environment, agent)

    def settings(self, environment: str, agent: str, preset: str | None = None) -> Settings:
        return settings(environment, agent, preset)

    def smoke_changes(self, environment: str, agent: str) -> Mapping[str, Any]:
        names = {setting.name for setting in dataclasses.fields(settings(environment, agent))}
        small = _SMOKE["minatar" if environment.startswith("minatar") else environment]
        return {name: value for name, value in small.items() if name in names}

    def trainer(
        self, environment: str, agent: str, settings: Settings, seeds: tuple[int, ...]
    ) -> SeedTrainer:
        return trainer(environment, agent, settings, seeds)


def agents(environment: str) -> Mapping[str, str]:
    """Those that can be trained there, with a description."""
    offers = lookup(_OFFERS, environment, "environment")
    return {name: what for name, what in AGENTS.items() if name in offers}


def presets(environment: str, agent: str) -> tuple[str, ...]:
    """The first is the one to begin with; `paper-...` has the settings of the paper."""
    return tuple(_offer(environment, agent).presets)


def settings(environment: str, agent: str, preset: str | None = None) -> Settings:
    """The values of a preset for an agent."""
    table = _offer(environment, agent).presets
    return lookup(table, next(iter(table)) if preset is None else preset, "preset")


def trainer(environment: str, agent: str, settings: Settings, seeds: tuple[int, ...]) -> SeedTrainer:
    """Trains the agent with these settings."""
    learner = compose(environment, agent, settings)
    chunk = max(1, settings.steps_between_evaluations // learner.steps_per_iteration)
    name = f"{environment}/{agent}"
    return SeedTrainer(learner, seeds, settings.total_env_steps, chunk, name=name)


def compose(environment: str, agent: str, settings: Settings) -> Learner:
    """The agent itself."""
    return _offer(environment, agent).learner(settings)


def _offer(environment: str, agent: str) -> Offer:
    offers = lookup(_OFFERS, environment, "environment")
    lookup(AGENTS, agent, "agent")
    if agent not in offers:
        raise ValueError(
            f"there is no agent {agent!r} for {environment}: choose one of {', '.join(agents(environment))}"
        )
    return offers[agent]


def _planning(module: ModuleType, presets: Presets, *names: str) -> dict[str, Offer]:
    """Agents that search, by their names in a module: `e-az` is its function `e_az`."""

    def learner(name: str) -> Callable[[Settings], Learner]:
        compose = getattr(module, name.replace("-", "_"))
        return lambda settings: MctsLearner(compose(settings))

    return {name: Offer(presets, learner(name)) for name in names}


def _on_minatar(environment: str) -> dict[str, Offer]:
    game = environment.removeprefix("minatar-").replace("-", "_")
    given = {
        "default": dataclasses.replace(minatar.BEST, game=game),
        "paper-minatar": dataclasses.replace(minatar.PAPER, game=game),
    }
    learned = {
        "default": dataclasses.replace(minatar_mz.BEST, game=game),
        "paper-minatar": dataclasses.replace(minatar_mz.PAPER, game=game),
    }
    return {
        **_planning(minatar, given, *AZ_FAMILY),
        **_planning(minatar_mz, learned, *MZ_FAMILY),
        "bdqn": Offer({"default": bdqn.MinAtarBdqnSettings(game=game)}, bdqn.in_minatar),
    }


AZ_FAMILY = ("e-az", "az-ube", "az")
MZ_FAMILY = ("e-mz", "mz-ube", "mz")
_LEARNED_SEA = {
    "default": deep_sea_mz.BEST,
    "anchored": deep_sea_mz.ANCHORED,
    "paper-deep-sea-abstracted": deep_sea_mz.PAPER_ABSTRACTED,
    "paper-deep-sea-anchored": deep_sea_mz.PAPER_ANCHORED,
}
_OFFERS: Mapping[str, Mapping[str, Offer]] = {
    "deep-sea": {
        **_planning(deep_sea, {"default": deep_sea.BEST, "paper-deep-sea": deep_sea.PAPER}, *AZ_FAMILY),
        **_planning(deep_sea_mz, _LEARNED_SEA, *MZ_FAMILY),
        "bdqn": Offer(
            {"default": bdqn.DeepSeaBdqnSettings(), "paper-deep-sea": bdqn.PAPER}, bdqn.in_deep_sea
        ),
    },
    "subleq": {
        **_planning(subleq, {"default": subleq.BEST, "paper-subleq": subleq.PAPER}, *AZ_FAMILY),
        "bdqn": Offer({"default": bdqn.SubleqBdqnSettings()}, bdqn.in_subleq),
    },
    **{name: _on_minatar(name) for name in MINATAR},
}
_SMOKE_GUMBEL: Mapping[str, Any] = {
    "total_env_steps": 128,
    "steps_between_evaluations": 64,
    "episodes": 4,
    "simulations": 4,
    "width": 8,
    "batch_size": 16,
    "moves_per_iteration": 4,
    "updates_per_iteration": 1,
    "hash_bits": 10,
    "replay_capacity": 200,
    "warm_up": 32,
    "evaluation_episodes": 1,
}
_SMOKE: Mapping[str, Mapping[str, Any]] = {
    "deep-sea": {
        "size": 4,
        "total_env_steps": 120,
        "steps_between_evaluations": 60,
        "simulations": 3,
        "width": 8,
        "hidden": (8,),
        "latent": 8,
        "representation": (8,),
        "dynamics": (8,),
        "heads": (8,),
        "ube_head": (8,),
        "batch_size": 16,
        "updates_per_iteration": 1,
        "replay_capacity": 500,
        "warm_up": 50,
        "fresh_moves": 0,
        "evaluation_episodes": 1,
    },
    "subleq": {**_SMOKE_GUMBEL, "max_words": 3},
    "minatar": {**_SMOKE_GUMBEL, "channels": 2, "evaluation_steps": 5},
}
