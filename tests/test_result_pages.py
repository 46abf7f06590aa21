"""The numbers of README and of the result pages are those of the files in results/ and docs/results/."""

import csv
import re
from pathlib import Path

import numpy as np
import pytest
from benchmarks.pages import summary
from benchmarks.pages.page import MARKED, ROOT, pages, written
from benchmarks.pages.tables import TABLES

HELD_BY_OTHER_TESTS = {
    "worlds.md": "tests/benchmarks/test_worlds.py",
    "search-speed.md": "tests/benchmarks/test_speed_page.py",
}
PAGES = [page for page in pages() if page.name not in HELD_BY_OTHER_TESTS]
CONVENTIONS = {
    "1000",
    "99",
    "95",
    "90",
    "3.11",
    "2025",
}  # first seeds, intervals, the regret that counts, versions
NUMBER = re.compile(r"(?<![\w.^-])\d[\d,]*(?:\.\d+)?(?!\w)")


def _name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def _numbers(text: str) -> set[str]:
    return {match.rstrip(",") for match in NUMBER.findall(text)}


def _prose(text: str) -> str:
    """Returns a page without code, tables, headings, targets of links and sizes of grids."""
    for pattern in (r"```.*?```", r"^\|.*$", r"^#.*$", r"<!--.*?-->"):
        text = re.sub(
            pattern, "", text, flags=re.DOTALL if "`" in pattern or "!" in pattern else re.MULTILINE
        )
    for pattern in (r"`[^`]*`", r"\]\([^)]*\)", r"\b\d+ x\s+\d+\b", r"^\d\. ", r"[Ff]igures?\s\d( and \d)?"):
        text = re.sub(pattern, "", text, flags=re.MULTILINE)
    return text


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_tables_are_those_of_the_files(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert written(text, TABLES) == text, "`python -m benchmarks.pages` writes them anew"


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_every_table_with_numbers_is_made_from_files(page: Path) -> None:
    others = re.sub(r"```.*?```", "", MARKED.sub("", page.read_text(encoding="utf-8")), flags=re.DOTALL)
    rows = re.findall(r"^\|.*$", others, re.MULTILINE)
    assert not [row for row in rows if re.search(r"\d", re.sub(r"`[^`]*`", "", row))]


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_numbers_of_the_prose_are_those_of_the_tables(page: Path) -> None:
    """A page repeats numbers of its own tables, and no others. Below 10 they count things that it names."""
    text = page.read_text(encoding="utf-8")
    tables = _numbers("".join(match["text"] for match in MARKED.finditer(text)))
    prose = {number for number in _numbers(_prose(text)) if not re.fullmatch(r"\d", number)}
    assert prose <= tables | CONVENTIONS


def test_every_table_is_shown_once() -> None:
    names = [match["name"] for page in PAGES for match in MARKED.finditer(page.read_text(encoding="utf-8"))]
    assert sorted(names) == sorted(TABLES)


def test_a_changed_number_is_noticed() -> None:
    page = (ROOT / "docs" / "results" / "table-1.md").read_text(encoding="utf-8")
    assert "8,403 ± 1,416" in page
    changed = page.replace("8,403 ± 1,416", "8,304 ± 1,416")
    assert written(changed, TABLES) == page != changed


def test_a_table_that_is_not_known_is_refused() -> None:
    with pytest.raises(ValueError, match="no table 'figure-9'"):
        written("<!-- table: figure-9 -->\n\n", TABLES)


@pytest.mark.parametrize(
    ("folder", "event"), [("table-1", "first_goal_step"), ("figure-2-left", "regret_step")]
)
def test_means_are_those_of_the_seeds(folder: str, event: str) -> None:
    """Computed here from the seeds, without the tables that the pages are made from."""
    page = (ROOT / "docs" / "results" / f"{folder}.md").read_text(encoding="utf-8")
    with (ROOT / "results" / folder / "seeds.csv").open(newline="") as stream:
        seeds = list(csv.DictReader(stream))
    runs = [name for name in dict.fromkeys(row["row"] for row in seeds) if name.startswith("deep-sea")]
    assert len(runs) >= 10
    for run in runs:
        steps = [float(row[event]) for row in seeds if row["row"] == run and row[event]]
        if len(steps) > 1 and not run.endswith("counts"):
            assert re.search(rf"\| {np.mean(steps):,.0f}( ± {np.std(steps, ddof=1):,.0f})? \|", page), run


def test_verdicts_are_of_four_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    assert {summary.verdict(name) for name in summary.FIGURES} <= set(summary.VERDICTS)
    monkeypatch.setattr(summary, "VERDICTS", ("holds",))
    with pytest.raises(ValueError, match=r"table-1\.md has the verdicts \['holds for learned models'\]"):
        summary.verdict("table-1")
