"""Values for settings as a file or a command line gives them, turned into what the settings declare."""

import tomllib
import types
from typing import Any, Union, get_args, get_origin

NOTHING = "none"  # for settings that may be absent: TOML has no word for it


def fitted(value: Any, hint: Any) -> Any:
    """The value, if it is of the type, with whole numbers as floats and lists as tuples where those are declared."""
    if get_origin(hint) in (Union, types.UnionType):
        return _fitted_to_one(value, hint)
    if get_origin(hint) is tuple and isinstance(value, list | tuple):
        return _fitted_tuple(value, hint)
    if hint is type(None) and value == NOTHING:
        return None
    if hint is float and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if hint in (int, bool, str) and type(value) is hint:
        return value
    raise ValueError(f"expected {described(hint)}, got {value!r}")


def described(hint: Any) -> str:
    """A type in words."""
    if get_origin(hint) in (Union, types.UnionType):
        return " or ".join(described(one) for one in get_args(hint))
    if get_origin(hint) is tuple:
        each = get_args(hint)
        if each[-1] is Ellipsis:
            return f"a list, each item {described(each[0])}"
        return f"a list of {len(each)}: {', '.join(described(one) for one in each)}"
    words = {float: "a number", int: "a whole number", bool: "true or false", str: "a text"}
    return {**words, type(None): f'"{NOTHING}"'}.get(hint, "nothing: it cannot be set in a sweep")


def values_in(text: str) -> list[Any]:
    """Those of a list with commas between them, as TOML has it, but without quotes around words."""
    try:
        return tomllib.loads(f"values = [{text}]")["values"]
    except tomllib.TOMLDecodeError:
        return [_word(part.strip()) for part in text.split(",")]


def _word(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _fitted_to_one(value: Any, hint: Any) -> Any:
    for one in get_args(hint):
        try:
            return fitted(value, one)
        except ValueError:
            continue
    raise ValueError(f"expected {described(hint)}, got {value!r}")


def _fitted_tuple(values: Any, hint: Any) -> tuple[Any, ...]:
    each = get_args(hint)
    if each[-1] is Ellipsis:
        each = each[:1] * len(values)
    if len(values) != len(each):
        raise ValueError(f"expected {described(hint)}, got {list(values)!r}")
    return tuple(fitted(value, one) for value, one in zip(values, each, strict=True))
