"""The specs of a user's sweep: agents, and all combinations of the values of some settings."""

import dataclasses
import io
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from types import NoneType
from typing import Any, get_args, get_type_hints

import tyro

from emcts.experiments.setting_paths import ENV_ARGUMENTS, STEPS
from emcts.experiments.sweeps.run_spec import RunSpec
from emcts.registry import lookup
from emcts.runs.folder import file_name
from emcts.training.catalogue import Catalogue

DEFAULT_SEEDS = 4
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
NONE = "none"  # the value None of a setting: TOML has no word for it
WORDS: Mapping[str, object] = {NONE: None, "None": None, "True": True, "False": False}  # of arguments


@dataclass(frozen=True)
class Grid:
    """An agent in an environment, with every combination of the values in `values`.

    Settings are named by dotted path. Errors begin with `source`. `seeds_per_run` None takes the default of a spec.
    """

    source: str
    environment: str
    agent: str
    preset: str | None = None
    name: str | None = None
    seeds: int = DEFAULT_SEEDS
    steps: int | None = None
    seeds_per_run: int | None = None
    settings: Mapping[str, object] = field(default_factory=dict)
    values: Mapping[str, Sequence[object]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("seeds", "steps", "seeds_per_run"):
            if (given := getattr(self, name)) is not None and given < 1:
                raise ValueError(f"{name}: expected at least 1, got {given}")
        if self.name is not None:
            check_name(self.name)


@dataclass(frozen=True)
class Sweep:
    """Several grids under a name."""

    name: str
    grids: tuple[Grid, ...]


def run_specs(grids: Sequence[Grid], catalogue: Catalogue) -> list[RunSpec]:
    """Returns the specs of all grids. Names, types of values, and what agents refuse raise an error here."""
    specs: dict[str, RunSpec] = {}
    for grid in grids:
        with error_prefix(grid.source):
            for spec in _specs(grid, _prefix(grid, grids), catalogue):
                if spec.name in specs:
                    raise ValueError(f"two runs are called {spec.name!r}: give one of them another name")
                specs[spec.name] = spec
    return list(specs.values())


def check_name(name: str) -> None:
    """Refuses a name that cannot be part of a folder's name."""
    if not NAME.fullmatch(name):
        raise ValueError(
            f"name: {name!r} becomes part of a folder's name: use letters, digits, dots and dashes"
        )


@contextmanager
def error_prefix(source: str) -> Iterator[None]:
    """Prefixes errors with the place that the wrong value comes from."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{source}: {error}" if source else str(error)) from None


def _prefix(grid: Grid, grids: Sequence[Grid]) -> str:
    """Returns the given name, or the agent, with its environment and preset where there are several."""
    if grid.name is not None:
        return grid.name
    varied = [name for name in ("environment", "preset") if len({getattr(one, name) for one in grids}) > 1]
    return "-".join([grid.agent, *(file_name(getattr(grid, name) or "default") for name in varied)])


def _specs(grid: Grid, prefix: str, catalogue: Catalogue) -> Iterator[RunSpec]:
    lookup(catalogue.agents(grid.environment), grid.agent, f"agent of {grid.environment}")
    presets = catalogue.presets(grid.environment, grid.agent)
    preset = presets[0] if grid.preset is None else grid.preset
    lookup(dict.fromkeys(presets), preset, f"preset of {grid.agent} in {grid.environment}")
    hints = _hints(catalogue.settings(grid.environment, grid.agent, grid.preset))
    settings = {
        _full_path(path, hints): _parsed(value, path, "settings", hints)
        for path, value in grid.settings.items()
    }
    values = {
        _full_path(path, hints): [_parsed(value, path, "grid", hints) for value in several]
        for path, several in grid.values.items()
    }
    if both := sorted(settings.keys() & values.keys()):
        raise ValueError(f"{both[0]} is in settings and in grid: keep one of them")
    if empty := [path for path, several in values.items() if not several]:
        raise ValueError(f"grid.{empty[0]}: give at least one value")
    if grid.steps is not None:
        settings[STEPS] = grid.steps
    for combination in itertools.product(*values.values()):
        point = dict(zip(values, combination, strict=True))
        parts = (f"{slug(_short_path(path))}-{_value_slug(value)}" for path, value in point.items())
        name = "-".join([prefix, *parts])
        spec = RunSpec(
            name, name, grid.environment, grid.agent, grid.seeds, preset, grid.preset, {**settings, **point}
        )
        with error_prefix(name):
            catalogue.trainer(grid.environment, grid.agent, spec.resolved(catalogue), (0,))
        size = grid.seeds_per_run
        yield spec if size is None else dataclasses.replace(spec, seeds_per_run={"cpu": size, "gpu": size})


def _hints(settings: Any, path: str = "") -> dict[str, Any]:
    """Returns the type of every setting by its dotted path."""
    hints = get_type_hints(type(settings))
    found: dict[str, Any] = {}
    for setting in dataclasses.fields(settings):
        value = getattr(settings, setting.name)
        if dataclasses.is_dataclass(value):
            found |= _hints(value, f"{path}{setting.name}.")
        else:
            found[path + setting.name] = hints[setting.name]
    return found


def _full_path(path: str, hints: Mapping[str, Any]) -> str:
    """Returns `env.size` of a reference as `env.arguments.size`: its arguments are no settings of their own."""
    group, _, name = path.partition(".")
    if group == "env" and path not in hints and ENV_ARGUMENTS in hints and not path.startswith(ENV_ARGUMENTS):
        return f"{ENV_ARGUMENTS}.{name}"
    return path


def _short_path(path: str) -> str:
    """Returns the path of an argument without the group: names of runs are long enough."""
    return f"env.{path.removeprefix(ENV_ARGUMENTS + '.')}" if path.startswith(f"{ENV_ARGUMENTS}.") else path


def _parsed(value: object, path: str, table: str, hints: Mapping[str, Any]) -> Any:
    if _full_path(path, hints).startswith(f"{ENV_ARGUMENTS}."):
        return WORDS.get(value, value) if isinstance(value, str) else value
    with error_prefix(f"{table}.{path}"):
        if path == STEPS:
            raise ValueError("write it as the key steps, which may grow later")
        if group := [other for other in hints if other.startswith(f"{path}.")]:
            raise ValueError(f"expected a single setting of this group, one of {', '.join(group)}")
        return _parse(value, lookup(hints, path, "setting"))


def _parse(value: object, hint: Any) -> Any:
    """Parses a value as the command line does for a setting of this type; a list is several words of it."""
    if value == NONE and NoneType in get_args(hint):
        return None
    words = [str(part) for part in value] if isinstance(value, list | tuple) else [str(value)]
    try:
        with redirect_stderr(io.StringIO()), redirect_stdout(io.StringIO()):
            return tyro.cli(hint, args=words)
    except SystemExit:
        name = str(hint).replace("typing.", "") if get_args(hint) else hint.__name__
        raise ValueError(f"expected {name}, got {value!r}") from None


def slug(path: str) -> str:
    """Returns the path of a setting as part of a name."""
    return re.sub(r"[_.]", "-", path)


def _value_slug(value: object) -> str:
    if isinstance(value, tuple):
        return "x".join(_value_slug(one) for one in value) or "empty"
    if isinstance(value, float):
        short = f"{value:g}"
        return short if float(short) == value else repr(value)
    return re.sub(r"[^A-Za-z0-9.-]+", "-", str(value).lower())
