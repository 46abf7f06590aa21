"""What can be trained: the environments and the agents of this package, by name."""

import dataclasses
import functools
import json
import sys
from collections.abc import Callable, Mapping
from typing import TypeAlias

from jaxtyping import PyTree

from emcts.agents.bdqn.settings import compose as compose_bdqn
from emcts.agents.builtin_tasks import deep_sea, minatar, subleq
from emcts.agents.mcts.variants import VARIANTS, Variant, fill_open
from emcts.agents.mcts.variants import compose as compose_variant
from emcts.agents.mcts.world_models import learned
from emcts.agents.presets import deep_sea as deep_sea_presets
from emcts.agents.presets import default as default_presets
from emcts.agents.presets import minatar as minatar_presets
from emcts.agents.presets import subleq as subleq_presets
from emcts.agents.ranges import check_ranges
from emcts.agents.settings import Settings
from emcts.agents.task import EnvOptions, Findings, Task, make_task, try_out
from emcts.envs.base import AnyEnvironment
from emcts.envs.contract import check_types
from emcts.envs.minatar import GAMES
from emcts.envs.references import (
    Made,
    is_reference,
    is_untrusted,
    limited,
    make,
    of_object,
    parse_reference,
    suggest_reference,
)
from emcts.models.encoders import MakeEncoder
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
    fill_open: Callable[[Task, AnySettings], AnySettings] = lambda task, settings: settings


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
        lambda task, settings: fill_open(variant, task, settings),
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
    """The catalogue of the tables `ENVIRONMENTS` and `VARIANTS`, and of every environment that a reference names.

    A reference to a Python module is made only if it is in `named`: the user gave it, and it was not read from a
    folder. `objects` are environments that were given as objects, by the reference that stands for each. `encoder`
    makes a user's module for what is observed, in place of the layers that settings describe.
    """

    named: tuple[str, ...] = ()
    objects: Mapping[str, AnyEnvironment] = dataclasses.field(default_factory=dict)
    encoder: MakeEncoder | None = None
    findings: dict[str, Findings] = dataclasses.field(default_factory=dict, compare=False, repr=False)
    """of environments that were tried, so that none is twice"""

    @property
    def environments(self) -> Mapping[str, str]:
        return {name: entry.description for name, entry in ENVIRONMENTS.items()}

    def agents(self, environment: str) -> Mapping[str, str]:
        presets = _entry_presets(environment)
        return {name: entry.description for name, entry in _agents().items() if entry.presets in presets}

    def presets(self, environment: str, agent: str) -> tuple[str, ...]:
        return tuple(self._presets(environment, agent))

    def settings(self, environment: str, agent: str, preset: str | None = None) -> AnySettings:
        table = self._presets(environment, agent)
        return lookup(table, next(iter(table)) if preset is None else preset, "preset")

    def smoke_changes(self, environment: str, agent: str) -> Mapping[str, object]:
        settings = self.settings(environment, agent)
        smoke = default_presets.SMOKE if is_reference(environment) else ENVIRONMENTS[environment].smoke
        return {path: value for path, value in smoke.items() if _has(settings, path)}

    def resolve(self, environment: str, agent: str, settings: AnySettings) -> AnySettings:
        """Returns the settings of a new run. A reference is made and checked: what breaks a rule raises here."""
        self._presets(environment, agent)
        check_ranges(settings)
        task = self._task(environment, agent, settings)
        settings = _agents()[agent].fill_open(task, settings)
        if not is_reference(environment):
            return settings.with_table_bits() if isinstance(settings, Settings) else settings
        key = json.dumps([environment, dataclasses.asdict(settings.env)])
        if key not in self.findings:
            self.findings[key] = try_out(task.env, task.max_steps)
            if (steps := self.findings[key].steps_without_end) and self._is_users_own(environment):
                print(
                    f"emcts: no episode of {environment} terminated in {steps:,} random steps, so the rules about "
                    "ends were not checked: run emcts.envs.check(env, steps=...) with enough of them",
                    file=sys.stderr,
                )
        return default_presets.fill_open(settings, dataclasses.replace(task, found=self.findings[key]))

    def compose(self, environment: str, agent: str, settings: AnySettings) -> Learner[PyTree]:
        """Makes the agent."""
        return self._compose(environment, agent, settings)[0]

    def trainer(
        self, environment: str, agent: str, settings: AnySettings, seeds: tuple[int, ...]
    ) -> SeedTrainer[PyTree]:
        learner, settings = self._compose(environment, agent, settings)
        chunk = max(1, settings.evaluation.every // learner.steps_per_iteration)
        return SeedTrainer(learner, seeds, settings.steps, chunk, name=f"{environment}/{agent}")

    def _compose(
        self, environment: str, agent: str, settings: AnySettings
    ) -> tuple[Learner[PyTree], AnySettings]:
        """The agent, and its settings with nothing left open."""
        self._presets(environment, agent)
        check_ranges(settings)
        task = self._task(environment, agent, settings)
        if is_reference(environment):
            settings = default_presets.fill_open(settings, task)
        return _agents()[agent].compose(task, settings), settings

    def _task(self, environment: str, agent: str, settings: AnySettings) -> Task:
        if not is_reference(environment):
            return dataclasses.replace(ENVIRONMENTS[environment].task(settings.env), encoder=self.encoder)
        options: EnvOptions = settings.env
        made = self._make(environment, options)
        check_types(made.env)
        task = make_task(
            made.env,
            max_steps=made.max_steps,
            solved_return=made.solved_return,
            deterministic=options.deterministic,
            encoder=self.encoder,
        )
        if task.is_on_host and _agents()[agent].presets == "simulator":
            others = [name for name, entry in _agents().items() if entry.presets != "simulator"]
            raise ValueError(
                f"{agent} plans with the environment itself, and {environment} runs in Python, where JAX cannot "
                f"search: take --agent {', '.join(others)}"
            )
        return task

    def _is_users_own(self, environment: str) -> bool:
        """Not one of a library, which an adapter makes keep the rules about ends."""
        return environment in self.objects or parse_reference(environment).library is None

    def _make(self, environment: str, options: EnvOptions) -> Made:
        if environment in self.objects:
            return limited(of_object(self.objects[environment], environment), options.time_limit)
        reference = parse_reference(environment)
        if not reference.is_trusted and environment not in self.named:
            raise _not_named(environment)
        return make(reference, options.arguments, options.time_limit)

    def _presets(self, environment: str, agent: str) -> Mapping[str, AnySettings]:
        table = _entry_presets(environment)
        presets = lookup(_agents(), agent, "agent").presets
        if presets not in table:
            raise ValueError(
                f"there is no agent {agent!r} for {environment}: choose one of {', '.join(self.agents(environment))}"
            )
        return table[presets]


def installed(named: tuple[str, ...] = (), folder: str | None = None) -> Catalogue:
    """Returns the catalogue of this package. Other processes find it by the name of this function.

    `named` are the references to code that the user gave, which is also looked for in `folder`.
    """
    if folder is not None and folder not in sys.path:
        sys.path.insert(0, folder)
    return _registered(named)


@functools.cache
def _registered(named: tuple[str, ...]) -> Registered:
    """One for each list of names, which tries an environment once."""
    return Registered(named)


def installed_for(environment: str, env_from: str | None) -> Catalogue:
    """Returns the catalogue for a run whose folder names the environment, and what the user says that it is."""
    if env_from is None and is_untrusted(environment):
        raise _not_named(environment)
    if env_from is not None and env_from != environment:
        raise ValueError(f"the run was trained on {environment}, got --env-from {env_from}: name the same")
    return installed() if env_from is None else installed((env_from,))


def _not_named(environment: str) -> ValueError:
    return ValueError(
        f"{environment} is code, which is not run because a folder names it: if you trust it, add "
        f"--env-from {environment}"
    )


def _entry_presets(environment: str) -> Mapping[str, Mapping[str, AnySettings]]:
    """The presets of an environment, by kind of agent. Nothing is imported for a reference."""
    if is_reference(environment):
        parse_reference(environment)
        return default_presets.PRESETS
    others = suggest_reference(environment)
    return lookup(ENVIRONMENTS, environment, "environment", others).presets


def _agents() -> Mapping[str, AgentEntry]:
    """Read anew each time: variants may be registered at any time."""
    return {**{name: _planning(variant) for name, variant in VARIANTS.items()}, "bdqn": BDQN}


def _has(settings: AnySettings, path: str) -> bool:
    group, _, name = path.partition(".")
    return hasattr(settings, group) and (not name or hasattr(getattr(settings, group), name))
