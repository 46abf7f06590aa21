"""The Python of guides that are complete programs: it runs, with calls that train checked by their signatures."""

import inspect
import re
from pathlib import Path
from typing import Any
from unittest.mock import create_autospec

import pytest

import emcts
from examples import lights

GUIDES = Path(__file__).parents[1] / "docs" / "guides"
COMPLETE = ("gymnasium", "images", "uncertainty-from-networks")


def _program(guide: str) -> str:
    return "\n".join(re.findall(r"```python\n(.*?)```", (GUIDES / f"{guide}.md").read_text(), re.DOTALL))


@pytest.mark.parametrize("guide", COMPLETE)
def test_the_program_runs(
    guide: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("train", "load"):
        monkeypatch.setattr(emcts, name, create_autospec(getattr(emcts, name)))
    names: dict[str, Any] = {}
    exec(_program(guide), names)
    if guide == "gymnasium":
        assert inspect.getsource(lights.Lights) in _program(guide)
        assert "ended=8" in capsys.readouterr().out
    if guide == "uncertainty-from-networks":
        assert (names["variance"] > 0).all()
        assert (names["out"].search_tree.summary().qvalues_std > 0).any(axis=1).all()
    if guide == "images":
        assert emcts.train.call_args.kwargs["encoder"] is names["encoder"]  # type: ignore[attr-defined]
