"""Sweeps as TOML files, and lists of values as TOML writes them."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from emcts.experiments.sweeps.grid import Grid, Sweep, check_name, error_prefix
from emcts.registry import lookup
from emcts.runs.config import flat

RUN_KEYS: Mapping[str, type] = {
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
FILE_KEYS: Mapping[str, type] = {**RUN_KEYS, "runs": list}
SUFFIX = ".toml"


def read_sweep(file: Path) -> Sweep:
    """Reads a sweep. Each table of `runs` takes what it does not set from the top of the file.

    The sweep has the name of the file unless the key `name` sets another.
    """
    if not file.is_file():
        raise ValueError(f"there is no sweep file {file}")
    try:
        content = tomllib.loads(file.read_text())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{file} is not TOML: {error}") from None
    with error_prefix(str(file)):
        shared = _checked(content, FILE_KEYS)
        name = shared.pop("name", file.stem)
        check_name(name)
        if "runs" not in shared:
            return Sweep(name, (_grid(str(file), shared),))
        runs = shared.pop("runs")
        if not runs or not all(isinstance(run, dict) for run in runs):
            raise ValueError("runs: expected tables, each under [[runs]]")
    grids = []
    for number, run in enumerate(runs, 1):
        source = f"{file}, runs {number}"
        with error_prefix(source):
            grids.append(_grid(source, _merged(shared, _checked(run, RUN_KEYS))))
    return Sweep(name, tuple(grids))


def values_in(text: str) -> list[object]:
    """Returns the values of a list with commas between them: as TOML has it, or else words without quotes."""
    try:
        return tomllib.loads(f"values = [{text}]")["values"]
    except tomllib.TOMLDecodeError:
        return [part.strip() for part in text.split(",")]


def _checked(content: Mapping[str, Any], keys: Mapping[str, type]) -> dict[str, Any]:
    """Checks names and types, and flattens the tables of settings into dotted paths."""
    for key, value in content.items():
        wanted = lookup(keys, key, "key")
        if type(value) is not wanted:
            table = f"[[{key}]]" if wanted is list else f"[{key}]"
            expected = f"a table, under {table}" if wanted in (dict, list) else wanted.__name__
            raise ValueError(f"{key}: expected {expected}, got {value!r}")
    tables = {key: dict(flat(content[key])) for key in ("settings", "grid") if key in content}
    return {**content, **tables}


def _merged(shared: Mapping[str, Any], run: Mapping[str, Any]) -> dict[str, Any]:
    """Joins a run with the top of the file, less the settings that the run has a value or values for."""
    own = {*run.get("settings", {}), *run.get("grid", {})}
    tables = {
        table: {
            **{path: value for path, value in shared.get(table, {}).items() if path not in own},
            **run.get(table, {}),
        }
        for table in ("settings", "grid")
    }
    return {**shared, **run, **tables}


def _grid(source: str, content: Mapping[str, Any]) -> Grid:
    for needed in ("environment", "agent"):
        if needed not in content:
            raise ValueError(f'{needed} is missing: add {needed} = "..."')
    values = content.get("grid", {})
    for path, several in values.items():
        if not isinstance(several, list):
            raise ValueError(f"grid.{path}: expected a list of values, got {several!r}")
    rest = {key: value for key, value in content.items() if key != "grid"}
    return Grid(source=source, values=values, **rest)
