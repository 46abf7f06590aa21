"""The worlds that seeds train in: one environment for all, or one per seed, of the same shapes."""

import dataclasses
from typing import Any, Protocol, runtime_checkable

import jax.numpy as jnp
from jaxtyping import Array, Bool, PyTree

from emcts.envs import AnyEnvironment, DeepSea, Outcome, Subleq
from emcts.envs.subleq import disassemble
from emcts.training.progress import Artifact


@runtime_checkable
class Worlds(Protocol):
    """`draw` makes what differs between seeds, on the host; `world` the environment, inside of `vmap`."""

    def draw(self, seed: int) -> PyTree: ...

    def world(self, drawn: PyTree) -> Any: ...

    @property
    def example(self) -> Any:
        """One of the worlds, to read sizes from."""

    def pack(self, state: Any) -> PyTree:
        """As little of a state as it can be rebuilt from: what the replay keeps."""

    def unpack(self, env: Any, packed: PyTree) -> Any: ...

    def success(self, env: Any, after: Any, outcome: Outcome) -> Bool[Array, ""]:
        """Whether this step did what the world is about."""

    def good_episode(self, env: Any, after: Any) -> Bool[Array, ""] | None:
        """Whether an episode that ends in this state has no regret, as bsuite scores it; None where nothing says so."""

    def keepsake(self, after: Any) -> PyTree:
        """What a run keeps of a success; () if nothing."""

    def artifact(self, seed: int, env_steps: int, kept: PyTree) -> Artifact:
        """Returns what a run keeps of a success as an artifact, on the host. Called only if something is kept."""


@dataclasses.dataclass(frozen=True)
class SameWorld:
    """Every seed has the same environment, and success is a reward.

    An environment that has `strayed(state)` says by it which episodes are good.
    """

    env: AnyEnvironment

    def draw(self, seed: int) -> PyTree:
        return ()

    def world(self, drawn: PyTree) -> AnyEnvironment:
        return self.env

    @property
    def example(self) -> AnyEnvironment:
        return self.env

    def pack(self, state: Any) -> PyTree:
        return state

    def unpack(self, env: AnyEnvironment, packed: PyTree) -> Any:
        return packed

    def success(self, env: AnyEnvironment, after: Any, outcome: Outcome) -> Bool[Array, ""]:
        return outcome.reward > 0

    def good_episode(self, env: AnyEnvironment, after: Any) -> Bool[Array, ""] | None:
        strayed: Any = getattr(env, "strayed", None)
        return None if strayed is None else ~strayed(after)

    def keepsake(self, after: Any) -> PyTree:
        return ()

    def artifact(self, seed: int, env_steps: int, kept: PyTree) -> Artifact:
        raise NotImplementedError("nothing is kept of a success in this environment")


@dataclasses.dataclass(frozen=True)
class DeepSeas:
    """Each seed has an action map of its own; success is the treasure."""

    size: int
    stochastic: bool = False

    def draw(self, seed: int) -> PyTree:
        return DeepSea(self.size, seed=seed).right_actions

    def world(self, drawn: PyTree) -> DeepSea:
        return self.example.with_map(drawn)

    @property
    def example(self) -> DeepSea:
        return DeepSea(self.size, stochastic=self.stochastic)

    def pack(self, state: Any) -> PyTree:
        return state

    def unpack(self, env: DeepSea, packed: PyTree) -> Any:
        return packed

    def success(self, env: DeepSea, after: Any, outcome: Outcome) -> Bool[Array, ""]:
        return env.solved(after)

    def good_episode(self, env: DeepSea, after: Any) -> Bool[Array, ""] | None:
        return ~env.strayed(after)

    def keepsake(self, after: Any) -> PyTree:
        return ()

    def artifact(self, seed: int, env_steps: int, kept: PyTree) -> Artifact:
        raise NotImplementedError("nothing is kept of a success in this environment")


@dataclasses.dataclass(frozen=True)
class Programs:
    """SUBLEQ. A state is rebuilt from its program by running it, and a success is kept as its words."""

    env: Subleq

    def draw(self, seed: int) -> PyTree:
        return ()

    def world(self, drawn: PyTree) -> Subleq:
        return self.env

    @property
    def example(self) -> Subleq:
        return self.env

    def pack(self, state: Any) -> PyTree:
        return {"words": state.words, "num_words": state.num_words.astype(jnp.uint8), "task": state.task}

    def unpack(self, env: Subleq, packed: PyTree) -> Any:
        return env.written(packed["words"], packed["num_words"].astype(jnp.int32), packed["task"])

    def success(self, env: Subleq, after: Any, outcome: Outcome) -> Bool[Array, ""]:
        return outcome.reward > 0

    def good_episode(self, env: Subleq, after: Any) -> Bool[Array, ""] | None:
        return None

    def keepsake(self, after: Any) -> PyTree:
        return {"words": after.words, "num_words": after.num_words}

    def artifact(self, seed: int, env_steps: int, kept: PyTree) -> Artifact:
        """Returns the program of a success: its words, and as assembly."""
        words = [int(word) for word in kept["words"][: kept["num_words"]]]
        title = f"; step {env_steps:,}: {' '.join(map(str, words))}"
        text = f"{title}\n{disassemble(words, self.env.word_size)}\n"
        return Artifact(seed, env_steps, {"words": words}, text, ".asm")
