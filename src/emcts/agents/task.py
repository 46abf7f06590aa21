"""A task: what an environment brings to training, beside the members of the environment itself."""

import dataclasses
import math
from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree, Shaped

from emcts.agents.settings import EvaluationSettings
from emcts.envs.base import (
    AnyEnvironment,
    FiniteEnvironment,
    GoalEnvironment,
    HostEnvironment,
    NoveltyEnvironment,
    is_on_host,
    simulator_errors,
)
from emcts.envs.contract import check_shortly
from emcts.envs.rollout import random_returns
from emcts.models.encoders import InputSpec, MakeEncoder, Spec, flat_floats, input_spec
from emcts.models.evaluators import NoveltyInput
from emcts.registry import lookup
from emcts.training.env_factory import EnvFactory, SharedEnv
from emcts.training.evaluation import ReturnReached, SolvedFraction, Success, episodes_solved
from emcts.training.learner import EvaluationConfig
from emcts.types import JSON

MOST_ANCHORED = 1024  # numbers in an observation that a learned model can predict
WHOLE = "observation"  # the novelty input that is the whole observation
UNKNOWN_MAX_STEPS = 1000  # of an evaluation episode, where nothing bounds it
DENSE_FROM = 0.25  # the fraction of random steps with a reward from which on a reward is no success
RANDOM_EPISODES, HOST_EPISODES, RANDOM_STEPS, RANDOM_SECONDS = 32, 8, 1000, 5.0  # to find the return to beat


@dataclasses.dataclass(frozen=True)
class EnvOptions:
    """The environment that a reference names: the arguments that make it, and a limit on the steps of an episode."""

    arguments: Mapping[str, JSON] = dataclasses.field(default_factory=dict)
    """arguments that make the environment, by name: --env NAME=VALUE ..."""
    time_limit: int | None = None
    """steps after which an episode is truncated: --time-limit N"""
    deterministic: bool | None = None
    """whether a step ignores its key; left out, what the environment says, or else what was found by trying"""

    def __post_init__(self) -> None:
        if not isinstance(self.arguments, Mapping):
            raise ValueError(f"env.arguments is {self.arguments!r}: give values by name")


@dataclasses.dataclass(frozen=True)
class Anchor:
    """The latent states of an anchored model: vectors of `size` that a state of the environment is encoded as."""

    size: int
    encode: Callable[[PyTree, PyTree], Float[Array, "latent"]]  # of an environment and a state


def flat_observation(env: AnyEnvironment, state: PyTree) -> Shaped[Array, "F"]:
    """Returns the whole observation as a vector. Different observations give different vectors."""
    return flat(env.observe(state))


def flat(arrays: PyTree[Array]) -> Shaped[Array, "F"]:
    """Returns the elements of all arrays as one vector: of the dtype of all, or float32 if they have several."""
    leaves = jax.tree.leaves(arrays)
    if len({leaf.dtype for leaf in leaves}) > 1:
        leaves = [part for leaf in leaves for part in _exact_floats(leaf)]
    return jnp.concatenate([leaf.reshape(-1) for leaf in leaves])


def _exact_floats(leaf: Shaped[Array, "*S"]) -> list[Float[Array, "*S"]]:
    """An array as float32; of an integer that needs more digits than these have, also the rest."""
    floats = leaf.astype(jnp.float32)
    if not jnp.issubdtype(leaf.dtype, jnp.integer) or leaf.dtype.itemsize < 4:
        return [floats]
    return [floats, (leaf - floats.astype(leaf.dtype)).astype(jnp.float32)]


def novelty_inputs(env: AnyEnvironment) -> Mapping[str, NoveltyInput]:
    """Returns by name what of a state can be novel: what the environment names, the observation, and its parts.

    The first is the default. Parts are those of an observation that is a dictionary.
    """
    observed = jax.eval_shape(env.observe, jax.eval_shape(env.init, jax.random.key(0)))
    parts = observed if isinstance(observed, Mapping) else {}
    named = env.novelty_inputs if isinstance(env, NoveltyEnvironment) else {}
    return {
        **{name: _named(name) for name in named},
        WHOLE: flat_observation,
        **{name: _part(name) for name in parts if name != WHOLE},
    }


def _named(name: str) -> NoveltyInput:
    """Reads the environment at hand: each seed may have its own."""
    return lambda env, state: env.novelty_inputs[name](state)


def _part(name: str) -> NoveltyInput:
    return lambda env, state: flat(env.observe(state)[name])


@dataclasses.dataclass(frozen=True)
class Findings:
    """What random episodes show of an environment: whether steps ignore their key, and how often a step pays.

    `dense` is whether many steps have a reward. Then, and where an episode goes on after a positive reward, a reward
    is no success: `baseline_return`, the return to beat, is that of the best episode, unless the environment says when
    it is solved. `steps_without_end` is how many steps were taken if no episode terminated in them, and else 0.
    """

    deterministic: bool
    dense: bool
    baseline_return: float | None
    steps_without_end: int = 0


@dataclasses.dataclass(frozen=True)
class Task:
    """An environment for each seed, and what agents need to know of it.

    Episodes last at most `max_steps`; evaluation cuts longer ones off. `solved` is None if the task cannot be solved,
    only played better. With `bounded_returns`, values lie in (-1, 1) and variances in (0, 1). `novelty_inputs` are, by
    name, what of a state can be novel; the first is the default. `anchor` allows anchored models. `encoder` makes a
    user's own module from what is observed to a vector, in place of the layers that settings describe.
    """

    env_factory: EnvFactory
    max_steps: int
    solved: SolvedFraction | None = None
    bounded_returns: bool = False
    novelty_inputs: Mapping[str, NoveltyInput] = dataclasses.field(
        default_factory=lambda: {WHOLE: flat_observation}
    )
    anchor: Anchor | None = None
    encoder: MakeEncoder | None = None
    deterministic: bool | None = None  # None: what the environment says, or what was found
    solved_return: float | None = None  # a mean return that counts as solved, if one is known
    found: Findings | None = None  # None: it was not tried

    @property
    def env(self) -> AnyEnvironment:
        """One of the environments, to read sizes from."""
        return self.env_factory.example

    @property
    def is_finite(self) -> bool:
        return isinstance(self.env, FiniteEnvironment)

    @property
    def is_deterministic(self) -> bool:
        declared: bool | None = getattr(self.env, "deterministic", None)
        found = self.found is not None and self.found.deterministic
        for known in (self.deterministic, declared):
            if known is not None:
                return bool(known)
        return found

    @property
    def is_on_host(self) -> bool:
        """Whether its steps run in Python on the host: then it can be played, but not searched."""
        return is_on_host(self.env)

    @property
    def input_spec(self) -> Spec:
        """What networks read: the index of a state in a finite environment, else the observation.

        That is an array or a pytree of arrays, or an integer below `num_observations` if the environment has that.
        """
        env = self.env
        if isinstance(env, FiniteEnvironment):
            return InputSpec(num_indices=env.num_states)
        observed = self.observation_spec
        if (count := getattr(env, "num_observations", None)) is None:
            return observed
        if not isinstance(observed, InputSpec) or observed.shape:
            raise ValueError(
                f"num_observations is {count}, but observe returns {observed}: return one integer, or leave it out"
            )
        return InputSpec(num_indices=count)

    @property
    def observation_spec(self) -> Spec:
        """What is observed, whatever networks read of it."""
        return input_spec(jax.eval_shape(self.env.observe, self.example_state()))

    def novelty_input(self, names: str | None) -> NoveltyInput:
        """Returns what of a state can be novel: an input by its name, or several joined by +, as one vector."""
        inputs = self.novelty_inputs
        chosen = [lookup(inputs, name, "novelty.input") for name in (names or next(iter(inputs))).split("+")]
        if len(chosen) == 1:
            return chosen[0]
        return lambda env, state: flat([input_of(env, state) for input_of in chosen])

    def evaluation(self, settings: EvaluationSettings) -> EvaluationConfig:
        """Returns how agents are evaluated on this task."""
        max_steps = self.max_steps if settings.max_steps is None else settings.max_steps
        solved = None if settings.has_no_solution else self.solved
        if settings.solved_return is not None:
            solved = ReturnReached(settings.solved_return)
        success = Success(settings.baseline_return)
        return EvaluationConfig(settings.episodes, max_steps, settings.beta, solved, success)

    def example_state(self) -> PyTree:
        """Returns the shapes of a state."""
        return jax.eval_shape(self.env.init, jax.random.key(0))


def make_task(
    env: AnyEnvironment,
    *,
    max_steps: int | None = None,
    solved_return: float | None = None,
    deterministic: bool | None = None,
    encoder: MakeEncoder | None = None,
) -> Task:
    """Makes the task of any environment, the same for each seed.

    `max_steps` is that of the longest episode, and a mean return of `solved_return` counts as solved; left out, what
    the environment says. `deterministic` is for an environment that does not say. `encoder` makes a user's own module
    from what is observed to a vector.
    """
    return Task(
        env_factory=SharedEnv(env),
        max_steps=_longest_episode(env) if max_steps is None else max_steps,
        solved=episodes_solved,
        anchor=observation_anchor(env),
        encoder=encoder,
        novelty_inputs=novelty_inputs(env),
        deterministic=deterministic,
        solved_return=getattr(env, "reward_threshold", None) if solved_return is None else solved_return,
    )


def observation_anchor(env: AnyEnvironment) -> Anchor | None:
    """Returns the whole observation as the latent state of a learned model; None if it is too large for that."""
    count: int | None = getattr(env, "num_observations", None)
    if count is not None:
        one_hot = Anchor(count, lambda env, state: jax.nn.one_hot(env.observe(state), count))
        return one_hot if count <= MOST_ANCHORED else None
    observed = jax.eval_shape(env.observe, jax.eval_shape(env.init, jax.random.key(0)))
    size = sum(leaf.size for leaf in jax.tree.leaves(observed))
    return Anchor(size, lambda env, state: flat_floats(env.observe(state))) if size <= MOST_ANCHORED else None


def try_out(env: AnyEnvironment, max_steps: int) -> Findings:
    """Plays random episodes, for seconds. A rule of environments that does not hold raises."""
    checked = check_shortly(env, max_steps)
    deterministic = not checked.random_steps
    dense = checked.paying >= DENSE_FROM
    without_end = 0 if checked.terminated or is_on_host(env) else checked.steps
    if not (dense or checked.scores) or isinstance(env, GoalEnvironment):
        return Findings(deterministic, dense, None, without_end)
    with simulator_errors(env):
        returns = random_returns(
            env,
            jax.random.key(1),
            episodes=HOST_EPISODES if is_on_host(env) else RANDOM_EPISODES,
            max_steps=min(max_steps, RANDOM_STEPS),
            seconds=RANDOM_SECONDS,
        )
    if isinstance(env, HostEnvironment):
        env.close()
    return Findings(deterministic, dense, float(returns.max()), without_end)


def _longest_episode(env: AnyEnvironment) -> int:
    if (given := getattr(env, "max_steps", None)) is not None:
        return int(given)
    steps_left: Callable[[PyTree], Array] | None = getattr(env, "steps_left", None)
    if steps_left is None:
        return UNKNOWN_MAX_STEPS
    left = float(steps_left(env.init(jax.random.key(0))))
    return int(left) if math.isfinite(left) else UNKNOWN_MAX_STEPS


def observe(env: AnyEnvironment, state: PyTree) -> PyTree:
    """Returns what networks read of a state, as `Task.input_spec` describes it."""
    return env.index(state) if isinstance(env, FiniteEnvironment) else env.observe(state)
