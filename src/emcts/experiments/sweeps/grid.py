"""The specs of a user's sweep: agents, and all combinations of the values of some settings."""

import dataclasses
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from emcts.experiments.setting_paths import STEPS
from emcts.experiments.setting_values import Types, full_path, parse_setting, setting_types, short_path
from emcts.experiments.sweeps.run_spec import RunSpec
from emcts.registry import lookup
from emcts.runs.config import MAX_SEEDS
from emcts.runs.folder import file_name
from emcts.training.catalogue import Catalogue

DEFAULT_SEEDS = 4
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


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
        if self.seeds > MAX_SEEDS:
            raise ValueError(f"seeds: expected at most {MAX_SEEDS:,}, got {self.seeds}")
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
    types = setting_types(catalogue.settings(grid.environment, grid.agent, grid.preset))
    settings = {
        full_path(path, types): _parsed(value, path, "settings", types)
        for path, value in grid.settings.items()
    }
    values = {
        full_path(path, types): [_parsed(value, path, "grid", types) for value in several]
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
        parts = (f"{slug(short_path(path))}-{_value_slug(value)}" for path, value in point.items())
        name = "-".join([prefix, *parts])
        spec = RunSpec(
            name, name, grid.environment, grid.agent, grid.seeds, preset, grid.preset, {**settings, **point}
        )
        with error_prefix(name):
            catalogue.trainer(grid.environment, grid.agent, spec.resolved(catalogue), (0,))
        size = grid.seeds_per_run
        yield spec if size is None else dataclasses.replace(spec, seeds_per_run={"cpu": size, "gpu": size})


def _parsed(value: object, path: str, table: str, types: Types) -> Any:
    with error_prefix(f"{table}.{path}"):
        if path == STEPS:
            raise ValueError("write it as the key steps, which may grow later")
        return parse_setting(path, value, types)


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
