"""The rows of a sweep of one's own: agents, and all combinations of the values of some settings."""

import dataclasses
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, get_type_hints

from emcts.experiments.setting_values import fitted
from emcts.experiments.sweep import Row
from emcts.registry import lookup
from emcts.runs.config import TOTAL
from emcts.training.catalogue import Catalogue

DEFAULT_SEEDS = 4
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True)
class Spec:
    """An agent in an environment, with every combination of the values in `grid`.

    `where` is what errors begin with. `seeds_per_run` train side by side; as many as a row has by default if None.
    """

    where: str
    environment: str
    agent: str
    preset: str | None = None
    name: str | None = None
    seeds: int = DEFAULT_SEEDS
    steps: int | None = None
    seeds_per_run: int | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    grid: Mapping[str, Sequence[Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        with named(self.where):
            for name in ("seeds", "steps", "seeds_per_run"):
                if (given := getattr(self, name)) is not None and given < 1:
                    raise ValueError(f"{name}: expected at least 1, got {given}")
            if self.name is not None and not NAME.fullmatch(self.name):
                raise ValueError(
                    f"name: {self.name!r} is to be part of a folder's: take letters, digits, dots and dashes"
                )


@dataclass(frozen=True)
class Sweep:
    """What to run, under a name."""

    name: str
    specs: tuple[Spec, ...]


def rows_of(specs: Sequence[Spec], catalogue: Catalogue) -> list[Row]:
    """Checks all that is said before anything is run: names, types of values, and what the agents make of them."""
    rows: dict[str, Row] = {}
    for spec in specs:
        with named(spec.where):
            for row in _rows(spec, _prefix(spec, specs), catalogue):
                if row.name in rows:
                    raise ValueError(f"two runs are called {row.name!r}: give one of them another name")
                rows[row.name] = row
    return list(rows.values())


@contextmanager
def named(where: str) -> Iterator[None]:
    """Errors say where the value is that they complain of."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{where}: {error}" if where else str(error)) from None


def _prefix(spec: Spec, specs: Sequence[Spec]) -> str:
    """The name that was given, or the agent, with its environment and preset where there are several."""
    if spec.name is not None:
        return spec.name
    varied = [name for name in ("environment", "preset") if len({getattr(one, name) for one in specs}) > 1]
    return "-".join([spec.agent, *(str(getattr(spec, name) or "default") for name in varied)])


def _rows(spec: Spec, prefix: str, catalogue: Catalogue) -> Iterator[Row]:
    lookup(catalogue.environments, spec.environment, "environment")
    lookup(catalogue.agents(spec.environment), spec.agent, f"agent of {spec.environment}")
    presets = catalogue.presets(spec.environment, spec.agent)
    preset = presets[0] if spec.preset is None else spec.preset
    lookup(dict.fromkeys(presets), preset, f"preset of {spec.agent} in {spec.environment}")
    hints = _hints(catalogue.settings(spec.environment, spec.agent, spec.preset))
    settings = {name: _fit(value, name, "settings", hints) for name, value in spec.settings.items()}
    grid = {
        name: [_fit(value, name, "grid", hints) for value in values] for name, values in spec.grid.items()
    }
    if both := sorted(settings.keys() & grid.keys()):
        raise ValueError(f"{both[0]} is in settings and in grid: keep one of them")
    if empty := [name for name, values in grid.items() if not values]:
        raise ValueError(f"grid.{empty[0]}: give at least one value")
    if spec.steps is not None:
        settings[TOTAL] = spec.steps
    for values in itertools.product(*grid.values()):
        point = dict(zip(grid, values, strict=True))
        name = "-".join(
            [prefix, *(f"{key.replace('_', '-')}-{_slug(value)}" for key, value in point.items())]
        )
        row = Row(
            name, name, spec.environment, spec.agent, spec.seeds, preset, spec.preset, {**settings, **point}
        )
        with named(name):
            catalogue.trainer(spec.environment, spec.agent, row.settings(catalogue), (0,))
        size = spec.seeds_per_run
        yield row if size is None else dataclasses.replace(row, at_once={"cpu": size, "gpu": size})


def _hints(defaults: Any) -> dict[str, Any]:
    hints = get_type_hints(type(defaults))
    return {setting.name: hints[setting.name] for setting in dataclasses.fields(defaults)}


def _fit(value: Any, name: str, table: str, hints: Mapping[str, Any]) -> Any:
    with named(f"{table}.{name}"):
        if name == TOTAL:
            raise ValueError("say it as steps, which may grow later")
        return fitted(value, lookup(hints, name, "setting"))


def _slug(value: Any) -> str:
    """A value as part of a name."""
    if isinstance(value, tuple):
        return "x".join(_slug(one) for one in value) or "empty"
    if isinstance(value, float):
        short = f"{value:g}"
        return short if float(short) == value else repr(value)
    return re.sub(r"[^A-Za-z0-9.-]+", "-", str(value).lower())
