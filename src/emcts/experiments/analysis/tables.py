"""Results as small files: tables in CSV, their provenance in JSON, and a figure drawn from the tables alone."""

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from emcts.runs.files import write_atomically
from emcts.runs.stored_json import read_json, to_json

PROVENANCE = "made.json"

Cell = str | float | int | None
TableRow = Mapping[str, Cell]
Table = Sequence[TableRow]
Tables = Mapping[str, Table]


@dataclass(frozen=True)
class Results:
    """The folder of one experiment's tables, provenance and figure."""

    folder: Path

    def write(self, tables: Tables, provenance: Mapping[str, object]) -> None:
        """Writes every table that has a row."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for name, table in tables.items():
            if table:
                write_atomically(self.folder / f"{name}.csv", _to_csv(table))
        write_atomically(self.folder / PROVENANCE, to_json(provenance, indent=2) + "\n")

    def read(self) -> Tables:
        """Returns every table, with numbers as floats and empty cells as None."""
        files = sorted(self.folder.glob("*.csv")) if self.folder.is_dir() else []
        if not files:
            raise ValueError(
                f"there are no results in {self.folder}: run the sweep first, without --from-results"
            )
        return {file.stem: _from_csv(file) for file in files}

    def provenance(self) -> dict[str, Any]:
        """Returns the command that made the tables, and the runs that they are of."""
        return read_json(self.folder / PROVENANCE, dict[str, object])


def stored_results() -> Path:
    """Returns the folder of the results that come with the package: inside it, or that of its checkout."""
    package = Path(str(resources.files("emcts")))
    inside = package / "results"
    return inside if inside.is_dir() else package.parents[1] / "results"


def table_of_text(text: str, name: str) -> Table:
    """Returns the table in the text of a CSV file, with numbers as floats and empty cells as None."""
    try:
        names, *rows = csv.reader(io.StringIO(text, newline=""), strict=True)
        return [{name: _cell(cell) for name, cell in zip(names, row, strict=True)} for row in rows if row]
    except (ValueError, csv.Error) as error:
        raise ValueError(f"{name} is not a table ({error}): it was changed or damaged") from None


def number(cell: Cell) -> float:
    """Returns the number in a cell; NaN if the cell is empty."""
    if isinstance(cell, str):
        raise ValueError(f"{cell!r} is not a number")
    return math.nan if cell is None else float(cell)


def column(table: Table, name: str) -> list[float]:
    """Returns the numbers of a column."""
    return [number(row[name]) for row in table]


def unique(table: Table, name: str) -> list[Cell]:
    """Returns the distinct values of a column, in order of appearance."""
    return list(dict.fromkeys(row[name] for row in table))


def where(table: Table, **wanted: Cell) -> list[TableRow]:
    """Returns the rows that have these values."""
    return [row for row in table if all(row[name] == value for name, value in wanted.items())]


def starting_with(table: Table, name: str, prefix: str) -> list[TableRow]:
    """Returns the rows whose text in a column starts with a prefix."""
    return [row for row in table if str(row[name]).startswith(prefix)]


def mean_of_known(table: Table, name: str) -> float | None:
    """Returns the mean of a column over the rows that have a value; None if no row has one."""
    known = [number(row[name]) for row in table if row.get(name) is not None]
    return float(np.mean(known)) if known else None


def _to_csv(table: Table) -> str:
    text = io.StringIO()
    columns = list(dict.fromkeys(name for row in table for name in row))
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    for row in table:
        writer.writerow([_text(row.get(name)) for name in columns])
    return text.getvalue()


def _text(cell: Cell) -> str:
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return ""
    if isinstance(cell, float):
        return f"{cell:.0f}" if cell == round(cell, 0) and abs(cell) < 1e15 else f"{cell:.6g}"
    return str(cell)


def _from_csv(file: Path) -> Table:
    try:
        text = file.read_text(encoding="utf-8")
    except ValueError as error:
        raise ValueError(f"{file} is not a table ({error}): it was changed or damaged") from None
    return table_of_text(text, str(file))


def _cell(text: str) -> Cell:
    if text == "":
        return None
    try:
        return float(text)
    except ValueError:
        return text
