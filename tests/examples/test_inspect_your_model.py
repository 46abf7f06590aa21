"""The notebook: its cells run one after the other, and the page shows the search that it made."""

import json
from pathlib import Path
from typing import Any

import pytest

from emcts.inspect.document import unpack

NOTEBOOK = Path(__file__).parents[2] / "examples" / "inspect_your_model.ipynb"


def test_the_notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    notebook = json.loads(NOTEBOOK.read_text())
    names: dict[str, Any] = {}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == []
            exec("".join(cell["source"]), names)
    (move,) = unpack((tmp_path / "corridor.html").read_text())["episodes"][0]["moves"]
    (shown,) = move["searches"]
    assert move["picture"]["text"] == "A......G"
    assert shown["root"]["labels"] == ["left", "right"]
    assert shown["root"]["visits"] == names["out"].search_tree.summary().visit_counts[0].tolist()
    assert len(shown["growth"]["ends"]) == shown["simulations"] == 60
    assert shown["root"]["visits"][1] > shown["root"]["visits"][0]
