"""What can be trained, by name, as commands, runs and sweeps ask for it."""

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from emcts.training.progress import Trainer


@runtime_checkable
class Catalogue(Protocol):
    """Environments and the agents that each has. The first preset of an agent is its default."""

    @property
    def environments(self) -> Mapping[str, str]:
        """The names of the environments, with a description. References to others are names too, but not listed."""

    def agents(self, environment: str) -> Mapping[str, str]:
        """The names of the agents that an environment has, with a description. Raises for an unknown environment."""

    def presets(self, environment: str, agent: str) -> tuple[str, ...]: ...

    def settings(self, environment: str, agent: str, preset: str | None = None) -> Any:
        """The settings of a preset: a frozen dataclass, nested, with a field `steps`."""

    def smoke_changes(self, environment: str, agent: str) -> Mapping[str, Any]:
        """Settings by dotted path that make a training take seconds."""

    def resolve(self, environment: str, agent: str, settings: Any) -> Any:
        """The settings of a new run: each that was left open has a value. An environment that breaks a rule raises."""

    def trainer(self, environment: str, agent: str, settings: Any, seeds: tuple[int, ...]) -> Trainer: ...
