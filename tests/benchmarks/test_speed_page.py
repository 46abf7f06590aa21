"""The page on the speed of a search: every number in its tables is that of a file of measurements."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

RESULTS = Path(__file__).parents[2] / "docs" / "results"
PAGE = (RESULTS / "search-speed.md").read_text()
CASES = {"Two CPU cores": "search-cpu", "One H200": "search-h200", "The cost of uncertainty": "search-h200"}
COLUMNS = {
    "ratio": "ratio",
    "mctx ms": "mctx_ms",
    "emcts ms": "emcts_ms",
    "model ms": "model_ms",
    "mctx / model": "mctx_over_model",
    "emcts / model": "over_model",
    "same tree": "epistemic_over_plain_same_tree",
    "beta 1": "epistemic_over_plain_beta_1",
    "mctx MiB": "mctx_tree_mib",
    "emcts MiB": "emcts_tree_mib",
}


def _measured(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text())
    return found


def _table(section: str) -> tuple[list[str], list[list[str]]]:
    """Returns the columns and the rows of a section's table."""
    text = PAGE.split(f"## {section}\n")[1].split("\n## ")[0]
    lines = [line for line in text.splitlines() if line.startswith("|")]
    head, _, *rows = [[cell.strip(" *") for cell in line.strip("|").split("|")] for line in lines]
    return head, rows


def _is(cell: str, number: float) -> bool:
    """Whether a cell is the number, rounded to the cell's digits."""
    digits = len(cell.partition(".")[2])
    return abs(float(cell) - number) <= 0.5000001 * 10**-digits


@pytest.mark.parametrize("section", CASES)
def test_cases(section: str) -> None:
    cases = _measured(CASES[section])["cases"]
    head, rows = _table(section)
    assert len(rows) == len(cases)
    for (_, *cells), case in zip(rows, cases, strict=True):
        aims = [case["bar"], case.get("limit")]
        for column, cell in zip(head[1:], cells, strict=True):
            wanted = aims.pop(0) if column == "aim" else case[COLUMNS[column]]
            assert cell == "" if wanted is None else _is(cell, wanted), (case["case"], column)


def test_names_of_cases() -> None:
    for section, file in CASES.items():
        named = [row[0] for row in _table(section)[1]]
        suffix = {"tiny": "", "mlp": ", MLP"}
        assert named == [case["case"] + suffix[case["model"]] for case in _measured(file)["cases"]]


def test_trees_that_differ() -> None:
    differing = []
    for file in ("search-cpu", "search-h200"):
        measured = _measured(file)
        for case in measured["cases"] + measured["growth"]:
            assert case["kernels_agree_with_plain"] == 1
            if case["agree_with_mctx"] < 1:
                differing.append((case["case"], case["agree_with_mctx"]))
    one = 1 - 1 / 4096
    assert sorted(differing) == [("Gumbel 4096, 16, 128", one), ("PUCT 4096, 16, 128", one)]


def test_growth() -> None:
    both = [_measured(file)["growth"] for file in ("search-cpu", "search-h200")]
    for row, *cases in zip(_table("Growth with simulations and with batch")[1], *both, strict=True):
        wanted = [case[key] for case in cases for key in ("mctx_ms", "emcts_ms", "ratio")]
        assert all(_is(*pair) for pair in zip(row[1:], wanted, strict=True)), row
        assert {case["case"] for case in cases} == {row[0]}


def test_a_cold_start() -> None:
    searches = _measured("compile-time-cpu")["searches"]
    for name, *stages, ratio in _table("A cold start")[1]:
        rule, library = name.split(", ")
        spent = searches[f"{rule} {library}"]["cpu"]
        stage_names = ("imports", "tracing", "compiling", "running", "all")
        assert all(_is(cell, spent[stage]) for cell, stage in zip(stages, stage_names, strict=True)), name
        if ratio:
            assert _is(ratio, spent["all"] / searches[f"{rule} mctx"]["cpu"]["all"])


def test_commits_are_those_of_the_files() -> None:
    commits = re.findall(r"commit (\w+),\s\[file\]\(([\w-]+)\.json\)", PAGE)
    assert len(commits) == 3
    for commit, file in commits:
        assert _measured(file)["commit"] == commit
