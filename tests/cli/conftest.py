"""Commands on toys, in a folder of their own."""

from pathlib import Path

import pytest

from emcts.experiments.paper import EXPERIMENTS
from tests.experiments import toy_figure
from tests.runs.toy import ToyCatalogue


@pytest.fixture
def toys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Gives commands an empty folder, the toy catalogue and a toy figure, and draws no figures of runs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("emcts.agents.catalogue.installed", ToyCatalogue)
    monkeypatch.setattr("emcts.runs.logging.run_writer.draw_run", lambda folder, out: out)
    monkeypatch.setitem(EXPERIMENTS, "toy", toy_figure.EXPERIMENT)
