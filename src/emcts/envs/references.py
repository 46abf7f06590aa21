"""References: text that names an environment, such as `gymnasium:CartPole-v1` or `rooms:FourRooms`.

    made = make(parse_reference("gymnax:MountainCar-v0"), {"max_steps_in_episode": 500})

A library's name and an id make an environment of that library. Any other name before the colon is a Python module, and
what follows it a class or function in it, called with the arguments.
"""

import contextlib
import difflib
import importlib
import inspect
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from emcts.envs.adapters.gymnasium import from_gymnasium
from emcts.envs.adapters.gymnax import from_gymnax
from emcts.envs.adapters.pgx import from_pgx
from emcts.envs.adapters.xminigrid import from_xminigrid
from emcts.envs.base import AnyEnvironment, SimulatorError, missing_members
from emcts.envs.wrappers import time_limit as limit_time
from emcts.types import JSON

Arguments = Mapping[str, JSON]
SIMULATOR_MEMBERS = ("action_space", "observation_space", "reset", "step")  # of Gymnasium's environments
LIBRARY_ERRORS = (TypeError, ValueError, AttributeError, KeyError)
IMPORTING_ID = "GymV2"  # in ids of Gymnasium whose arguments name what to import


@dataclass(frozen=True)
class Reference:
    """`library:id`, or `module:name` if `library` is None."""

    text: str
    library: str | None
    name: str

    @property
    def module(self) -> str:
        """The module that is imported to make the environment."""
        return self.text.partition(":")[0] if self.library is None else self.library

    @property
    def is_trusted(self) -> bool:
        """Whether making it runs code of the named library alone, whoever wrote the reference."""
        if self.library == "gymnasium":
            return ":" not in self.name and IMPORTING_ID not in self.name
        return self.library is not None


@dataclass(frozen=True)
class Made:
    """An environment, and what its library knows of it: the longest episode, and a return that counts as solved."""

    env: AnyEnvironment
    max_steps: int | None = None
    solved_return: float | None = None


def is_reference(text: str) -> bool:
    """Whether a name is a reference: names of built-in environments have no colon."""
    return ":" in text


def is_untrusted(text: str) -> bool:
    """Whether a name is a reference to code, which is run only if the user names it too."""
    return is_reference(text) and not parse_reference(text).is_trusted


def parse_reference(text: str) -> Reference:
    """Parses `library:id` and `module:name`."""
    head, colon, name = text.partition(":")
    if not colon or not head or not name:
        raise ValueError(
            f"{text!r} is no reference: write LIBRARY:ID ({', '.join(LIBRARIES)}) or MODULE:NAME"
        )
    if head in LIBRARIES:
        return Reference(text, head, name)
    if not all(part.isidentifier() for part in [*head.split("."), *name.split(".")]):
        near = difflib.get_close_matches(head, LIBRARIES, n=1)
        hint = f"did you mean {near[0]}:{name}? " if near else ""
        raise ValueError(
            f"{text!r} is no reference: {hint}Write LIBRARY:ID ({', '.join(LIBRARIES)}) or MODULE:NAME"
        )
    return Reference(text, None, name)


def suggest_reference(name: str) -> str:
    """Returns how other environments are named than by this name, which none has: by references."""
    module = name.removesuffix(".py")
    is_module = module.isidentifier() and Path(f"{module}.py").is_file()
    own = f"{module}:NAME is what {module}.py defines" if is_module else "your own: MODULE:NAME"
    has_version = re.fullmatch(r"[\w/-]+-v\d+", name) is not None
    return f"{own}; Gymnasium: gymnasium:{name if has_version else 'CartPole-v1'}"


def parse_arguments(assignments: Iterable[str]) -> dict[str, JSON]:
    """Parses `key=value` texts. A value is JSON, or Python's True, False and None; anything else is text."""
    arguments: dict[str, JSON] = {}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not equals or not name.isidentifier():
            raise ValueError(
                f"{assignment!r} is no argument of an environment: write NAME=VALUE, such as size=12"
            )
        if name in arguments:
            raise ValueError(f"the argument {name} is given twice: give it once")
        arguments[name] = parse_value(value)
    return arguments


def parse_value(text: str) -> JSON:
    """Parses one value as `parse_arguments` does."""
    words: dict[str, JSON] = {"True": True, "False": False, "None": None}
    if text in words:
        return words[text]
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except ValueError:
        return text


def make(reference: Reference, arguments: Arguments, time_limit: int | None = None) -> Made:
    """Makes the environment, whose episodes are truncated after `time_limit` steps if it is given.

    Whatever is wrong with the reference or its arguments is a `ValueError` of one line.
    """
    if time_limit is not None and time_limit < 1:
        raise ValueError(f"a time limit of {time_limit} steps allows no step: give at least 1")
    if reference.library == "gymnasium" and time_limit is not None:
        if "max_episode_steps" in arguments:
            raise ValueError("a time limit and max_episode_steps exclude each other: give one of them")
        return _make(reference, {**arguments, "max_episode_steps": time_limit})
    return limited(_make(reference, arguments), time_limit)


def limited(made: Made, time_limit: int | None) -> Made:
    """The environment with a time limit, unless its episodes are as short by themselves."""
    if time_limit is None or (made.max_steps is not None and made.max_steps <= time_limit):
        return made
    return replace(made, env=limit_time(made.env, time_limit), max_steps=time_limit)


def _make(reference: Reference, arguments: Arguments) -> Made:
    if reference.library is None:
        return _make_from_module(reference, arguments)
    try:
        return LIBRARIES[reference.library](reference, arguments)
    except ModuleNotFoundError as error:
        raise ValueError(
            f"{reference.text} needs {error.name}, which is not installed: "
            f'pip install "emcts[{reference.library}]"'
        ) from error


def _gymnasium(reference: Reference, arguments: Arguments) -> Made:
    gymnasium: Any = importlib.import_module("gymnasium")
    with _explained(reference, arguments, (*LIBRARY_ERRORS, gymnasium.error.Error)):
        example = gymnasium.make(reference.name, **arguments)
        example.close()
        env = from_gymnasium(lambda: gymnasium.make(reference.name, **arguments))
    return Made(env, example.spec.max_episode_steps, example.spec.reward_threshold)


def _gymnax(reference: Reference, arguments: Arguments) -> Made:
    """Arguments are those of the constructor, or fields of the parameters."""
    gymnax: Any = importlib.import_module("gymnax")
    _check_id(reference, gymnax.registered_envs)
    with _explained(reference, arguments):
        _, defaults = gymnax.make(reference.name)
        overridden = {name: value for name, value in arguments.items() if hasattr(defaults, name)}
        rest = {name: value for name, value in arguments.items() if name not in overridden}
        inner, params = gymnax.make(reference.name, **rest)
        env = from_gymnax(inner, params.replace(**overridden))
    return of_object(env, reference.text)


def _pgx(reference: Reference, arguments: Arguments) -> Made:
    pgx: Any = importlib.import_module("pgx")
    _check_id(reference, pgx.available_envs())
    with _explained(reference, arguments):
        env = from_pgx(pgx.make(reference.name, **arguments))
    return Made(env, env.max_steps)


def _xminigrid(reference: Reference, arguments: Arguments) -> Made:
    """Arguments are fields of the parameters, and `view`."""
    xminigrid: Any = importlib.import_module("xminigrid")
    _check_id(reference, xminigrid.registered_environments())
    params_of = {name: value for name, value in arguments.items() if name != "view"}
    with _explained(reference, arguments):
        inner, params = xminigrid.make(reference.name, **params_of)
        env = from_xminigrid(inner, params, view=str(arguments.get("view", "full")))
    return Made(env, env.max_steps)


LIBRARIES: dict[str, Callable[[Reference, Arguments], Made]] = {
    "gymnasium": _gymnasium,
    "gymnax": _gymnax,
    "pgx": _pgx,
    "xminigrid": _xminigrid,
}


def _make_from_module(reference: Reference, arguments: Arguments) -> Made:
    found: Any = _import(reference)
    for part in reference.name.split("."):
        if not hasattr(found, part):
            names = [name for name in dir(found) if not name.startswith("_")]
            near = difflib.get_close_matches(part, names, n=1)
            hint = f": did you mean {near[0]}?" if near else ""
            raise ValueError(f"{reference.text}: {reference.module} has no {part}{hint}")
        found = getattr(found, part)
    if not callable(found):
        raise ValueError(
            f"{reference.text} is a {type(found).__name__}: name a class or a function that makes an environment"
        )
    _check_signature(reference, found, arguments)
    with _explained(reference, arguments, (Exception,)):
        made = found(**arguments)
        if all(hasattr(made, member) for member in SIMULATOR_MEMBERS):
            return _simulator(lambda: found(**arguments), made)
    return of_object(made, reference.text)


def of_object(env: Any, what: str) -> Made:
    """An environment with what its own optional members say. An object that is no environment is an error."""
    if missing := missing_members(env):
        raise ValueError(
            f"{what} makes a {type(env).__name__}, which has no {missing[0]}: an environment has num_actions, init, "
            "step, observe and legal"
        )
    return Made(env, getattr(env, "max_steps", None), getattr(env, "reward_threshold", None))


def _simulator(build: Callable[[], Any], made: Any) -> Made:
    """A user's Gymnasium environment, which has a specification only if it was registered."""
    spec = getattr(made, "spec", None)
    return Made(
        from_gymnasium(build),
        getattr(spec, "max_episode_steps", None),
        getattr(spec, "reward_threshold", None),
    )


def _import(reference: Reference) -> ModuleType:
    """Imports the module. The current directory is searched first, as with `python -m`."""
    here = os.getcwd()
    if here not in sys.path and "" not in sys.path:
        sys.path.insert(0, here)
    module = reference.module
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and (module == error.name or module.startswith(f"{error.name}.")):
            near = difflib.get_close_matches(module, LIBRARIES, n=1)
            hint = f"did you mean {near[0]}:{reference.name}? " if near else ""
            raise ValueError(
                f"{reference.text}: there is no module {error.name}: {hint}Run the command in its folder, or install it"
            ) from error
        raise ValueError(f"{reference.text}: importing {module} failed: {_line(error)}") from error
    except Exception as error:  # a user's module may raise anything
        raise ValueError(
            f"{reference.text}: importing {module} failed: {type(error).__name__}: {_line(error)}"
        ) from error


def _check_id(reference: Reference, known: Iterable[str]) -> None:
    known = list(known)
    if reference.name in known:
        return
    near = difflib.get_close_matches(reference.name, known, n=3)
    hint = f"did you mean {' or '.join(near)}?" if near else f"it has {', '.join(known[:5])} and others"
    raise ValueError(f"{reference.library} has no environment {reference.name!r}: {hint}")


def _check_signature(reference: Reference, called: Callable[..., Any], arguments: Arguments) -> None:
    try:
        signature = inspect.signature(called)
    except (TypeError, ValueError):
        return  # some classes written in C have none
    try:
        signature.bind(**arguments)
    except TypeError as error:
        takes = ", ".join(signature.parameters) or "none"
        raise ValueError(f"{reference.text}: {_line(error)}. Its arguments are: {takes}") from error


@contextlib.contextmanager
def _explained(
    reference: Reference, arguments: Arguments, errors: tuple[type[Exception], ...] = LIBRARY_ERRORS
) -> Iterator[None]:
    """Turns the errors of a library, or of a user's code, into one line that begins with the reference."""
    try:
        yield
    except ModuleNotFoundError:
        raise
    except errors as error:
        given = "".join(f" {name}={value}" for name, value in arguments.items())
        kind = "" if isinstance(error, ValueError | SimulatorError) else f"{type(error).__name__}: "
        raise ValueError(f"{reference.text}{given}: {kind}{_line(error)}") from error


def _line(error: BaseException) -> str:
    """The message of an error in one line."""
    return " ".join(str(error).split())


def _refuse_constant(name: str) -> JSON:
    raise ValueError(f"{name} is no JSON")
