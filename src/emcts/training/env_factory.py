"""Environments for each seed: the same for all, or one of the same shapes per seed."""

import dataclasses
from typing import Protocol, runtime_checkable

from jaxtyping import PyTree

from emcts.envs.base import AnyEnvironment


@runtime_checkable
class EnvFactory(Protocol):
    """Makes environments. `params` is what differs between seeds: drawn on the host, and an array inside of `vmap`."""

    def params(self, seed: int) -> PyTree: ...

    def make(self, params: PyTree) -> AnyEnvironment: ...

    @property
    def example(self) -> AnyEnvironment:
        """One of the environments, to read sizes from."""


@dataclasses.dataclass(frozen=True)
class SharedEnv:
    """The same environment for every seed."""

    env: AnyEnvironment

    def params(self, seed: int) -> PyTree:
        return ()

    def make(self, params: PyTree) -> AnyEnvironment:
        return self.env

    @property
    def example(self) -> AnyEnvironment:
        return self.env
