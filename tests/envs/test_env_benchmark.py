import importlib
import importlib.util
import sys
from pathlib import Path

import pytest

from emcts.envs import DeepSea


@pytest.fixture
def bench(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2]))
    yield importlib.import_module("benchmarks.env")
    sys.modules.pop("benchmarks.env", None)


def test_rows_and_table(bench, monkeypatch, capsys):
    monkeypatch.setattr(bench, "environments", lambda: {"Deep Sea 4": (lambda: DeepSea(4), (1, 8))})
    (row,) = bench.rows(smoke=True)
    assert (row["what"], row["size"], row["bar"]) == ("Deep Sea 4", 1, None)
    assert 1 < row["per_second"] < 1e9
    bench.main(smoke=True)
    shown = capsys.readouterr().out
    assert "Deep Sea 4" in shown
    if importlib.util.find_spec("gymnasium"):
        assert "random actions" in shown


def test_every_environment_can_be_made(bench):
    for name, (make, batches) in bench.environments().items():
        assert make().num_actions >= 2, name
        assert batches[0] == 1
