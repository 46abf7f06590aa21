"""Tables in Markdown pages: a comment `<!-- table: NAME -->` stands before each one that is made from files."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
MARKED = re.compile(r"^<!-- table: (?P<name>[\w-]+) -->\n\n(?P<text>(?:\|.*\n)*)\n*", re.MULTILINE)
NUMBER = re.compile(r"^(none|never|[-+<]? ?[\d.,%]+( (±|to|of) ([\d.,]+|never))?)$")


@dataclass(frozen=True)
class TextTable:
    """A table of a page: texts alone, as they are shown."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]

    def markdown(self) -> str:
        for row in self.rows:
            if len(row) != len(self.header):
                raise ValueError(f"{row} has {len(row)} cells, and the header {len(self.header)}")
        lines = [self.header, [self._alignment(place) for place in range(len(self.header))], *self.rows]
        return "".join(_line(cells) for cells in lines)

    def _alignment(self, place: int) -> str:
        cells = [row[place] for row in self.rows if row[place]]
        return "---:" if place and cells and all(map(NUMBER.match, cells)) else "---"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |\n"


Makers = Mapping[str, Callable[[], TextTable]]


def written(text: str, makers: Makers) -> str:
    """Returns a page with its marked tables made anew."""

    def table(match: re.Match[str]) -> str:
        name = match["name"]
        if name not in makers:
            raise ValueError(f"there is no table {name!r}: name one of {', '.join(sorted(makers))}")
        return f"<!-- table: {name} -->\n\n{makers[name]().markdown()}\n"

    return MARKED.sub(table, text)


def pages() -> list[Path]:
    """Returns the pages whose tables are made from files."""
    return [ROOT / "README.md", *sorted((ROOT / "docs" / "results").rglob("*.md"))]
