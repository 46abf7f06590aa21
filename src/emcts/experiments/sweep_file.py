"""Sweeps as TOML files."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from emcts.experiments.grid import NAME, Spec, Sweep, named
from emcts.experiments.setting_values import fitted
from emcts.registry import lookup

OF_A_RUN: Mapping[str, Any] = {
    "name": str,
    "environment": str,
    "agent": str,
    "preset": str,
    "seeds": int,
    "steps": int,
    "seeds_per_run": int,
    "settings": dict,
    "grid": dict,
}
OF_A_FILE = {**OF_A_RUN, "runs": list}
SUFFIX = ".toml"


def read_sweep(file: Path) -> Sweep:
    """Each table of `runs` has what the file says at its top, unless it says otherwise itself.

    The sweep has the name of the file, unless that says another.
    """
    if not file.is_file():
        raise ValueError(f"there is no sweep file {file}")
    try:
        said = tomllib.loads(file.read_text())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{file} is not TOML: {error}") from None
    with named(str(file)):
        _check(said, OF_A_FILE)
        name = said.pop("name", file.stem)
        if not NAME.fullmatch(name):
            raise ValueError(
                f"name: {name!r} is to be part of a folder's: take letters, digits, dots and dashes"
            )
        if "runs" not in said:
            return Sweep(name, (_spec(str(file), said),))
        runs = said.pop("runs")
        if not runs or not all(isinstance(run, dict) for run in runs):
            raise ValueError("runs: expected tables, each under [[runs]]")
    specs = []
    for number, run in enumerate(runs, 1):
        where = f"{file}, runs {number}"
        with named(where):
            _check(run, OF_A_RUN)
        specs.append(_spec(where, _merged(said, run)))
    return Sweep(name, tuple(specs))


def _merged(shared: Mapping[str, Any], run: Mapping[str, Any]) -> dict[str, Any]:
    """A setting that a run has a value or values of its own for is not taken from the top."""
    own = {*run.get("settings", {}), *run.get("grid", {})}
    tables = {
        table: {
            **{name: value for name, value in shared.get(table, {}).items() if name not in own},
            **run.get(table, {}),
        }
        for table in ("settings", "grid")
    }
    return {**shared, **run, **tables}


def _spec(where: str, said: Mapping[str, Any]) -> Spec:
    with named(where):
        for needed in ("environment", "agent"):
            if needed not in said:
                raise ValueError(f'{needed} is missing: add {needed} = "..."')
        for name, values in said.get("grid", {}).items():
            if not isinstance(values, list):
                raise ValueError(f"grid.{name}: expected a list of values, got {values!r}")
    return Spec(where=where, **said)


def _check(said: Mapping[str, Any], types: Mapping[str, Any]) -> None:
    for key, value in said.items():
        wanted = lookup(types, key, "key")
        with named(key):
            if wanted in (dict, list):
                if not isinstance(value, wanted):
                    header = f"[[{key}]]" if wanted is list else f"[{key}]"
                    raise ValueError(f"expected a table, under {header}, got {value!r}")
            else:
                fitted(value, wanted)
