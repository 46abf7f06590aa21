"""Names on the command line, turned into something to train."""

import difflib
import importlib
from collections.abc import Iterable, Mapping
from typing import Any, Protocol, cast, runtime_checkable

from emcts.runs.config import Config, fill
from emcts.runs.trainer import Trainer


@runtime_checkable
class Catalogue(Protocol):
    """What can be trained, by name. Not every environment has every agent; the first of its presets is its default."""

    ENVIRONMENTS: Mapping[str, str]
    AGENTS: Mapping[str, str]

    def agents(self, environment: str) -> Mapping[str, str]: ...

    def presets(self, environment: str, agent: str) -> tuple[str, ...]: ...

    def settings(self, environment: str, agent: str, preset: str | None = None) -> Any: ...

    def trainer(self, environment: str, agent: str, settings: Any, seeds: tuple[int, ...]) -> Trainer: ...


def installed() -> Catalogue:
    """The catalogue of this package."""
    return cast(Catalogue, importlib.import_module("emcts.agents.catalogue"))


def stored_settings(config: Config, catalogue: Catalogue) -> Any:
    """The settings that a run began with."""
    return fill(catalogue.settings(config.environment, config.agent, config.preset), config.settings)


def known(what: str, name: str, names: Iterable[str]) -> str:
    """The name itself, if it is one of the names."""
    names = list(names)
    if name not in names:
        near = difflib.get_close_matches(name, names, 1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise ValueError(f"unknown {what} {name!r}: {hint}There are {', '.join(names)}")
    return name
