"""The rules of the protocol, checked on any environment.

emcts.envs.check(env)     # raises ContractError, which names the rule that is broken
"""

import dataclasses
import functools
import inspect
import os
import traceback
import warnings
from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, PyTree

from emcts.envs.base import (
    Environment,
    HostEnvironment,
    Outcome,
    State,
    is_deterministic,
    is_on_host,
    missing_members,
    simulator_errors,
)
from emcts.envs.rollout import QUICK_TO_COMPILE, Randomness, Rollout, compiled_rollout, draw
from emcts.types import Key

SHORT_EPISODES, SHORT_STEPS = 8, 128  # of a check before a training
SHORT_BYTES = 2**27  # of its states and observations
NOT_USER_CODE = ("site-packages", os.path.dirname(os.path.dirname(__file__)), os.path.dirname(os.__file__))
ARGUMENTS = {"init": ("key",), "step": ("state", "action", "key"), "observe": ("state",), "legal": ("state",)}
TOLERANCE = 1e-5  # compiled and plain arithmetic may round differently

Result = TypeVar("Result")


class ContractError(ValueError):
    """An environment breaks `rule`."""

    def __init__(self, rule: str, what: str):
        super().__init__(f"the environment breaks the rule {rule!r}: {what}")
        self.rule = rule


@dataclasses.dataclass(frozen=True)
class Checked:
    """How much was checked: rules about ends mean little if no episode ended."""

    steps: int  # that were taken
    ended: int  # episodes that ended
    random: bool  # results depend on the key
    random_steps: bool = False  # those of steps do, and not of starts alone
    paying: float = 0.0  # the fraction of the steps whose reward is not 0
    scores: bool = False  # some episode had a positive reward and went on


def check(
    env: object,
    *,
    key: Key | None = None,
    episodes: int = 8,
    steps: int = 128,
    samples: int = 3,
    resets: bool = False,
) -> Checked:
    """Takes random legal actions, and raises `ContractError` for the first rule that does not hold.

    Each episode has `steps` steps, within which it should end. `samples` transitions are repeated one by one, compiled
    and not. `resets=True` is for environments that reset in `step`, as `auto_reset` does: they do not absorb.
    An environment whose steps run in Python on the host is stepped once from each state, and counts as random.
    If no episode ended, a warning says that the rules about ends were not checked.
    """
    checked = _check(env, key=key, episodes=episodes, steps=steps, samples=samples, resets=resets)
    if not checked.ended:
        warnings.warn(
            f"no episode ended within {steps} random steps, so the rules about ends were not checked: raise steps, "
            "or make sure that the environment ends its episodes",
            stacklevel=2,
        )
    return checked


def _check(env: object, *, key: Key | None, episodes: int, steps: int, samples: int, resets: bool) -> Checked:
    key = jax.random.key(0) if key is None else key
    env = check_types(env)
    run = compiled_rollout(env)
    random = draw(key, env.num_actions, episodes=episodes, steps=steps)
    with simulator_errors(env):
        played = jax.block_until_ready(run(random))
    _check_finite(played)
    _check_legal(env, played)
    if not resets:
        _check_absorbing(played)
    over = np.asarray(played.outcome.over)
    ended = int(over.sum()) if resets else int(over[:, -1].sum())
    if is_on_host(env):
        if isinstance(env, HostEnvironment):
            env.close()  # those simulators are not needed any more
        return Checked(episodes * steps, ended, True, True, _paying(played), _scores(played))
    _check_repeatable(env, random, played, samples)
    # The same starts and actions with the step keys of other episodes.
    again = run(random.replace(step_keys=jnp.roll(random.step_keys, 1, axis=0)))
    steps_random = _differ((played.after, played.outcome), (again.after, again.outcome))
    if steps_random and is_deterministic(env):
        raise ContractError("deterministic", "it says that it is, but a step depends on its key")
    starts_random = _starts_are_random(played)
    depends = steps_random or starts_random
    return Checked(episodes * steps, ended, depends, steps_random, _paying(played), _scores(played))


def check_shortly(env: object, max_steps: int) -> Checked:
    """Checks within seconds, before a training: a few episodes, with fewer steps where states are large."""
    env = check_types(env)
    state = jax.eval_shape(env.init, jax.random.key(0))
    shapes = jax.tree.leaves((state, state, jax.eval_shape(env.observe, state)))
    size = SHORT_EPISODES * sum(leaf.size * leaf.dtype.itemsize for leaf in shapes)
    steps = max(2, min(max_steps + 1, SHORT_STEPS, SHORT_BYTES // size))
    return _check(env, key=None, episodes=SHORT_EPISODES, steps=steps, samples=1, resets=False)


def _is_observation(seen: object) -> bool:
    if isinstance(seen, dict):
        return bool(seen) and all(_is_observation(part) for part in seen.values())
    return isinstance(seen, jax.ShapeDtypeStruct)


def check_types(env: object) -> Environment[PyTree]:
    """Traces without running: the state that a step returns must have the type of the one that it takes."""
    if missing := missing_members(env):
        members = "an environment has num_actions, init, step, observe and legal"
        raise ContractError("protocol", f"{type(env).__name__} has no {missing[0]}: {members}")
    assert isinstance(env, Environment)
    count, key = env.num_actions, jax.random.key(0)
    if not isinstance(count, int) or count < 1:
        raise ContractError("actions", f"num_actions is {count!r}, not a positive Python integer")
    for name, arguments in ARGUMENTS.items():
        _check_arguments(name, getattr(env, name), arguments)
    try:
        start = jax.eval_shape(env.init, key)
        action = jax.ShapeDtypeStruct((), jnp.int32)
        stepped = jax.eval_shape(env.step, start, action, key)
        if not isinstance(stepped, tuple) or len(stepped) != 2:
            returned = f"{len(stepped)} values" if isinstance(stepped, tuple) else type(stepped).__name__
            raise ContractError("types", f"step returns {returned}, not a state and an Outcome")
        after, outcome = stepped
        seen, seen_after = jax.eval_shape(env.observe, start), jax.eval_shape(env.observe, after)
        legal = jax.eval_shape(env.legal, start)
    except jax.errors.JAXTypeError as error:
        raise ContractError("jit", f"it cannot be traced. {str(error).splitlines()[0]}") from error
    except ContractError:
        raise
    except Exception as error:  # code of the environment may raise anything
        message = " ".join(str(error).split())
        raise ContractError("runs", f"{type(error).__name__}: {message}{_place(error)}") from error
    for what, first, second in [("state", start, after), ("observation", seen, seen_after)]:
        if _types(first) != _types(second):
            raise ContractError("types", f"a step turns the {what} {_types(first)} into {_types(second)}")
    if not _is_observation(seen):
        raise ContractError(
            "types", f"observe returns a {type(seen).__name__}, not an array or a dictionary of arrays"
        )
    if not isinstance(outcome, Outcome):
        raise ContractError("types", f"step returns a {type(outcome).__name__}, not an Outcome")
    results = {"reward": outcome.reward, "terminated": outcome.terminated, "truncated": outcome.truncated}
    wanted = {"reward": "float32[]", "terminated": "bool[]", "truncated": "bool[]", "legal": f"bool[{count}]"}
    for name, value in {**results, "legal": legal}.items():
        if _types(value) != wanted[name]:
            raise ContractError("types", f"{name} is {_types(value)}, not {wanted[name]}")
    return env


def _check_arguments(name: str, call: Callable[..., object], wanted: tuple[str, ...]) -> None:
    """A member takes its arguments by position, whatever it calls them."""
    try:
        signature = inspect.signature(call)
    except (TypeError, ValueError):  # some callables have none
        return
    try:
        signature.bind(*wanted)
    except TypeError as error:
        raise ContractError(
            "arguments", f"{name} takes {signature}, and is called as {name}({', '.join(wanted)}): {error}"
        ) from None


def _place(error: Exception) -> str:
    """The last line of code outside of this package and its dependencies that an error came through."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not any(folder in frame.filename for folder in NOT_USER_CODE)
    ]
    return f" ({os.path.basename(frames[-1].filename)}, line {frames[-1].lineno})" if frames else ""


def _check_finite(played: Rollout[State]) -> None:
    floats = [("reward", played.outcome.reward)]
    floats += [("observation", leaf) for leaf in jax.tree.leaves(played.observation)]
    for name, array in floats:
        values = np.asarray(array)
        if np.issubdtype(values.dtype, np.floating) and not np.isfinite(values).all():
            raise ContractError("finite", f"a {name} is NaN or infinite")


def _check_legal(env: Environment[State], played: Rollout[State]) -> None:
    """Some action is always legal. An illegal one has no positive reward, and is ignored or ends the episode."""
    legal = np.asarray(played.legal)
    if not legal.any(axis=-1).all():
        raise ContractError("legal", "a state has no legal action at all")
    tried = ~legal.all(axis=-1)
    if not tried.any() or is_on_host(env):
        return
    noise = np.random.default_rng(0).random(legal.shape)
    illegal = np.where(legal, -1.0, noise).argmax(axis=-1).astype(np.int32)

    @functools.partial(jax.jit, compiler_options=QUICK_TO_COMPILE)
    @jax.vmap
    @jax.vmap
    def step_and_observe(state: State, action: Int[Array, ""], key: Key) -> tuple[Outcome, PyTree]:
        after, outcome = env.step(state, action, key)
        return outcome, env.observe(after)

    outcome, seen = step_and_observe(played.state, illegal, played.key)
    if (np.asarray(outcome.reward)[tried] > 0).any():
        raise ContractError("legal", "an illegal action has a positive reward")
    changes = [
        (one != two).reshape(*tried.shape, -1).any(axis=-1)
        for _, one, two in _pairs(seen, played.observation)
    ]
    differs = np.any(changes, axis=0)
    if (differs & ~np.asarray(outcome.over))[tried].any():
        raise ContractError("legal", "an illegal action changed the observation and did not end the episode")


def _check_absorbing(played: Rollout[State]) -> None:
    """Transitions from a state that is over have reward 0, and keep the state and the flags."""
    over = np.asarray(played.outcome.over)
    late = np.zeros_like(over)
    late[:, 1:] = over[:, :-1]
    if (np.asarray(played.outcome.reward)[late] != 0).any():
        raise ContractError("absorb", "a step after the end of an episode has a reward other than 0")
    for name in ("terminated", "truncated"):
        flag = np.asarray(getattr(played.outcome, name))
        if (flag[:, 1:] != flag[:, :-1])[late[:, 1:]].any():
            raise ContractError("absorb", f"{name} changed after the end of an episode")
    for path, before, after in _pairs(played.state, played.after):
        if (before[late] != after[late]).any():
            raise ContractError("absorb", f"state{path} changed after the end of an episode")


def _check_repeatable(
    env: Environment[State], random: Randomness, played: Rollout[State], samples: int
) -> None:
    """The same arguments give the same result: each time, alone or in a batch, compiled or not."""
    start = jax.tree.map(lambda leaf: leaf[0, 0], played.state)
    _check_call("init", env.init, (random.init_keys[0],), start)
    over = np.asarray(played.outcome.over)
    ends = np.argwhere(over & (np.cumsum(over, axis=1) == 1))
    picks = np.random.default_rng(0).integers(0, over.shape, (samples, 2))
    for episode, time in [*ends[:1], *picks][:samples]:
        one = jax.tree.map(lambda leaf, i=(episode, time): leaf[i], played)
        _check_call("step", env.step, (one.state, one.action, one.key), (one.after, one.outcome))


def _check_call(
    name: str, call: Callable[..., Result], arguments: tuple[object, ...], in_batch: Result
) -> None:
    """Calls once, and only if that differs from the batch calls again to find which rule is broken."""
    with jax.disable_jit():
        plain = call(*arguments)
        if _equal(plain, in_batch):
            return
        again = call(*arguments)
    _must_equal("pure", f"{name} gave two results for the same arguments", plain, again)
    _must_equal("jit", f"{name} differs when compiled", plain, jax.jit(call)(*arguments))
    _must_equal("vmap", f"{name} differs in a batch", plain, in_batch)


def _paying(played: Rollout[State]) -> float:
    """The fraction of the steps, up to the end of each episode, whose reward is not 0."""
    over = np.asarray(played.outcome.over)
    before = np.cumsum(over, axis=1) - over == 0
    return float((np.asarray(played.outcome.reward)[before] != 0).mean())


def _scores(played: Rollout[State]) -> bool:
    return bool(((played.outcome.reward > 0) & ~played.outcome.over).any())


def _starts_are_random(played: Rollout[State]) -> bool:
    return any((leaf[:, 0] != leaf[:1, 0]).any() for leaf in _leaves(played.state))


def _differ(first: PyTree, second: PyTree) -> bool:
    return any((one != two).any() for _, one, two in _pairs(first, second))


def _must_equal(rule: str, what: str, first: PyTree, second: PyTree) -> None:
    for path, one, two in _pairs(first, second):
        if not _close(one, two):
            raise ContractError(rule, f"{what} (at {path or 'the only leaf'}: {one} and {two})")


def _equal(first: PyTree, second: PyTree) -> bool:
    return all(_close(one, two) for _, one, two in _pairs(first, second))


def _close(one: np.ndarray, two: np.ndarray) -> bool:
    if np.issubdtype(one.dtype, np.inexact):
        return np.allclose(one, two, TOLERANCE, TOLERANCE, equal_nan=True)
    return np.array_equal(one, two)


def _pairs(first: PyTree, second: PyTree) -> list[tuple[str, np.ndarray, np.ndarray]]:
    paths = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(first)]
    return list(zip(paths, _leaves(first), _leaves(second), strict=True))


def _leaves(tree: PyTree) -> list[np.ndarray]:
    """Leaves as numpy arrays, keys as their data."""
    return [np.asarray(_data(leaf)) for leaf in jax.tree.leaves(tree)]


def _data(leaf: object) -> object:
    if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return jax.random.key_data(leaf)
    return leaf


def _types(tree: PyTree) -> str:
    return str(jax.tree.map(lambda leaf: f"{leaf.dtype}{list(leaf.shape)}", tree))
