"""A task: what an environment brings to training, beside the members of the environment itself."""

import dataclasses
from collections.abc import Callable, Mapping

import jax
from jaxtyping import Array, Float, PyTree, Shaped

from emcts.agents.settings import EvaluationSettings
from emcts.envs.base import AnyEnvironment, FiniteEnvironment, is_deterministic
from emcts.models.evaluators import NoveltyInput
from emcts.models.networks import InputSpec
from emcts.training.env_factory import EnvFactory
from emcts.training.evaluation import SolvedFraction
from emcts.training.learner import EvaluationConfig


@dataclasses.dataclass(frozen=True)
class Anchor:
    """The latent states of an anchored model: vectors of `size` that a state of the environment is encoded as."""

    size: int
    encode: Callable[[PyTree, PyTree], Float[Array, "latent"]]  # of an environment and a state


def flat_observation(env: AnyEnvironment, state: PyTree) -> Shaped[Array, "F"]:
    """Returns the whole observation as a vector."""
    return env.observe(state).reshape(-1)


@dataclasses.dataclass(frozen=True)
class Task:
    """An environment for each seed, and what agents need to know of it.

    Episodes last at most `max_steps`; evaluation cuts longer ones off. `solved` is None if the task cannot be solved,
    only played better. With `bounded_returns`, values lie in (-1, 1) and variances in (0, 1). `novelty_inputs` are, by
    name, what of a state can be novel; the first is the default. `anchor` allows anchored models.
    """

    env_factory: EnvFactory
    max_steps: int
    solved: SolvedFraction | None = None
    bounded_returns: bool = False
    novelty_inputs: Mapping[str, NoveltyInput] = dataclasses.field(
        default_factory=lambda: {"observation": flat_observation}
    )
    anchor: Anchor | None = None

    @property
    def env(self) -> AnyEnvironment:
        """One of the environments, to read sizes from."""
        return self.env_factory.example

    @property
    def is_finite(self) -> bool:
        return isinstance(self.env, FiniteEnvironment)

    @property
    def is_deterministic(self) -> bool:
        return is_deterministic(self.env)

    @property
    def input_spec(self) -> InputSpec:
        """What networks read: the index of a state in a finite environment, else the observation."""
        env = self.env
        if isinstance(env, FiniteEnvironment):
            return InputSpec(num_indices=env.num_states)
        return InputSpec(jax.eval_shape(env.observe, self.example_state()).shape)

    def evaluation(self, settings: EvaluationSettings) -> EvaluationConfig:
        """Returns how agents are evaluated on this task."""
        max_steps = self.max_steps if settings.max_steps is None else settings.max_steps
        return EvaluationConfig(settings.episodes, max_steps, settings.beta, self.solved)

    def example_state(self) -> PyTree:
        """Returns the shapes of a state."""
        return jax.eval_shape(self.env.init, jax.random.key(0))


def observe(env: AnyEnvironment, state: PyTree) -> Shaped[Array, "..."]:
    """Returns what networks read of a state, as `Task.input_spec` describes it."""
    return env.index(state) if isinstance(env, FiniteEnvironment) else env.observe(state)
