"""Commands on environments that a reference names: from training to a sweep, and what is refused."""

import dataclasses
import json
import pickle
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from emcts.agents.catalogue import _registered, installed
from emcts.agents.task import EnvOptions
from emcts.cli import main
from emcts.cli.sweep import _loader
from emcts.runs.folder import Folder, find_runs
from tests.agents.tiny import BDQN, options

MODULE = """
import jax
import jax.numpy as jnp
from examples.own_environment import KeyCorridor

print("imported my_rooms")

class Broken(KeyCorridor):
    def step(self, state, action, key):
        return super().step(state.positon, action, key)

class Greedy(KeyCorridor):
    def legal(self, state):
        return jnp.zeros(3, bool)

class GymnasiumStep(KeyCorridor):
    def step(self, state, action, key):
        after, outcome = super().step(state, action, key)
        return after, outcome.reward, outcome.terminated, outcome.truncated, {}

class ResetsItself(KeyCorridor):
    def step(self, state, action, key):
        after, outcome = super().step(state, action, key)
        return jax.tree.map(lambda new, old: jnp.where(outcome.over, new, old), self.init(key), after), outcome
"""
SMALL = options(
    {**BDQN, "steps": 64, "evaluation.every": 32, "schedule.warmup_steps": 16, "replay.batch_size": 8}
)
CORRIDOR = "my_rooms:KeyCorridor"


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A folder with a module, which no other test sees."""
    (tmp_path / "my_rooms.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    _registered.cache_clear()
    yield
    sys.modules.pop("my_rooms", None)


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    printed = capsys.readouterr().err
    assert printed.count("\n") == 1
    return printed


def test_an_unknown_environment_is_told_of_references(capsys: pytest.CaptureFixture[str]) -> None:
    unknown = refused(capsys, "train", "taxi", "--agent", "e-az")
    assert unknown.endswith("; your own: MODULE:NAME; Gymnasium: gymnasium:CartPole-v1\n")
    versioned = refused(capsys, "train", "ALE/Pong-v5", "--agent", "e-az")
    assert versioned.endswith("; your own: MODULE:NAME; Gymnasium: gymnasium:ALE/Pong-v5\n")
    for command in (["train", "my_rooms"], ["train", "my_rooms.py"], ["sweep", "my_rooms"]):
        here = refused(capsys, *command, "--agent", "e-az")
        assert "; my_rooms:NAME is what my_rooms.py defines; Gymnasium: " in here


def test_a_run_from_its_plan_to_its_figure(capsys: pytest.CaptureFixture[str]) -> None:
    train = [
        "train",
        CORRIDOR,
        "--env",
        "length=5",
        "--time-limit",
        "9",
        "--agent",
        "bdqn",
        "--seeds",
        "2",
        *SMALL,
    ]
    main([*train, "--plan"])
    planned = " ".join(capsys.readouterr().out.split())
    assert "bdqn on my_rooms:KeyCorridor" in planned
    assert "64 of each of 2 seeds" in planned
    assert "steps a second" in planned
    assert not Path("runs").exists()
    main(train)
    run = "runs/my_rooms-KeyCorridor-bdqn-1"
    config = json.loads((Path(run) / "config.json").read_text())
    assert config["environment"] == CORRIDOR
    assert config["settings"]["env"] == {"arguments": {"length": 5}, "time_limit": 9, "deterministic": True}
    assert config["settings"]["evaluation"]["max_steps"] == 9
    assert Path(run, "figure.png").exists()

    sys.modules.pop("my_rooms")
    capsys.readouterr()
    again = refused(capsys, *train, "--out", run)
    assert f"continue it with `emcts resume {run} --env-from {CORRIDOR}`, or choose another --out" in again
    sys.modules.pop("my_rooms")
    for command in (["resume", run, "--steps", "128"], ["evaluate", run], ["inspect", run]):
        assert (
            f"is code, which is not run because a folder names it: if you trust it, add --env-from {CORRIDOR}"
            in (refused(capsys, *command))
        )
        assert "my_rooms" not in sys.modules
        assert f"the run was trained on {CORRIDOR}, got --env-from my_rooms:Greedy" in (
            refused(capsys, *command, "--env-from", "my_rooms:Greedy")
        )
    changed = refused(capsys, "resume", run, "--env", "length=6", "--env-from", CORRIDOR)
    assert "setting env.arguments.length is 5 in this run, got 6" in changed
    main(["resume", run, "--steps", "128", "--env-from", CORRIDOR])
    assert "resumes from step 64\n" in capsys.readouterr().out
    assert Folder.open(Path(run)).metrics.read()[-1]["env_steps"] == 128
    main(["evaluate", run, "--episodes", "2", "--env-from", CORRIDOR])
    evaluation = json.loads((Path(run) / "evaluation.json").read_text())
    assert max(evaluation["seeds"][0]["length"]) <= 9
    sys.modules.pop("my_rooms")
    capsys.readouterr()
    main(["runs"])
    main(["plot", run])
    assert CORRIDOR in capsys.readouterr().out
    assert "my_rooms" not in sys.modules


def test_a_sweep_over_an_argument(capsys: pytest.CaptureFixture[str]) -> None:
    main(
        [
            *["sweep", CORRIDOR, "--agent", "bdqn", "--time-limit", "9", "--grid", "env.length=5,7"],
            *["--seeds", "1", "--steps", "64", "--plan"],
        ]
    )
    assert "bdqn-env-length-7" in capsys.readouterr().out
    file = f"""
environment = "{CORRIDOR}"
agent = "bdqn"
seeds = 1
steps = 64
[settings]
env = {{time_limit = 9}}
evaluation = {{every = 32, episodes = 1}}
ensemble = {{size = 2, hidden = [8]}}
schedule = {{warmup_steps = 16}}
replay = {{batch_size = 8}}
[grid]
"env.arguments.length" = [5, 7]
"""
    Path("mine.toml").write_text(file)
    main(["sweep", "mine.toml"])
    runs = {
        folder.path.name: folder.config().settings["env"] for folder in find_runs(Path("runs/sweep-mine"))
    }
    assert runs == {
        f"bdqn-env-length-{length}-seeds-0-0": {
            "arguments": {"length": length},
            "time_limit": 9,
            "deterministic": True,
        }
        for length in (5, 7)
    }
    main(["sweep", "mine.toml"])
    assert "run 1 of 2" not in capsys.readouterr().out.split("finished")[-1], "nothing is left to run"


def test_other_processes_find_the_module() -> None:
    load = pickle.loads(pickle.dumps(_loader([CORRIDOR])))
    settings = load().settings(CORRIDOR, "bdqn")
    assert load().resolve(CORRIDOR, "bdqn", settings).env.deterministic
    assert load() is load()
    assert _loader([]) is installed


def test_options_of_a_built_in_environment_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    bdqn = ["train", "deep-sea", "--agent", "bdqn"]
    tiny = ["--seeds", "1", "--out", "run", *SMALL]
    main([*bdqn, *tiny, "--env", "size=4", "stochastic=False"])
    env = json.loads(Path("run/config.json").read_text())["settings"]["env"]
    assert env == {"size": 4, "stochastic": False}
    assert "unknown option of deep-sea 'siez': did you mean 'size'?" in refused(
        capsys, *bdqn, "--env", "siez=4"
    )
    assert "deep-sea ends its episodes itself" in refused(capsys, *bdqn, "--time-limit", "4")
    assert "give a size from 2 to 100" in refused(capsys, *bdqn, "--env", "size=1")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("no_rooms:FourRooms", "--agent", "az"), "there is no module no_rooms"),
        (("my_rooms:FourRooms", "--agent", "az"), "my_rooms has no FourRooms"),
        (("my_rooms:KeyCorridor", "--agent", "e-ax"), "unknown agent 'e-ax': did you mean 'e-az'?"),
        (("my_rooms:KeyCorridor", "--agent", "az", "--preset", "paper"), "unknown preset 'paper'"),
        (
            ("my_rooms:KeyCorridor", "--agent", "az", "--env", "size=3"),
            "argument 'size'. Its arguments are: length",
        ),
        (("my_rooms:KeyCorridor", "--agent", "az", "--env", "length"), "write NAME=VALUE, such as size=12"),
        (
            ("my_rooms:KeyCorridor", "--agent", "az", "--env", "length=2"),
            "length=2: a corridor of 2 has no room",
        ),
        (
            ("my_rooms:KeyCorridor", "--agent", "az", "--time-limit", "0"),
            "a time limit of 0 steps allows no step",
        ),
        (("my_rooms:KeyCorridor", "--agent", "az", "--time-limit", "x"), "invalid int value: 'x'"),
        (("my_rooms:KeyCorridor", "--agent", "az", "--steps", "0"), "steps is 0: give at least 1"),
        (("my_rooms:Outcome", "--agent", "az"), "my_rooms has no Outcome"),
        (
            ("my_rooms:jnp.dtype", "--agent", "az", "--env", "dtype=int8"),
            "has no num_actions: an environment has",
        ),
        (("my_rooms:Greedy", "--agent", "az"), "breaks the rule 'legal': a state has no legal action at all"),
        (
            ("my_rooms:GymnasiumStep", "--agent", "az", "--time-limit", "9"),
            "step returned 5 values, not (state, Outcome(reward, terminated, truncated))",
        ),
        (
            ("my_rooms:ResetsItself", "--agent", "az", "--time-limit", "9"),
            "breaks the rule 'absorb': terminated changed after the end of an episode",
        ),
        (("gymnasum:CartPole-v1", "--agent", "mz"), "did you mean gymnasium:CartPole-v1?"),
    ],
)
def test_what_cannot_be_trained_is_refused(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    assert message in refused(capsys, "train", *arguments)
    assert [path.name for path in Path().iterdir() if path.name != "__pycache__"] == ["my_rooms.py"]


def test_a_mistake_in_the_code_is_shown_with_its_place(capsys: pytest.CaptureFixture[str]) -> None:
    message = refused(capsys, "train", "my_rooms:Broken", "--agent", "az")
    assert "the environment breaks the rule 'runs': AttributeError: 'CorridorState' object has no" in message
    assert "in step (my_rooms.py, line 10)" in message


def test_a_wrong_simulator_is_refused_in_one_line(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[2])
    Path("old_rooms.py").write_text(
        "from tests.envs.adapters.simulators import Wanderer\n"
        "class Old(Wanderer):\n"
        "    def reset(self, *, seed):\n"
        "        return super().reset(seed=seed)[0]\n"
    )
    assert refused(capfd, "train", "old_rooms:Old", "--agent", "mz") == (
        "emcts: old_rooms:Old: Old failed in the reset with seed 0: reset returned an array of shape (2,), not "
        "(observation, info): Gymnasium's API since 0.26\n"
    )


def test_rules_that_were_not_checked_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    """Random actions never reach the end of this corridor."""
    catalogue = installed((CORRIDOR,))
    settings = catalogue.settings(CORRIDOR, "bdqn")
    for length, lines in ((99, 1), (3, 0)):
        changed = dataclasses.replace(settings, env=EnvOptions({"length": length}, time_limit=9))
        for _ in range(2):
            catalogue.resolve(CORRIDOR, "bdqn", changed)
        said = capsys.readouterr().err
        assert said.count("\n") == said.count(f"no episode of {CORRIDOR} terminated in ") == lines
        assert said.count("run emcts.envs.check(env, steps=...)") == lines


def test_help_names_references(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (
        ["train", "--help"],
        ["train", CORRIDOR, "--help"],
        ["train", CORRIDOR, "--agent", "e-az", "-h"],
    ):
        with pytest.raises(SystemExit) as caught:
            main(arguments)
        assert caught.value.code == 0
    printed = capsys.readouterr().out
    assert "xminigrid:ID" in printed
    assert "--env NAME=VALUE" in printed
    assert "--env.time-limit" in printed
    assert "my_rooms" not in sys.modules
