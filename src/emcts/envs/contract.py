"""The rules of the protocol, checked on any environment.

emcts.envs.check(env)     # raises ContractError, which names the rule that is broken
"""

import dataclasses
import functools
import inspect
import itertools
import os
import time
import traceback
import warnings
from collections.abc import Callable
from typing import TypeVar, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, PyTree

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
from emcts.envs.rollout import (
    BLOCK,
    QUICK_TO_COMPILE,
    Randomness,
    Rollout,
    compiled_rollout,
    draw,
    random_blocks,
)
from emcts.envs.wrappers import AutoReset, TimeLimit
from emcts.types import Key

SHORT_EPISODES, SHORT_STEPS = 8, 128  # of a check before a training
SHORT_BYTES = 2**27  # of its states and observations
MOST_BLOCKS, MOST_SECONDS = 64, 1.0  # in search of an episode that terminates
NOT_USER_CODE = ("site-packages", os.path.dirname(os.path.dirname(__file__)), os.path.dirname(os.__file__))
ARGUMENTS = {"init": ("key",), "step": ("state", "action", "key"), "observe": ("state",), "legal": ("state",)}
STEP_RETURNS = "(state, Outcome(reward, terminated, truncated))"
HINTS: dict[type[Exception], str] = {  # the first that an error is an instance of
    jax.errors.TracerArrayConversionError: "Use jax.numpy in place of numpy",
    jax.errors.TracerBoolConversionError: (
        "Use jnp.where or jax.lax.cond in place of if, and & | ~ in place of and, or, not"
    ),
    jax.errors.NonConcreteBooleanIndexError: "Use jnp.where in place of a boolean index",
    jax.errors.TracerIntegerConversionError: (
        "Index an array of jax.numpy, not a list, and loop with jax.lax.fori_loop"
    ),
    jax.errors.ConcretizationTypeError: (
        "Keep it an array, with jnp.int32(...) or astype in place of int() and float()"
    ),
}
TOLERANCE = 1e-5  # compiled and plain arithmetic may round differently

Result = TypeVar("Result")


class ContractError(ValueError):
    """An environment breaks `rule`."""

    def __init__(self, rule: str, what: str):
        super().__init__(f"the environment breaks the rule {rule!r}: {what}")
        self.rule = rule


@dataclasses.dataclass(frozen=True)
class Checked:
    """What a check did and saw. Rules about ends mean little if no episode ended.

    `steps` counts the steps of all episodes, also those after an end; `ended` and `terminated` count episodes.
    `random` is whether the start or a step depends on its key, `random_steps` whether a step does. `paying` is the
    fraction of the steps with a reward other than 0, ends of episodes included and what follows them not. `scores` is
    whether an episode had a positive reward and went on, as points in a game.
    """

    steps: int  # steps that were taken
    ended: int  # episodes that ended, for either reason
    random: bool  # whether results depend on the key
    random_steps: bool = False  # whether those of steps do, and not of starts alone
    paying: float = 0.0  # the fraction of the steps whose reward is not 0
    scores: bool = False  # whether some episode had a positive reward and went on
    terminated: int = 0  # episodes that the rules ended, not a limit


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


def _check(
    env: object,
    *,
    key: Key | None,
    episodes: int,
    steps: int,
    samples: int,
    resets: bool,
    limit: int | None = None,
) -> Checked:
    """A `limit` on the steps of an episode matters to what is reported alone."""
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
    if limit is not None:
        over = over | (np.arange(steps) >= limit - 1)
    terminated = np.asarray(played.outcome.terminated)
    seen = Checked(
        steps=episodes * steps,
        ended=int(over.sum() if resets else over[:, -1].sum()),
        random=True,
        random_steps=True,
        paying=_paying(played, over),
        scores=_scores(played, over),
        terminated=int(terminated.sum() if resets else terminated[:, -1].sum()),
    )
    if is_on_host(env):
        if isinstance(env, HostEnvironment):
            env.close()  # those simulators are not needed any more
        return seen
    _check_repeatable(env, random, played, samples)
    # The same starts and actions with the step keys of other episodes.
    again = run(random.replace(step_keys=jnp.roll(random.step_keys, 1, axis=0)))
    steps_random = _differ((played.after, played.outcome), (again.after, again.outcome))
    if steps_random and is_deterministic(env):
        raise ContractError("deterministic", "it says that it is, but a step depends on its key")
    depends = steps_random or _starts_are_random(played)
    return dataclasses.replace(seen, random=depends, random_steps=steps_random)


def check_shortly(env: object, max_steps: int) -> Checked:
    """Checks within seconds, before a training: a few episodes, with fewer steps where states are large.

    A time limit would hide what the environment itself does after an end, and may leave no time to reach one: it is
    taken off, and episodes go on for a second at most until one terminates.
    """
    env = check_types(env)
    state = jax.eval_shape(env.init, jax.random.key(0))
    shapes = jax.tree.leaves((state, state, jax.eval_shape(env.observe, state)))
    most = SHORT_BYTES // (SHORT_EPISODES * sum(leaf.size * leaf.dtype.itemsize for leaf in shapes))
    steps = max(2, min(max_steps + 1, SHORT_STEPS, most))
    limit = None
    while isinstance(env, TimeLimit):
        limit = env.steps if limit is None else min(limit, env.steps)
        env = env.env
    checked = _check(
        env, key=None, episodes=SHORT_EPISODES, steps=steps, samples=1, resets=False, limit=limit
    )
    if checked.terminated or is_on_host(env):
        return checked
    terminated, more = _check_termination(env, max(2, min(BLOCK, most)))
    return dataclasses.replace(checked, steps=checked.steps + more, terminated=terminated)


def _check_termination(env: Environment[State], block: int) -> tuple[int, int]:
    """Looks for an episode that terminates, and checks what follows. Returns how many did, and the steps taken."""
    began, steps = time.monotonic(), 0
    blocks = random_blocks(env, jax.random.key(0), episodes=SHORT_EPISODES, steps=block)
    for number, played in enumerate(itertools.islice(blocks, MOST_BLOCKS)):
        terminated = np.asarray(played.outcome.terminated)
        steps += terminated.size
        if terminated[:, :-1].any():
            _check_absorbing(played)
            return int(terminated.any(axis=1).sum()), steps
        if number == 0:
            began = time.monotonic()  # it was compiled
        if np.asarray(played.outcome.over)[:, -1].all() or time.monotonic() - began > MOST_SECONDS:
            break
    return 0, steps


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
    wrapped, env = env, _unwrapped(env)
    count, key = env.num_actions, jax.random.key(0)
    if not isinstance(count, int) or count < 1:
        raise ContractError("actions", f"num_actions is {count!r}, not a positive Python integer")
    for name, arguments in ARGUMENTS.items():
        _check_arguments(name, getattr(env, name), arguments)
    start = _traced("init", env.init, key)
    after, outcome = _traced("step", _step_to_a_pair(env), start, jax.ShapeDtypeStruct((), jnp.int32), key)
    seen, seen_after = _traced("observe", env.observe, start), _traced("observe", env.observe, after)
    legal = _traced("legal", env.legal, start)
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
    return wrapped


def _unwrapped(env: Environment[PyTree]) -> Environment[PyTree]:
    """The user's environment: what its members return is what a message is about."""
    while isinstance(env, TimeLimit | AutoReset):
        env = env.env
    return env


def _step_to_a_pair(env: Environment[PyTree]) -> Callable[..., tuple[PyTree, PyTree]]:
    def step(state: PyTree, action: Int[Array, ""], key: Key) -> tuple[PyTree, PyTree]:
        result: object = env.step(state, action, key)
        if not isinstance(result, tuple) or len(result) != 2:
            given = f"{len(result)} values" if isinstance(result, tuple) else f"a {type(result).__name__}"
            raise ContractError("types", f"step returned {given}, not {STEP_RETURNS}")
        return result

    return step


def _traced(member: str, call: Callable[..., Result], *arguments: object) -> Result:
    """The types of what a member returns. What it raises names the member and the line of the user's code."""
    try:
        return cast(Result, jax.eval_shape(call, *arguments))
    except ContractError:
        raise
    except (jax.errors.JAXTypeError, jax.errors.NonConcreteBooleanIndexError) as error:
        hint = next((f" {hint}." for kind, hint in HINTS.items() if isinstance(error, kind)), "")
        reason = str(error).splitlines()[0].rstrip(".")
        raise ContractError(
            "jit", f"it cannot be traced in {member}{_place(error)}. {reason}.{hint}"
        ) from error
    except Exception as error:  # code of the environment may raise anything
        message = " ".join(str(error).split())
        raise ContractError(
            "runs", f"{type(error).__name__}: {message} in {member}{_place(error)}"
        ) from error


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
    for episode, number in [*ends[:1], *picks][:samples]:
        one = jax.tree.map(lambda leaf, i=(episode, number): leaf[i], played)
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


def _paying(played: Rollout[State], over: Bool[np.ndarray, "E T"]) -> float:
    """The fraction of the steps, up to the end of each episode, whose reward is not 0."""
    before = np.cumsum(over, axis=1) - over == 0
    return float((np.asarray(played.outcome.reward)[before] != 0).mean())


def _scores(played: Rollout[State], over: Bool[np.ndarray, "E T"]) -> bool:
    return bool(((np.asarray(played.outcome.reward) > 0) & ~over).any())


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
