"""What can be trained: the environments and the agents of this package, by name."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import TypeAlias

from jaxtyping import PyTree

from emcts.agents.bdqn.settings import compose as compose_bdqn
from emcts.agents.builtin_tasks import deep_sea, minatar, subleq
from emcts.agents.mcts.variants import VARIANTS, Variant
from emcts.agents.mcts.variants import compose as compose_variant
from emcts.agents.mcts.world_models import learned
from emcts.agents.presets import deep_sea as deep_sea_presets
from emcts.agents.presets import minatar as minatar_presets
from emcts.agents.presets import subleq as subleq_presets
from emcts.agents.task import Task
from emcts.envs.minatar import GAMES
from emcts.registry import lookup
from emcts.training.catalogue import Catalogue
from emcts.training.learner import Learner
from emcts.training.seeds import SeedTrainer

AnySettings: TypeAlias = PyTree  # `Settings` of agents that plan, or `BdqnSettings`


@dataclasses.dataclass(frozen=True)
class AgentEntry:
    """An agent: how it is made for a task, and which of an environment's presets it has."""

    description: str
    presets: str  # simulator, learned or bdqn
    compose: Callable[[Task, AnySettings], Learner[PyTree]]


@dataclasses.dataclass(frozen=True)
class EnvEntry:
    """An environment: its task, given its options, and the presets of agents."""

    description: str
    task: Callable[[PyTree], Task]
    presets: Mapping[str, Mapping[str, AnySettings]]
    smoke: Mapping[str, object]


def _planning(variant: Variant) -> AgentEntry:
    return AgentEntry(
        variant.description,
        "learned" if variant.model is learned else "simulator",
        lambda task, settings: compose_variant(variant, task, settings),
    )


ENVIRONMENTS: dict[str, EnvEntry] = {
    "deep-sea": EnvEntry(
        "a grid in which one path of many leads to the goal, and every other one looks better at first",
        deep_sea,
        deep_sea_presets.PRESETS,
        deep_sea_presets.SMOKE,
    ),
    "subleq": EnvEntry(
        "write a program in a language of one instruction",
        subleq,
        subleq_presets.PRESETS,
        subleq_presets.SMOKE,
    ),
    **{
        f"minatar-{game.replace('_', '-')}": EnvEntry(
            f"the game {game.replace('_', ' ')} (needs pgx)",
            minatar(game),
            minatar_presets.PRESETS,
            minatar_presets.SMOKE,
        )
        for game in GAMES
    },
}
BDQN = AgentEntry(
    "Bootstrapped DQN with randomised priors, which explores without planning", "bdqn", compose_bdqn
)


@dataclasses.dataclass(frozen=True)
class Registered:
    """The catalogue of the tables `ENVIRONMENTS` and `VARIANTS`."""

    @property
    def environments(self) -> Mapping[str, str]:
        return {name: entry.description for name, entry in ENVIRONMENTS.items()}

    def agents(self, environment: str) -> Mapping[str, str]:
        presets = lookup(ENVIRONMENTS, environment, "environment").presets
        return {name: entry.description for name, entry in _agents().items() if entry.presets in presets}

    def presets(self, environment: str, agent: str) -> tuple[str, ...]:
        return tuple(self._presets(environment, agent))

    def settings(self, environment: str, agent: str, preset: str | None = None) -> AnySettings:
        table = self._presets(environment, agent)
        return lookup(table, next(iter(table)) if preset is None else preset, "preset")

    def smoke_changes(self, environment: str, agent: str) -> Mapping[str, object]:
        settings = self.settings(environment, agent)
        smoke = lookup(ENVIRONMENTS, environment, "environment").smoke
        return {path: value for path, value in smoke.items() if _has(settings, path)}

    def compose(self, environment: str, agent: str, settings: AnySettings) -> Learner[PyTree]:
        """Makes the agent."""
        self._presets(environment, agent)
        return _agents()[agent].compose(ENVIRONMENTS[environment].task(settings.env), settings)

    def trainer(
        self, environment: str, agent: str, settings: AnySettings, seeds: tuple[int, ...]
    ) -> SeedTrainer[PyTree]:
        learner = self.compose(environment, agent, settings)
        chunk = max(1, settings.evaluation.every // learner.steps_per_iteration)
        return SeedTrainer(learner, seeds, settings.steps, chunk, name=f"{environment}/{agent}")

    def _presets(self, environment: str, agent: str) -> Mapping[str, AnySettings]:
        entry = lookup(ENVIRONMENTS, environment, "environment")
        presets = lookup(_agents(), agent, "agent").presets
        if presets not in entry.presets:
            raise ValueError(
                f"there is no agent {agent!r} for {environment}: choose one of {', '.join(self.agents(environment))}"
            )
        return entry.presets[presets]


def installed() -> Catalogue:
    """Returns the catalogue of this package. Other processes find it by the name of this function."""
    return Registered()


def _agents() -> Mapping[str, AgentEntry]:
    """Read anew each time: variants may be registered at any time."""
    return {**{name: _planning(variant) for name, variant in VARIANTS.items()}, "bdqn": BDQN}


def _has(settings: AnySettings, path: str) -> bool:
    group, _, name = path.partition(".")
    return hasattr(settings, group) and (not name or hasattr(getattr(settings, group), name))
