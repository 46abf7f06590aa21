"""Runs in the tests of experiments do not draw their figures, which take longer than their training."""

import pytest


@pytest.fixture(autouse=True)
def no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("emcts.runs.logging.run_writer.draw_run", lambda folder, out: out)
