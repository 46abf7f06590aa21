"""Benchmarks of Bootstrapped DQN: its speed, and the comparison with bsuite's agent."""

import json
import sys
from pathlib import Path

import pytest
from benchmarks import bdqn_bsuite as comparison
from benchmarks import train as benchmark

from tests.agents.tiny import BDQN, CATALOGUE, settings


def test_its_speed_is_measured_without_the_parts_of_a_search(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    case = benchmark.Case("deep-sea", "default", 2, {**BDQN, "env.size": 5}, agent="bdqn")
    monkeypatch.setattr(benchmark, "SMOKE", (case,))
    benchmark.main(smoke=True, out=tmp_path / "train.json")
    (row,) = json.loads((tmp_path / "train.json").read_text())["cases"]
    assert row["steps_per_second"] == pytest.approx(2 / (row["iteration_ms"] / 1e3))
    assert not any(name.endswith("_share") for name in row)
    assert f"{row['iteration_ms']:,.1f}" in capsys.readouterr().out


def test_the_comparison_counts_episodes_until_deep_sea_is_solved() -> None:
    small = settings("deep-sea", "bdqn", {"env.size": 4})
    row = comparison.measure("emcts", small, seed=0, episodes=200)
    assert row.solved_step == 4 * row.episodes < 800
    assert row.first_reward_step is not None
    assert row.goals == row.episodes // 10 + 1, "it ends with the first above a tenth"
    assert row.first_reward_step % 4 == 0
    short = comparison.measure("emcts", small, seed=0, episodes=row.first_reward_step // 4 - 1)
    assert (short.first_reward_step, short.solved_step, short.goals) == (None, None, 0)


def test_the_error_without_bsuites_agent_names_its_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "haiku", None)
    with pytest.raises(ModuleNotFoundError, match="pip install bsuite dm-haiku rlax"):
        comparison.measure("bsuite", CATALOGUE.settings("deep-sea", "bdqn"), seed=0, episodes=1)
