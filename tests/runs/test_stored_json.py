"""Reading JSON of a folder that anyone may have written: a value of the right type, or one line that says why not."""

import json
import os
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
import pytest

from emcts.agents.catalogue import ENVIRONMENTS, installed
from emcts.cli import main
from emcts.runs.config import CheckpointSchedule, Config, fill, override, plain
from emcts.runs.folder import Folder, status
from emcts.runs.logging.maps import MapHistory
from emcts.runs.stored_json import check, from_json, read_json


class Inner(TypedDict, total=False):
    score: float | None


class Outer(TypedDict):
    name: str
    sizes: list[int]
    pair: tuple[float, float]
    inner: dict[str, Inner]


GOOD: dict[str, Any] = {"name": "a", "sizes": [1], "pair": [1, 2.5], "inner": {"x": {"score": None}}}


def test_a_value_of_the_right_type_passes() -> None:
    check(GOOD, Outer)
    check({**GOOD, "more": [[]]}, Outer)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": 5}, "has 5 where name should be a text"),
        ({"sizes": [1, True]}, r"has True where sizes\[1\] should be an integer"),
        ({"sizes": {}}, "has {} where sizes should be a list"),
        ({"pair": [1]}, r"has \[1\] where pair should be a list of 2"),
        ({"inner": []}, r"has \[\] where inner should be an object"),
        ({"inner": {"x": {"score": "1"}}}, "has '1' where inner.x.score should be a number or null"),
        ({"inner": {"x\x1b": 3}}, r"has 3 where inner.'x\\x1b' should be an object"),
        ({"name": "x" * 1000, "sizes": None}, "has None where sizes should be a list"),
    ],
)
def test_the_wrong_part_is_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check({**GOOD, **changes}, Outer)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 100_000, "is nested more than 32 levels deep"),
        ("[" * 40 + "]" * 40, "is nested more than 32 levels deep"),
        ('{"a": NaN}', "has NaN, which is not JSON"),
        ("[1e999]", "too large"),
        ("9" * 5000, "more than 64 bits"),
        ("9223372036854775808", "more than 64 bits"),
        (b"\xff\xfe\xfd", "UTF-8|not JSON"),
        ("{", "is not JSON"),
        ("", "is not JSON"),
    ],
)
def test_what_is_not_json_is_one_line(text: bytes | str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        from_json(text)


def test_a_file_without_end_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "zeros").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / "pipe")
    for name in ("zeros", "pipe", "none"):
        with pytest.raises(ValueError, match="is not a file|does not exist"):
            read_json(tmp_path / name, Outer)
    (tmp_path / "long").write_text(json.dumps([0] * 1000))
    with pytest.raises(ValueError, match="is larger than"):
        read_json(tmp_path / "long", list[int], max_bytes=100)


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    settings = override(installed().settings("deep-sea", "e-az"), {"steps": 1000})
    for name in ("a", "b"):
        config = Config("deep-sea", "e-az", None, (0, 1), plain(settings), CheckpointSchedule())
        folder = Folder.create(tmp_path / name, config, {"command": "emcts train"})
        seeds = [{"seed": seed, "env_steps": 7, "train_steps": 0, "seconds": 0.5} for seed in (0, 1)]
        steps = ("first_reward_step", "solved_step", "regret_step", "final_return", "simulator_steps")
        nothing = dict.fromkeys(steps)
        folder.write("summary.json", {"state": "stopped", "seeds": [{**nothing, **seed} for seed in seeds]})
        folder.metrics.append([{"seed": 0, "env_steps": 7, "return": 0.5, "seconds": 1.0}])
    return tmp_path


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("summary.json", "[]", "summary.json has [] where the whole should be an object"),
        ("summary.json", '{"seeds": [5]}', "summary.json has 5 where seeds[0] should be an object"),
        ("config.json", '{"environment": 5}', "config.json has 5 where environment should be a text"),
        ("config.json", "[" * 5000, "config.json is nested more than 32 levels deep"),
        ("config.json", b"\xff", "config.json is not text in UTF-8"),
    ],
)
def test_a_damaged_run_hides_no_other(
    runs: Path, capsys: pytest.CaptureFixture[str], name: str, content: bytes | str, message: str
) -> None:
    (runs / "a" / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    main(["runs", str(runs)])
    out = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "unreadable: " in out
    assert "7 of 1,000" in out
    with pytest.raises(ValueError, match="\\.json") as caught:
        status(Folder(runs / "a"))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_return_of_rounding_is_shown_as_0(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = runs / "a" / "summary.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "mean_final_return": -9.63e-09}))
    other = runs / "b" / "summary.json"
    other.write_text(json.dumps({**json.loads(other.read_text()), "mean_final_return": 1}))
    main(["runs", str(runs)])
    (row,) = [line for line in capsys.readouterr().out.splitlines() if f"{runs.name}/a" in line]
    assert row.split("│")[6].strip() == "0"


def test_names_are_shown_as_they_are(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Not as rich's markup, which would raise an error, or as commands to a terminal."""
    file = runs / "a" / "config.json"
    file.write_text(file.read_text().replace('"e-az"', '"[/red]"'))
    other = runs / "b" / "config.json"
    other.write_text(other.read_text().replace('"e-az"', '"\\u001b[2J"'))
    main(["runs", str(runs)])
    out = capsys.readouterr().out
    assert "[/red]" in out
    assert "\x1b" not in out


def test_lines_of_other_types_are_named(runs: Path) -> None:
    metrics = Folder(runs / "a").metrics
    for line in ("5", "[]", '{"seed": 0}', '{"seed": 0, "env_steps": 1, "return": "x"}', '{"seed": 0.5}'):
        metrics.file.write_text(f'{{"seed": 0, "env_steps": 1}}\n{line}\n')
        with pytest.raises(ValueError, match="metrics.jsonl, line 2 .*remove that line"):
            metrics.read()


def test_damaged_maps_are_one_line(tmp_path: Path) -> None:
    file = tmp_path / "maps.npz"
    MapHistory.read(file).add(3, {"visits": np.ones((2, 4, 4))})
    written = file.read_bytes()
    assert MapHistory.read(file).maps["visits"].shape == (1, 2, 4, 4)
    draw = np.random.default_rng(0)
    for _ in range(200):
        changed = bytearray(written)
        changed[draw.integers(len(written))] ^= 1 << int(draw.integers(8))
        file.write_bytes(changed[: draw.integers(len(written))] if draw.random() < 0.2 else changed)
        try:
            MapHistory.read(file)
        except ValueError as error:
            assert "remove it" in str(error)  # noqa: PT017


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_every_preset_has_the_types_that_it_says(environment: str) -> None:
    catalogue = installed()
    for agent in catalogue.agents(environment):
        for preset in catalogue.presets(environment, agent):
            settings = catalogue.settings(environment, agent, preset)
            assert fill(settings, plain(settings)) == settings
