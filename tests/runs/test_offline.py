"""Runs that learn from the replay of another run: what they read, what they refuse, and that they resume."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import emcts
from emcts.agents.catalogue import installed
from emcts.api import Run
from emcts.cli import main
from emcts.runs.checkpoints import Checkpoints
from emcts.runs.config import stored_settings
from emcts.runs.folder import Folder, status
from tests.agents import tiny

CATALOGUE = installed()
STEPS = 200
SHARED: Mapping[str, Any] = {
    **{name: value for name, value in tiny.DEEP_SEA.items() if name != "steps"},
    "search.simulations": 4,
    "replay.importance": (0.0, 0.0),  # the same however many steps a run is to have
}


def train(path: Path, agent: str = "e-az", **changes: Any) -> Run:
    changes = {name.replace("__", "."): value for name, value in changes.items()}
    seeds, steps, offline = (changes.pop(name, None) for name in ("seeds", "steps", "offline"))
    settings = dict(SHARED)
    if agent == "bdqn":
        settings = {name: value for name, value in tiny.BDQN.items() if name != "steps"} | {"env.size": 5}
    elif agent in tiny.LEARNED_AGENTS:
        settings = {
            **{name: value for name, value in tiny.LEARNED_DEEP_SEA.items() if name != "steps"},
            "search.simulations": 4,
        }
    return emcts.train(
        "deep-sea",
        agent,
        seeds=seeds or [3, 5],
        steps=steps or STEPS,
        out=path,
        offline=offline,
        settings={**settings, **changes},
        quiet=True,
    )


def state_of(path: Path) -> Any:
    folder = Folder.open(path)
    config = folder.config()
    trainer = CATALOGUE.trainer(
        config.environment, config.agent, stored_settings(config, CATALOGUE), config.seeds
    )
    restored = Checkpoints(folder.checkpoints).restore(jax.eval_shape(trainer.init))
    assert restored is not None
    return restored.state


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("offline") / "source"
    train(path)
    return path


@pytest.fixture(scope="module")
def offline(source: Path) -> Path:
    path = source.parent / "offline"
    train(path, offline=source, steps=300)
    return path


def test_counts_and_visits_are_those_of_the_run_that_acted(source: Path, offline: Path) -> None:
    acted, learned = state_of(source), state_of(offline)
    jax.tree.map(np.testing.assert_array_equal, acted.novelty, learned.novelty)
    np.testing.assert_array_equal(acted.log.visits, learned.log.visits)
    assert np.asarray(acted.log.visits).sum(axis=1).tolist() == [STEPS, STEPS]
    np.testing.assert_array_equal(acted.env_params, learned.env_params)


def test_the_metrics_say_that_nothing_was_played(offline: Path) -> None:
    lines = Run(offline).metrics()
    assert {line["env_steps"] for line in lines} >= {100, 200, 300}
    for line in lines:
        assert line["dataset_steps"] == STEPS
        assert line["episodes"] == 0
        assert "train_return" not in line or line["train_return"] is None
    found = status(Folder.open(offline))
    assert (found.state, found.env_steps) == ("finished", 300)
    assert Folder.open(offline).config().settings["offline_steps"] == STEPS


def test_what_was_learned_can_act_and_be_evaluated(offline: Path, capsys: pytest.CaptureFixture[str]) -> None:
    agent = emcts.load(offline, seed=5)
    state = agent.env.init(jax.random.key(0))
    assert int(agent.act(state, jax.random.key(1), beta=-1.0)) in (0, 1)
    main(["evaluate", str(offline), "--episodes", "2", "--beta", "-10"])
    assert "beta -10" in capsys.readouterr().out


def test_resumed_is_as_if_it_had_never_stopped(source: Path, offline: Path, tmp_path: Path) -> None:
    """A run has its data in its checkpoints: it does not read the other run again."""
    moved = tmp_path / "source"
    source.rename(moved)
    try:
        train(tmp_path / "short", offline=moved, steps=100)
        moved.rename(source)
        emcts.resume(tmp_path / "short", steps=300, quiet=True)
    finally:
        if moved.exists():
            moved.rename(source)
    whole, resumed = state_of(offline), state_of(tmp_path / "short")
    jax.tree.map(np.testing.assert_array_equal, _data(whole), _data(resumed))


def _data(state: Any) -> Any:
    return jax.tree.map(
        lambda leaf: (
            jax.random.key_data(leaf) if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf
        ),
        state,
    )


@pytest.mark.long
@pytest.mark.parametrize("agent", ["az", "mz", "e-mz"])
def test_any_agent_that_plans_learns_from_any_of_them(source: Path, agent: str, tmp_path: Path) -> None:
    train(tmp_path / "run", agent, offline=source, steps=100, offline_steps=77, schedule__num_envs=3)
    state = state_of(tmp_path / "run")
    assert (np.asarray(state.replay.priorities) > 0).sum(axis=(1, 2)).tolist() == [77, 77]
    assert np.asarray(state.log.visits).sum(axis=1).tolist() == [77, 77]
    train(tmp_path / "back", offline=tmp_path / "run", steps=100)
    assert np.asarray(state_of(tmp_path / "back").log.visits).sum(axis=1).tolist() == [77, 77]


@pytest.mark.long
def test_the_replay_of_bdqn_has_no_policies(tmp_path: Path) -> None:
    train(tmp_path / "bdqn", "bdqn", steps=150)
    with pytest.raises(ValueError, match=r"stores no policies.*give targets.fraction 1"):
        train(tmp_path / "refused", offline=tmp_path / "bdqn", targets__fraction=0.9)
    train(tmp_path / "run", offline=tmp_path / "bdqn", steps=100)
    acted, learned = state_of(tmp_path / "bdqn"), state_of(tmp_path / "run")
    np.testing.assert_array_equal(acted.log.visits, learned.log.visits)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"env__size": 6}, r"was trained with env.size 5, not 6: give the same"),
        ({"env__stochastic": True}, r"was trained with env.stochastic False, not True"),
        ({"seeds": [3, 4]}, r"has no seed 4, .* give some of 3, 5"),
        ({"offline_steps": 201}, r"offline_steps is 201, and the replay of .* has 200 transitions"),
        ({"replay__capacity": 150}, r"replay.capacity is 150, and there are 200 transitions"),
        ({"offline_steps": 0}, r"offline_steps is 0"),
    ],
)
def test_what_does_not_fit_is_refused(
    source: Path, tmp_path: Path, changes: Mapping[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        train(tmp_path / "run", offline=source, **changes)
    assert not (tmp_path / "run").exists()


def test_other_refusals(source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="is not a run"):
        train(tmp_path / "run", offline=tmp_path)
    with pytest.raises(ValueError, match="offline_steps is 10, without a run to learn from"):
        train(tmp_path / "run", offline_steps=10)
    with pytest.raises(ValueError, match="bdqn learns from no replay of another run"):
        train(tmp_path / "run", "bdqn", offline=source)
    for arguments in (
        ["train", "deep-sea", "--agent", "bdqn", "--offline", str(source)],
        ["train", "subleq", "--agent", "az", "--offline", str(source)],
    ):
        with pytest.raises(SystemExit) as stopped:
            main(arguments)
        assert stopped.value.code == 2
    printed = capsys.readouterr().err
    assert "bdqn learns from no replay" in printed
    assert "was trained on deep-sea, not on subleq" in printed


def test_a_damaged_replay_is_refused(source: Path, tmp_path: Path) -> None:
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(source, copy)
    for file in (copy / "checkpoints").rglob("*"):
        if file.is_file() and file.name != "manifest.json" and file.stat().st_size > 1000:
            content = bytearray(file.read_bytes())
            content[len(content) // 2] ^= 1
            file.write_bytes(bytes(content))
    with pytest.raises(ValueError, match="has no checkpoint that can be read"):
        train(tmp_path / "run", offline=copy)
