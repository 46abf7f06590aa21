"""References: what they name, what may be made of a stranger's, and one line for every mistake."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import pytest

from emcts.envs.adapters.xminigrid import XminigridEnvironment
from emcts.envs.references import make, parse_arguments, parse_reference

MODULE = """
import dataclasses
from examples.own_environment import KeyCorridor

class Half:
    num_actions = 2
    def init(self, key): ...
    def step(self, state, action, key): ...
    def observe(self, state): ...

class Outer:
    Inner = KeyCorridor

def corridor(length: int = 5, *, wide: bool = False):
    if length == 13:
        raise RuntimeError("unlucky\\nnumber")
    return KeyCorridor(length)

NUMBER = 3
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with modules, none of which is imported after the test."""
    (tmp_path / "my_worlds.py").write_text(MODULE)
    (tmp_path / "my_broken_world.py").write_text("import my_missing_package")
    (tmp_path / "my_failing_world.py").write_text("1 / 0")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    yield tmp_path
    for name in ("my_worlds", "my_broken_world", "my_failing_world"):
        sys.modules.pop(name, None)


def test_arguments_are_json_or_text() -> None:
    words = ["size=12", "slippery=False", "deep=true", "name=8x8", "rate=0.5", "none=None", "grid=[1,2]"]
    given = [*words, 'word="12"', "nan=NaN", "a=b=c"]
    assert parse_arguments(given) == {
        "size": 12,
        "slippery": False,
        "deep": True,
        "name": "8x8",
        "rate": 0.5,
        "none": None,
        "grid": [1, 2],
        "word": "12",
        "nan": "NaN",
        "a": "b=c",
    }


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["size"], "'size' is no argument"),
        (["=3"], "'=3' is no argument"),
        (["a b=3"], "write NAME=VALUE"),
        (["n=1", "n=2"], "the argument n is given twice"),
    ],
)
def test_arguments_without_a_name_are_refused(given: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_arguments(given)


@pytest.mark.parametrize(
    ("text", "trusted"),
    [
        ("gymnasium:CartPole-v1", True),
        ("gymnasium:ALE/Pong-v5", True),
        ("gymnasium:my_module:World-v0", False),
        ("gymnasium:GymV21Environment-v0", False),
        ("gymnax:MountainCar-v0", True),
        ("pgx:2048", True),
        ("xminigrid:MiniGrid-DoorKey-8x8", True),
        ("rooms:FourRooms", False),
        ("my.worlds:Outer.Inner", False),
    ],
)
def test_only_what_a_library_makes_is_trusted(text: str, trusted: bool) -> None:
    assert parse_reference(text).is_trusted == trusted


@pytest.mark.parametrize(
    "text", ["deep-sea", "rooms:", ":Four", "my rooms:Four", "rooms:Four-Rooms", "gymnasum:CartPole-v1"]
)
def test_other_text_is_no_reference(text: str) -> None:
    with pytest.raises(ValueError, match="is no reference: "):
        parse_reference(text)


@pytest.mark.usefixtures("here")
def test_classes_and_functions_of_a_module_in_this_folder() -> None:
    for text in ("my_worlds:corridor", "my_worlds:Outer.Inner"):
        made = make(parse_reference(text), {"length": 9})
        assert made.env.observe(made.env.init(jax.random.key(0))).shape == (11,)
        assert made.max_steps is None
    made = make(parse_reference("emcts.envs:MinAtar"), {"max_steps": 77})
    assert made.max_steps == 77


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("text", "arguments", "message"),
    [
        (
            "my_world:corridor",
            {},
            "there is no module my_world: Run the command in its folder, or install it",
        ),
        ("gymnaxx:corridor", {}, "there is no module gymnaxx: did you mean gymnax:corridor?"),
        ("my_broken_world:X", {}, "importing my_broken_world failed: No module named 'my_missing_package'"),
        ("my_failing_world:X", {}, "importing my_failing_world failed: ZeroDivisionError: division by zero"),
        ("my_worlds:corrido", {}, "my_worlds has no corrido: did you mean corridor?"),
        ("my_worlds:NUMBER", {}, "is a int: name a class or a function that makes an environment"),
        ("my_worlds:Half", {}, "makes a Half, which has no legal: an environment has num_actions, init"),
        (
            "my_worlds:corridor",
            {"size": 3},
            "unexpected keyword argument 'size'. Its arguments are: length, wide",
        ),
        ("my_worlds:corridor", {"length": 2}, "my_worlds:corridor length=2: a corridor of 2 has no room"),
        ("my_worlds:corridor", {"length": 13}, "length=13: RuntimeError: unlucky number"),
        ("gymnasium:CartPol-v1", {}, "Environment `CartPol` doesn't exist"),
        ("gymnasium:CartPole-v1", {"gravty": 3}, "gymnasium:CartPole-v1 gravty=3: "),
        ("gymnasium:Pendulum-v1", {}, "not a Discrete action space"),
        ("gymnax:MountainCar", {}, "gymnax has no environment 'MountainCar': did you mean MountainCar-v0"),
        ("gymnax:MountainCar-v0", {"gravty": 3}, "gymnax:MountainCar-v0 gravty=3: "),
        ("pgx:chess", {}, "game for 2 players"),
        ("pgx:2047", {}, "pgx has no environment '2047': did you mean 2048"),
        ("pgx:2048", {"size": 3}, "pgx:2048 size=3: "),
        ("xminigrid:MiniGrid-DorKey-8x8", {}, "did you mean MiniGrid-DoorKey-8x8"),
        (
            "xminigrid:MiniGrid-DoorKey-8x8",
            {"view": "half"},
            "view is 'half': give full, partial or egocentric",
        ),
    ],
)
def test_every_mistake_is_one_line(text: str, arguments: Any, message: str) -> None:
    if (library := text.partition(":")[0]) in ("gymnasium", "gymnax", "pgx", "xminigrid"):
        pytest.importorskip(library)
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        make(parse_reference(text), arguments)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_library_that_is_missing_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for library in ("gymnasium", "gymnax", "pgx", "xminigrid"):
        monkeypatch.setitem(sys.modules, library, None)
        with pytest.raises(ValueError, match=rf'needs {library}, .*: pip install "emcts\[{library}\]"'):
            make(parse_reference(f"{library}:Any"), {})


def test_libraries_say_how_long_episodes_are() -> None:
    pytest.importorskip("gymnasium")
    pytest.importorskip("gymnax")
    made = make(parse_reference("gymnasium:CartPole-v1"), {})
    assert (made.max_steps, made.solved_return) == (500, 475)
    made = make(parse_reference("gymnasium:CartPole-v1"), {"max_episode_steps": 40})
    assert (made.max_steps, made.solved_return) == (40, 475)
    made = make(parse_reference("gymnax:MountainCar-v0"), {"max_steps_in_episode": 30})
    assert (made.max_steps, made.solved_return) == (30, None)
    made = make(parse_reference("gymnax:DeepSea-bsuite"), {"size": 4})
    assert made.env.num_actions == 2


def test_xminigrid_is_observed_as_a_whole_unless_asked_otherwise() -> None:
    pytest.importorskip("xminigrid")
    made = make(parse_reference("xminigrid:MiniGrid-Empty-5x5"), {"max_steps": 20, "view": "partial"})
    assert isinstance(made.env, XminigridEnvironment)
    assert (made.env.view, made.max_steps) == ("partial", 20)
    made = make(parse_reference("xminigrid:MiniGrid-Empty-5x5"), {"max_steps": 20})
    assert isinstance(made.env, XminigridEnvironment)
    assert made.env.view == "full"
