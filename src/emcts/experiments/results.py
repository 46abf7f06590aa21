"""Results as small files: tables in CSV, what made them in JSON, and a picture drawn from the tables alone."""

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from emcts.runs.files import write_atomically

MADE = "made.json"

Cell = str | float | int | None
Line = Mapping[str, Cell]
Table = Sequence[Line]
Tables = Mapping[str, Table]


@dataclass(frozen=True)
class Results:
    """Of one experiment, in a folder."""

    folder: Path

    def write(self, tables: Tables, made: Mapping[str, Any]) -> None:
        """Tables without a line are left out."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for name, table in tables.items():
            if table:
                write_atomically(self.folder / f"{name}.csv", _to_csv(table))
        write_atomically(self.folder / MADE, json.dumps(made, indent=2) + "\n")

    def read(self) -> dict[str, list[dict[str, Cell]]]:
        """Every table, with numbers as numbers and what was empty as None."""
        files = sorted(self.folder.glob("*.csv")) if self.folder.is_dir() else []
        if not files:
            raise ValueError(
                f"there are no results in {self.folder}: run the sweep first, without --from-results"
            )
        return {file.stem: _from_csv(file) for file in files}

    def made(self) -> dict[str, Any]:
        return json.loads((self.folder / MADE).read_text())


def number(cell: Cell) -> float:
    """A cell that holds a number; NaN where it is empty."""
    if isinstance(cell, str):
        raise ValueError(f"{cell!r} is no number")
    return math.nan if cell is None else float(cell)


def lines_of(table: Table, **wanted: Cell) -> list[Line]:
    """Those that have these values."""
    return [line for line in table if all(line[name] == value for name, value in wanted.items())]


def values(table: Table, name: str) -> list[Cell]:
    """Of a column, each once, in order of appearance."""
    return list(dict.fromkeys(line[name] for line in table))


def _to_csv(table: Table) -> str:
    text = io.StringIO()
    columns = list(dict.fromkeys(name for line in table for name in line))
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    for line in table:
        writer.writerow([_text(line.get(name)) for name in columns])
    return text.getvalue()


def _text(cell: Cell) -> str:
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return ""
    if isinstance(cell, float):
        return f"{cell:.0f}" if cell == round(cell, 0) and abs(cell) < 1e15 else f"{cell:.6g}"
    return str(cell)


def _from_csv(file: Path) -> list[dict[str, Cell]]:
    with file.open(newline="", encoding="utf-8") as stream:
        return [{name: _cell(text) for name, text in line.items()} for line in csv.DictReader(stream)]


def _cell(text: str) -> Cell:
    if text == "":
        return None
    try:
        return float(text)
    except ValueError:
        return text
