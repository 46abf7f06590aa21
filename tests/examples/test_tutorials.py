"""The tutorials: notebooks without outputs, whose cells run one after the other. `make docs` executes them too."""

import json
import re
import time
from pathlib import Path
from typing import Any

import jax
import matplotlib
import pytest

FOLDER = Path(__file__).parents[2] / "docs" / "tutorials"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
MOST_SECONDS = 120


def _name(path: Path) -> str:
    return path.stem


@pytest.mark.parametrize("path", NOTEBOOKS, ids=_name)
def test_outputs_are_not_stored(path: Path) -> None:
    notebook = json.loads(path.read_text())
    assert notebook["cells"][0]["source"][0].startswith("# ")
    assert {tuple(cell["outputs"]) for cell in notebook["cells"] if cell["cell_type"] == "code"} == {()}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=_name)
def test_links_lead_somewhere(path: Path) -> None:
    notebook = json.loads(path.read_text())
    text = "".join(
        line for cell in notebook["cells"] if cell["cell_type"] == "markdown" for line in cell["source"]
    )
    for target in re.findall(r"\]\(([^)#\s]+)", text):
        assert "://" in target or (FOLDER / target).exists(), f"{path.name} links to {target}"


@pytest.mark.long
@pytest.mark.parametrize("path", NOTEBOOKS, ids=_name)
def test_cells_run(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    matplotlib.use("Agg")
    started = time.monotonic()
    names: dict[str, Any] = {"__name__": "__main__"}
    cells = [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]
    with jax.numpy_rank_promotion("allow"):  # other libraries promote ranks
        for cell in cells:
            exec("".join(cell["source"]), names)
    assert time.monotonic() - started < MOST_SECONDS
