"""Values of settings that are named by dotted path: their types, and values as the command line parses them."""

import dataclasses
import io
import math
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from types import NoneType
from typing import Any, get_args, get_type_hints

import tyro

from emcts.experiments.setting_paths import ENV_ARGUMENTS
from emcts.registry import lookup

NONE = "none"  # the value None of a setting: TOML has no word for it
WORDS: Mapping[str, object] = {NONE: None, "None": None, "True": True, "False": False}  # of arguments

Types = Mapping[str, Any]


def setting_types(settings: Any, path: str = "") -> dict[str, Any]:
    """Returns the type of every setting by its dotted path."""
    hints = get_type_hints(type(settings))
    found: dict[str, Any] = {}
    for setting in dataclasses.fields(settings):
        value = getattr(settings, setting.name)
        if dataclasses.is_dataclass(value):
            found |= setting_types(value, f"{path}{setting.name}.")
        else:
            found[path + setting.name] = hints[setting.name]
    return found


def full_path(path: str, types: Types) -> str:
    """Returns `env.size` of a reference as `env.arguments.size`: its arguments are no settings of their own."""
    group, _, name = path.partition(".")
    if group == "env" and path not in types and ENV_ARGUMENTS in types and not path.startswith(ENV_ARGUMENTS):
        return f"{ENV_ARGUMENTS}.{name}"
    return path


def short_path(path: str) -> str:
    """Returns the path of an argument without its group: names of runs are long enough."""
    return f"env.{path.removeprefix(ENV_ARGUMENTS + '.')}" if path.startswith(f"{ENV_ARGUMENTS}.") else path


def parse_setting(path: str, value: object, types: Types) -> Any:
    """Returns the value of a setting in its type. Arguments of an environment are taken as they are."""
    if full_path(path, types).startswith(f"{ENV_ARGUMENTS}."):
        return WORDS.get(value, value) if isinstance(value, str) else value
    if group := [other for other in types if other.startswith(f"{path}.")]:
        raise ValueError(f"expected a single setting of this group, one of {', '.join(group)}")
    return _parse(value, lookup(types, path, "setting"))


def _parse(value: object, wanted: Any) -> Any:
    """Parses a value as the command line does for a setting of this type; a list is several words of it."""
    if value in (None, NONE) and NoneType in get_args(wanted):
        return None
    words = [str(part) for part in value] if isinstance(value, list | tuple) else [str(value)]
    try:
        with redirect_stderr(io.StringIO()), redirect_stdout(io.StringIO()):
            parsed = tyro.cli(wanted, args=words)
    except SystemExit:
        name = str(wanted).replace("typing.", "") if get_args(wanted) else wanted.__name__
        raise ValueError(f"expected {name}, got {value!r}") from None
    for number in parsed if isinstance(parsed, tuple) else (parsed,):
        if isinstance(number, float) and not math.isfinite(number):
            raise ValueError(f"expected a finite number, got {value!r}")
    return parsed
