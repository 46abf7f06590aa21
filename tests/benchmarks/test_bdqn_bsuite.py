"""The comparison of Bootstrapped DQN with bsuite's agent."""

import sys
from pathlib import Path

import pytest
from benchmarks.bdqn_bsuite import Settings, deep_sea_settings, main, measure

from emcts.runs.config import override


@pytest.fixture
def settings() -> Settings:
    changes = {"replay.capacity": 2000, "schedule.warmup_steps": 40}
    return override(deep_sea_settings(4, batch_size=32, ensemble_size=5), changes)


def test_episodes_count_until_it_is_solved(settings: Settings) -> None:
    result = measure("emcts", settings, seed=0, episodes=200)
    assert result.solved_step == 4 * result.episodes < 800
    assert result.first_reward_step is not None
    assert result.successes == result.episodes // 10 + 1, "it ends with the first above a tenth"
    assert result.first_reward_step % 4 == 0
    short = measure("emcts", settings, seed=0, episodes=result.first_reward_step // 4 - 1)
    assert (short.first_reward_step, short.solved_step, short.successes) == (None, None, 0)


def test_missing_packages_of_bsuites_agent_are_named(
    monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    monkeypatch.setitem(sys.modules, "haiku", None)
    with pytest.raises(ModuleNotFoundError, match="pip install bsuite dm-haiku rlax"):
        measure("bsuite", settings, seed=0, episodes=1)


def test_unknown_agents_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="give bsuite or emcts"):
        main("dqn", out=tmp_path / "bdqn.csv")
