"""Where a sweep is trained, as the command line says it."""

import importlib.util
from pathlib import Path

import pytest

from emcts.cli import main
from emcts.cli import reproduce as command
from tests.cli.test_reproduce import TOY
from tests.runs.toy import ToyCatalogue


@pytest.fixture(autouse=True)
def toys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("emcts.agents.catalogue.installed", ToyCatalogue)
    monkeypatch.setattr(command, "EXPERIMENTS", {"toy": TOY})


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as caught:
        main(["reproduce", "toy", *arguments])
    assert caught.value.code == 2
    assert list(Path().iterdir()) == []
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--on", "rya"), "unknown place for --on 'rya': did you mean 'ray'?"),
        (("--address", "auto"), "--address auto is for Ray alone: add --on ray"),
        (("--cpus-per-run", "2"), "--cpus-per-run 2 is for Ray alone"),
        (("--runs-per-gpu", "2"), "--runs-per-gpu 2 is for Ray alone"),
        (("--on", "ray", "--cpus-per-run", "0"), "--cpus-per-run 0: give at least 1"),
        (("--on", "ray", "--rows", "swim"), "no row of toy is meant"),
    ],
)
def test_bad_input_is_refused_before_anything_starts(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    assert message in refused(capsys, *arguments)


def test_without_ray_one_is_told_how_to_get_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        "emcts.experiments.ray_executor.find_spec", lambda name: None if name == "ray" else find(name)
    )
    assert 'pip install "emcts[ray]"' in refused(capsys, "--on", "ray")


def test_an_address_that_is_none(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    assert "Ray cannot be used at --address nowhere" in refused(capsys, "--on", "ray", "--address", "nowhere")
