"""Environments that are given as objects: the reference that stands for one in a run, and whether two are the same."""

import dataclasses
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from emcts.agents.catalogue import Registered
from emcts.agents.task import EnvOptions
from emcts.envs.base import missing_members
from emcts.envs.references import is_reference, is_untrusted
from emcts.envs.wrappers import AutoReset, TimeLimit
from emcts.types import JSON

MAIN = "__main__"  # the module of a class that a script or a notebook defines


@dataclass(frozen=True)
class NamedEnv:
    """A user's environment: its name in a run, its options if that is a reference, and the catalogue that has it."""

    environment: str
    options: EnvOptions
    catalogue: Registered


def name_env(env: object, time_limit: int | None = None) -> NamedEnv:
    """Names an environment that is given as an object, by a name or by a reference."""
    if isinstance(env, str):
        named = (env,) if is_reference(env) else ()
        return NamedEnv(env, EnvOptions(time_limit=time_limit), Registered(named))
    if isinstance(env, AutoReset):
        raise ValueError("auto_reset(env) resets in `step`, which training does itself: give env")
    inner: Any = env
    while isinstance(inner, TimeLimit):
        time_limit = inner.steps if time_limit is None else min(time_limit, inner.steps)
        inner = inner.env
    if missing := missing_members(inner):
        raise ValueError(
            f"{type(inner).__name__} has no {missing[0]}: give an environment (with num_actions, init, step, observe "
            "and legal), a name or a reference; for a Gymnasium environment from_gymnasium(lambda: ...)"
        )
    name = f"{type(inner).__module__}:{type(inner).__qualname__.replace('<locals>.', '')}"
    options = EnvOptions(_fields(inner, lambda field: getattr(inner, field.name)), time_limit)
    return NamedEnv(name, options, Registered(objects={name: inner}))


def catalogue_of_run(environment: str, stored: Mapping[str, Any], env: object) -> Registered:
    """Returns the catalogue for a run whose folder names the environment, with the options that it has stored.

    Code is run only if the user gave it too, as an object or by its reference. Another one is refused.
    """
    if env is None:
        if is_untrusted(environment):
            raise ValueError(
                f"{environment} is code, which is not run because a folder names it: if you trust it, give env=, "
                f"the object or {environment!r}"
            )
        return Registered()
    given = name_env(env)
    if not given.catalogue.objects:
        if given.environment != environment:
            raise ValueError(f"the run was trained on {environment}, got {given.environment}: give the same")
        return given.catalogue
    if not _is_same_class(environment, given.environment):
        raise ValueError(f"the run was trained on {environment}, got a {given.environment}: give the same")
    (inner,) = given.catalogue.objects.values()
    _refuse_other_options(EnvOptions(**stored), given.options, _fields(inner, lambda field: field.default))
    return Registered(objects={environment: inner})


def _refuse_other_options(stored: EnvOptions, given: EnvOptions, defaults: Mapping[str, JSON]) -> None:
    """A reference stores the arguments that were given, an object all of them, and a time limit may be left out."""
    before, after = ({**defaults, **one.arguments} for one in (stored, given))
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) != after.get(name):
            raise ValueError(
                f"the run was trained with {name}={before.get(name)!r}, got {after.get(name)!r}: give the same"
            )
    if given.time_limit not in (None, stored.time_limit):
        raise ValueError(
            f"the run was trained with time_limit={stored.time_limit}, got {given.time_limit}: give the same"
        )


def _is_same_class(stored: str, given: str) -> bool:
    """Whether two references are to one class, which has another module in the script that defines it."""
    (module, _, name), (other_module, _, other_name) = stored.partition(":"), given.partition(":")
    return name == other_name and (module == other_module or MAIN in (module, other_module))


def _fields(env: object, value_of: Callable[[dataclasses.Field[Any]], object]) -> dict[str, JSON]:
    """Values of a dataclass's fields, as far as JSON can store them: enough to tell two of one type apart."""
    found: dict[str, JSON] = {}
    for field in dataclasses.fields(env) if dataclasses.is_dataclass(env) else ():
        try:
            found[field.name] = json.loads(json.dumps(value_of(field)))
        except (TypeError, ValueError):
            continue
    return found
