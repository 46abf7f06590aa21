"""JSON of a run's folder: what is written is valid JSON, and what is read has the types that it should have.

A file may be damaged, edited, or of someone else. Whatever is wrong with it is a ValueError of one line that names the
file and the reason.
"""

import functools
import json
import math
import types
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar, Union, get_args, get_origin, get_type_hints, is_typeddict

from emcts.runs.files import append, write_atomically
from emcts.types import JSON

LineT = TypeVar("LineT", bound=Mapping[str, Any])

MAX_BYTES = 2**26  # of a file that is one value
MAX_LINE_BYTES = 2**24
MAX_LINES_BYTES = 2**32  # of a file of lines
MAX_DEPTH = 32
MAX_INTEGER = 2**63
SHOWN = 40  # characters of a wrong value
NAMES = {int: "an integer", float: "a number", str: "a text", bool: "true or false", type(None): "null"}


def to_json(value: object, indent: int | None = None) -> str:
    """Returns a value as JSON, which has no numbers that are not finite: they become null."""
    return json.dumps(_finite(value), indent=indent, allow_nan=False)


def from_json(text: bytes | str) -> Any:
    """Parses JSON. Numbers that are not finite or huge, and deep nesting, are refused."""
    try:
        value = json.loads(text, parse_constant=_refuse, parse_int=_integer, parse_float=_float)
        if _is_deep(value):
            raise RecursionError
    except RecursionError:
        raise ValueError(f"is nested more than {MAX_DEPTH} levels deep") from None
    except json.JSONDecodeError:
        raise ValueError("is not JSON") from None
    except UnicodeDecodeError:
        raise ValueError("is not text in UTF-8") from None
    return value


def read_json(file: Path, wanted: Any, max_bytes: int = MAX_BYTES) -> Any:
    """Reads a file of one value, and checks its type: that of a TypedDict, or of its parts."""
    try:
        value = from_json(read_bounded(file, max_bytes))
        check(value, wanted)
    except ValueError as error:
        raise ValueError(f"{file} {error}: it was changed or damaged") from None
    return value


def read_bounded(file: Path, max_bytes: int) -> bytes:
    """Reads a regular file of at most so many bytes."""
    if not file.is_file():  # a pipe or a device would block, or never end
        raise ValueError("is not a file" if file.exists() else "does not exist")
    with file.open("rb") as stream:
        content = stream.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise ValueError(f"is larger than {max_bytes / 2**20:,.0f} MiB")
    return content


def check(value: object, wanted: Any, what: str = "") -> None:
    """Raises an error that names the part of a JSON value that is not of the wanted type."""
    origin, arguments = get_origin(wanted), get_args(wanted)
    if is_typeddict(wanted):
        _check_record(value, wanted, what)
    elif origin in (Union, types.UnionType):
        if not any(_is(value, one) for one in arguments):
            _refuse_value(value, wanted, what)
    elif origin is Literal:
        if value not in arguments:
            _refuse_value(value, wanted, what)
    elif isinstance(origin, type) and issubclass(origin, Mapping):
        _expect(isinstance(value, dict), value, "an object", what)
        for name, part in value.items():  # type: ignore[attr-defined]
            check(part, arguments[1], _inside(what, name))
    elif isinstance(origin, type) and issubclass(origin, Sequence):
        _check_list(value, origin, arguments, what)
    elif (wanted is None or isinstance(wanted, type)) and not _is(value, wanted):
        _refuse_value(value, wanted, what)


@dataclass(frozen=True)
class JsonLines(Generic[LineT]):
    """A file of one JSON object per line, each of the type `kind` and with its `env_steps`.

    A last line without a line feed was cut short by a crash, and is ignored.
    """

    file: Path
    kind: Any

    def append(self, lines: Iterable[LineT]) -> None:
        """Adds lines, and waits until they are on the disk."""
        text = "".join(json.dumps(line, allow_nan=False) + "\n" for line in lines)
        if text:
            append(self.file, text)

    def read(self) -> list[LineT]:
        if not self.file.exists():
            return []
        try:
            complete = read_bounded(self.file, MAX_LINES_BYTES).rpartition(b"\n")[0]
        except ValueError as error:
            raise ValueError(f"{self.file} {error}") from None
        return self.parse(complete)

    def truncate(self, env_steps: int) -> list[LineT]:
        """Removes the lines after a step, which a resumed run writes again, and returns the others."""
        kept = [line for line in self.read() if line["env_steps"] <= env_steps]
        if self.file.exists() or self.file.is_symlink():
            write_atomically(self.file, "".join(to_json(line) + "\n" for line in kept))
        return kept

    def parse(self, complete: bytes) -> list[LineT]:
        """Returns whole lines as objects."""
        return [self._parse(number, line) for number, line in enumerate(complete.split(b"\n"), 1) if line]

    def _parse(self, number: int, line: bytes) -> LineT:
        try:
            if len(line) > MAX_LINE_BYTES:
                raise ValueError(f"is longer than {MAX_LINE_BYTES / 2**20:,.0f} MiB")
            value = from_json(line)
            check(value, self.kind)
            for name in ("seed", "env_steps"):
                check(value.get(name), int, name)
        except ValueError as error:
            raise ValueError(
                f"{self.file}, line {number} {error}: the file was changed or damaged; remove that line"
            ) from None
        return value


def _check_record(value: object, wanted: Any, what: str) -> None:
    if not isinstance(value, dict):
        _refuse_value(value, dict[str, Any], what)
        return
    for name, kind in _hints(wanted).items():
        if name in value:
            check(value[name], kind, _inside(what, name))
        elif name in wanted.__required_keys__:
            raise ValueError(f"lacks {_inside(what, name)}")


@functools.cache
def _hints(wanted: Any) -> Mapping[str, Any]:
    return get_type_hints(wanted)


def _check_list(value: object, origin: type, arguments: tuple[Any, ...], what: str) -> None:
    if not isinstance(value, list):
        _expect(False, value, "a list", what)
        return
    kinds = [arguments[0]] * len(value) if origin is not tuple or arguments[-1] is ... else list(arguments)
    _expect(len(kinds) == len(value), value, f"a list of {len(kinds)}", what)
    for number, (part, kind) in enumerate(zip(value, kinds, strict=True)):
        check(part, kind, f"{what}[{number}]")


def _is(value: object, wanted: Any) -> bool:
    """Whether a JSON value is of a type. An integer is a number too; true and false are neither."""
    if wanted in (None, type(None)):
        return value is None
    if wanted is object or wanted is Any:
        return True
    if isinstance(value, bool) or wanted is bool:
        return isinstance(value, bool) and wanted is bool
    if wanted is float:
        return isinstance(value, int | float)
    if wanted in (int, str):
        return isinstance(value, wanted)
    try:
        check(value, wanted)
    except ValueError:
        return False
    return True


def _expect(fits: bool, value: object, kind: str, what: str) -> None:
    if not fits:
        given = ascii(value)
        given = given if len(given) <= SHOWN else f"{given[:SHOWN]}..."
        raise ValueError(f"has {given} where {what or 'the whole'} should be {kind}")


def _refuse_value(value: object, wanted: Any, what: str) -> None:
    parts = get_args(wanted) if get_origin(wanted) in (Union, types.UnionType) else (wanted,)
    kinds = [
        NAMES.get(part, "a list" if get_origin(part) in (list, tuple) else "an object") for part in parts
    ]
    _expect(False, value, " or ".join(dict.fromkeys(kinds)), what)


def _inside(what: str, name: str) -> str:
    shown = name if name.isidentifier() and len(name) <= SHOWN else ascii(name)[:SHOWN]
    return f"{what}.{shown}" if what else shown


def _is_deep(value: object) -> bool:
    """Returns whether a value is nested deeper than allowed, without recursion."""
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        level = [part for one in level for part in _parts(one)]
        if not level:
            return False
    return True


def _parts(value: object) -> Iterable[object]:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [part for part in parts if isinstance(part, dict | list)]


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {name: _finite(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    return value


def _integer(text: str) -> int:
    number = int(text) if len(text) <= 20 else MAX_INTEGER
    if abs(number) >= MAX_INTEGER:
        raise ValueError(f"has an integer of more than 64 bits, {text[:SHOWN]}")
    return number


def _float(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"has a number that is too large, {text[:SHOWN]}")
    return number


def _refuse(text: str) -> JSON:
    raise ValueError(f"has {text}, which is not JSON")
