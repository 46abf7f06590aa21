"""Training, resuming, loading and acting from Python."""

import dataclasses
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from examples.own_environment import KeyCorridor

import emcts
from emcts.agents.trained import TrainedAgent, of_seed
from emcts.envs import auto_reset, from_gymnasium, time_limit
from emcts.runs.folder import Folder
from tests.agents.tiny import BDQN, trainer

KEY = jax.random.key(0)
KEY_TYPE = type(KEY)
SMALL = {**BDQN, "steps": 64, "evaluation.every": 32, "schedule.warmup_steps": 16, "replay.batch_size": 8}
SMALL = {path: value for path, value in SMALL.items() if not path.startswith("env.")}


@dataclasses.dataclass(frozen=True)
class Corridor(KeyCorridor):
    """A class of this file, with a field that JSON cannot store."""

    name: Any = KEY_TYPE


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_the_search_needs_nothing_of_it() -> None:
    heavy = "{'emcts.api', 'emcts.agents', 'emcts.runs', 'optax', 'orbax', 'rich', 'tyro', 'matplotlib'}"
    code = f"import sys, emcts; assert 'train' in dir(emcts); print(sorted({heavy} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"
    with pytest.raises(AttributeError, match="'emcts' has no attribute 'trian'"):
        _ = emcts.trian


def test_a_run_from_its_training_to_an_action(capsys: pytest.CaptureFixture[str]) -> None:
    env = Corridor(5)
    run = emcts.train(
        time_limit(env, 20), "bdqn", seeds=[3, 5], time_limit=9, settings=SMALL, discount=0.9, out="runs/mine"
    )
    assert (run.path, run.state) == (Path("runs/mine"), "finished")
    assert f"`emcts resume runs/mine --env-from {__name__}:Corridor --steps N`" in capsys.readouterr().out
    evaluated = [line for line in run.metrics() if "return" in line]
    assert [line["env_steps"] for line in evaluated] == [32, 32, 64, 64]
    early = [line for line in run.metrics() if "return" not in line]
    assert all(line["env_steps"] < 32 and "train_steps" in line for line in early)
    assert [seed["seed"] for seed in run.summary()["seeds"]] == [3, 5]
    config = Folder.open(run.path).config()
    assert (config.environment, config.agent, config.settings["discount"]) == (
        f"{__name__}:Corridor",
        "bdqn",
        0.9,
    )
    assert config.settings["env"] == {"arguments": {"length": 5}, "time_limit": 9, "deterministic": True}
    assert Path("runs/mine/figure.png").exists()

    for call in (emcts.load, emcts.resume):
        with pytest.raises(ValueError, match="not run because a folder names it: if you trust it, give env="):
            call("runs/mine")
        with pytest.raises(ValueError, match="the run was trained with length=5, got 7: give the same"):
            call("runs/mine", env=Corridor(7))
        with pytest.raises(ValueError, match="the run was trained with time_limit=9, got 8"):
            call("runs/mine", env=time_limit(env, 8))
        with pytest.raises(ValueError, match="got a examples.own_environment:KeyCorridor: give the same"):
            call("runs/mine", env=KeyCorridor(5))
        with pytest.raises(ValueError, match="got gymnax:CartPole-v1: give the same"):
            call("runs/mine", env="gymnax:CartPole-v1")
    resumed = emcts.resume("runs/mine", env=env, steps=96, quiet=True)
    assert resumed.metrics()[-1]["env_steps"] == 96
    assert capsys.readouterr().out == ""
    with pytest.raises(ValueError, match="the run has 96 steps, got 64: --steps can only be raised"):
        emcts.resume("runs/mine", env=env, steps=64)

    agent = emcts.load("runs/mine", env=f"{__name__}:Corridor", seed=5)
    assert (agent.seed, agent.env_steps) == (5, 96)
    states = jax.vmap(agent.env.init)(jax.random.split(KEY, 3))
    actions = agent.act(states, KEY)
    assert actions.shape == (3,)
    # One state, with or without the time limit around it.
    assert [int(agent.act(one.init(KEY), KEY)) for one in (agent.env, env)] == [int(actions[0])] * 2
    with pytest.raises(ValueError, match="bdqn does not search: call act"):
        agent.search(states, KEY)
    best = emcts.load("runs/mine", env=env, checkpoint="best")
    last = {
        int(line["seed"]): line["return"]
        for line in run.metrics()
        if "return" in line and line["env_steps"] <= best.env_steps
    }
    assert last[best.seed] == max(last.values())
    for wrong, message in (
        ({"seed": 4}, "has the seeds 3, 5"),
        ({"checkpoint": "frist"}, "unknown checkpoint"),
    ):
        with pytest.raises(ValueError, match=message):
            emcts.load("runs/mine", env=env, **wrong)


def test_a_thread_trains_too() -> None:
    found: list[str] = []
    thread = threading.Thread(
        target=lambda: found.append(
            emcts.train("deep-sea", "bdqn", seeds=1, env__size=3, settings=SMALL, quiet=True).state
        )
    )
    thread.start()
    thread.join()
    assert found == ["finished"]
    assert [path.name for path in Path("runs").iterdir()] == ["deep-sea-bdqn-1"]
    assert emcts.load("runs/deep-sea-bdqn-1").env.num_actions == 2


def test_a_simulator_on_the_host_acts_from_observations() -> None:
    gymnasium = pytest.importorskip("gymnasium")
    settings = {**SMALL, "env.max_episode_steps": 20}
    run = emcts.train("gymnasium:CartPole-v1", "bdqn", seeds=1, settings=settings, quiet=True)
    agent = emcts.load(run.path)
    simulator = gymnasium.make("CartPole-v1")
    observations = [simulator.reset(seed=seed)[0] for seed in range(3)]
    several = agent.act(observations, KEY)
    np.testing.assert_array_equal(agent.act(np.stack(observations), KEY), several)
    assert [int(agent.act(one, KEY)) for one in observations] == several.tolist()
    simulator.step(agent.act(observations[0], KEY).item())

    # Given as an object, it is known by its type alone.
    env = from_gymnasium(lambda: gymnasium.make("CartPole-v1"), max_steps=20)
    run = emcts.train(env, "bdqn", seeds=1, settings=SMALL, quiet=True, out="runs/object")
    with pytest.raises(ValueError, match="give env="):
        emcts.load(run.path)
    assert emcts.load(run.path, env=env).act(observations[0], KEY).shape == ()


def test_acting_is_what_evaluation_does() -> None:
    one = trainer("deep-sea", "e-az")
    agent = TrainedAgent(one.learner, of_seed(one.init(), 1), seed=1, env_steps=0)
    env: Any = agent.env
    np.testing.assert_array_equal(env.right_actions, one.learner.env_factory.params(1))
    state = env.init(KEY)
    states = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), state)
    assert agent.act(states, KEY, beta=-1.0).shape == (2,)
    out = agent.search(state, KEY, beta=1.0, num_simulations=7)
    assert int(out.search_tree.summary().visit_counts.sum()) == 7
    assert int(agent.search(state, KEY, beta=1.0).action[0]) == int(agent.act(state, KEY, beta=1.0))
    for wrong, message in (
        (states.row, "is no state of this environment"),
        (jax.tree.map(lambda x: x[None], states), "neither one"),
    ):
        with pytest.raises(ValueError, match=message):
            agent.act(wrong, KEY)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"env": object()}, "object has no num_actions: give an environment"),
        ({"env": auto_reset(KeyCorridor())}, "resets in `step`, which training does itself: give env"),
        ({"env": "deep-see"}, "unknown environment 'deep-see': did you mean 'deep-sea'?"),
        ({"env": "deep-sea", "time_limit": 9}, "deep-sea ends its episodes itself"),
        ({"env": "no_module:Rooms"}, "there is no module no_module"),
        ({"env": KeyCorridor(), "agent": "e-ax"}, "unknown agent 'e-ax': did you mean 'e-az'?"),
        ({"env": KeyCorridor(), "seeds": 0}, "seeds 0: give at least 1"),
        ({"env": KeyCorridor(), "seeds": [1, 1]}, r"seeds \[1, 1\] repeat"),
        ({"env": KeyCorridor(), "search__simulatons": 3}, "search.simulatons: unknown setting"),
        ({"env": KeyCorridor(), "search__simulations": "few"}, "search.simulations: expected int, got 'few'"),
        ({"env": KeyCorridor(), "steps": 0}, "steps is 0: give at least 1"),
        ({"env": KeyCorridor(), "loggers": ["paper"]}, "paper"),
    ],
)
def test_what_cannot_be_trained_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        emcts.train(**arguments)
    assert not Path("runs").exists()


def test_a_module_of_ones_own_is_trained_and_loaded() -> None:
    def encoder(spec: Any, key: Any) -> Any:
        return eqx.nn.MLP(spec.size, 6, 8, 1, key=key)

    tiny = {
        "search.simulations": 2,
        "schedule.num_envs": 2,
        "schedule.updates": 1,
        "schedule.warmup_steps": 32,
        "replay.batch_size": 4,
        "evaluation.every": 64,
        "evaluation.episodes": 1,
        "model.width": 4,
    }
    env = time_limit(Corridor(5), 9)
    run = emcts.train(
        env, "az", seeds=1, steps=64, settings=tiny, encoder=encoder, out="runs/own", quiet=True
    )
    agent = emcts.load(run.path, env=env, encoder=encoder)
    assert agent.act(agent.env.init(KEY), KEY).shape == ()
    with pytest.raises(ValueError, match="torso"):
        emcts.load(run.path, env=env)
