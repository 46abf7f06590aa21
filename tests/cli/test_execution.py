"""The options of executors on the command line."""

import importlib.util
from pathlib import Path

import pytest

from emcts.cli import main

pytestmark = pytest.mark.usefixtures("toys")


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as caught:
        main(["reproduce", "toy", *arguments])
    assert caught.value.code == 2
    assert list(Path().iterdir()) == []
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--on", "rya"), "unknown executor for --on 'rya': did you mean 'ray'?"),
        (("--address", "auto"), "--address auto is for Ray alone: add --on ray"),
        (("--cpus-per-run", "2"), "--cpus-per-run 2 is for Ray alone"),
        (("--runs-per-gpu", "2"), "--runs-per-gpu 2 is for Ray alone"),
        (("--on", "ray", "--cpus-per-run", "0"), "--cpus-per-run 0: give at least 1"),
        (("--on", "ray", "--rows", "swim"), "no row of toy is selected"),
    ],
)
def test_bad_input_is_refused_before_anything_starts(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    assert message in refused(capsys, *arguments)


def test_without_ray_the_error_says_how_to_install_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        "emcts.experiments.executors.ray.find_spec", lambda name: None if name == "ray" else find(name)
    )
    assert 'pip install "emcts[ray]"' in refused(capsys, "--on", "ray")


def test_an_address_that_does_not_exist(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    assert "Ray cannot be used at --address nowhere" in refused(capsys, "--on", "ray", "--address", "nowhere")
