"""`emcts sweep`: a file or a grid becomes runs; a mistake is refused before any of them begins."""

from pathlib import Path

import pytest

from emcts.agents.catalogue import installed
from emcts.cli import main
from emcts.experiments.sweeps.file import read_sweep
from emcts.experiments.sweeps.grid import run_specs
from emcts.runs.folder import find_runs

FILE = """
environment = "plain"
seeds = 3
seeds_per_run = 2
steps = 400

[settings]
ballast = 5

[grid]
chunk_seconds = [0, 1e-4]

[[runs]]
agent = "walker"

[[runs]]
name = "fast"
agent = "runner"
preset = "long"
seeds = 1
settings = {chunk_seconds = 0, nan_at = "none"}
grid = {ballast = [7, 9]}
"""


def output(capsys: pytest.CaptureFixture[str]) -> str:
    return " ".join(capsys.readouterr().out.split())


@pytest.mark.usefixtures("toys")
def test_a_file_from_its_plan_to_its_table(capsys: pytest.CaptureFixture[str]) -> None:
    Path("mine.toml").write_text(FILE)
    main(["sweep", "mine.toml", "--plan"])
    assert "walker-default-chunk-seconds-0 2 3 400 1,200 unknown" in output(capsys)
    assert [path.name for path in Path().iterdir()] == ["mine.toml"]
    main(["sweep", "mine.toml"])
    out = output(capsys)
    assert "walker-default-chunk-seconds-0.0001 3 400 " in out
    assert "run 5 of 6" in out
    assert "fast-ballast-9 1 400 " in out
    assert "300 (1 of 1) 0 of 1 finished" in out
    runs = {folder.path.name: folder for folder in find_runs(Path("runs/sweep-mine"))}
    assert list(runs) == [
        "fast-ballast-7-seeds-0-0",
        "fast-ballast-9-seeds-0-0",
        "walker-default-chunk-seconds-0-seeds-0-1",
        "walker-default-chunk-seconds-0-seeds-2-2",
        "walker-default-chunk-seconds-0.0001-seeds-0-1",
        "walker-default-chunk-seconds-0.0001-seeds-2-2",
    ]
    settings = runs["fast-ballast-7-seeds-0-0"].config().settings
    assert (settings["chunk_seconds"], settings["ballast"], settings["nan_at"]) == (0, 7, None)
    assert runs["walker-default-chunk-seconds-0-seeds-2-2"].config().settings["ballast"] == 5
    before = sorted((file, file.stat().st_mtime_ns) for file in Path("runs").rglob("*"))
    main(["sweep", "mine.toml"])
    assert "run 1 of 6" not in output(capsys), "nothing is left to run"
    assert sorted((file, file.stat().st_mtime_ns) for file in Path("runs").rglob("*")) == before


@pytest.mark.usefixtures("toys")
def test_a_grid_from_the_command_line() -> None:
    grid = ["--grid", "size=3,4", "--grid", "chunk-seconds=0,1e-4"]
    main(["sweep", "plain", "--agent", "walker,runner", *grid, "--seeds", "1", "--steps", "100"])
    out = Path("runs/sweep-plain-walker-runner-size-chunk-seconds")
    names = [folder.path.name for folder in find_runs(out)]
    assert len(names) == 2 * 2 * 2
    assert "runner-size-3-chunk-seconds-0.0001-seeds-0-0" in names
    main(["sweep", "plain", "--agent", "walker", "--seeds", "1", "--steps", "100", "--out", "here"])
    assert [folder.path.name for folder in find_runs(Path("here"))] == ["walker-seeds-0-0"]


@pytest.mark.usefixtures("toys")
def test_a_broken_run_shows_in_the_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["sweep", "plain", "--agent", "walker", "--grid", "nan-at=200,none", "--seeds", "1"])
    assert caught.value.code == 1
    out = output(capsys)
    assert "walker-nan-at-200-seeds-0-0: a loss was not finite" in out
    assert "0 of 1 broken" in out
    assert "1 of 1 finished" in out


MISTAKES = {
    'agnet = "walker"': "mine.toml: unknown key 'agnet': did you mean 'agent'?",
    "seeds = 0": "mine.toml: seeds: expected at least 1, got 0",
    "seeds = 1.5": "mine.toml: seeds: expected int, got 1.5",
    "seeds = true": "mine.toml: seeds: expected int, got True",
    'environment = "plane"': "mine.toml: unknown environment 'plane': did you mean 'plain'?",
    'agent = "runer"': "mine.toml: unknown agent of plain 'runer': did you mean 'runner'?",
    'preset = "lang"': "mine.toml: unknown preset of walker in plain 'lang': did you mean 'long'?",
    "settings = {sise = 3}": "mine.toml: settings.sise: unknown setting 'sise': did you mean 'size'?",
    'settings = {size = "big"}': "mine.toml: settings.size: expected int, got 'big'",
    "settings = {optimiser = 1}": "settings.optimiser: expected a single setting of this group",
    "settings = {steps = 5}": "settings.steps: write it as the key steps",
    "settings = 3": "mine.toml: settings: expected a table, under [settings], got 3",
    "grid = {size = 3}": "mine.toml: grid.size: expected a list of values, got 3",
    "grid = {size = []}": "mine.toml: grid.size: give at least one value",
    "grid = {size = [3, 3]}": "mine.toml: two runs are called 'walker-size-3'",
    "grid = {size = [3, 4.5]}": "mine.toml: grid.size: expected int, got 4.5",
    "settings = {size = 3}\ngrid = {size = [3]}": "size is in settings and in grid: keep one",
    'name = "a/b"': "mine.toml: name: 'a/b' becomes part of a folder's name",
    "runs = [1]": "mine.toml: runs: expected tables, each under [[runs]]",
    "[[runs]]\nseeds = 0": "mine.toml, runs 1: seeds: expected at least 1, got 0",
    "[[runs]]\n[[runs]]": "mine.toml, runs 2: two runs are called 'walker'",
    "[[runs]]\n[[runs]]\nsede = 3": "mine.toml, runs 2: unknown key 'sede': did you mean 'seeds'?",
    "seeds =\n": "mine.toml is not TOML: Invalid value (at line 3, column 8)",
}


@pytest.mark.usefixtures("toys")
@pytest.mark.parametrize(("mistake", "message"), MISTAKES.items())
def test_a_mistake_in_a_file_is_refused_before_anything_starts(
    capsys: pytest.CaptureFixture[str], mistake: str, message: str
) -> None:
    key = mistake.partition(" =")[0]
    usual = {"environment": 'environment = "plain"', "agent": 'agent = "walker"'}
    lines = [line for name, line in usual.items() if name != key]
    Path("mine.toml").write_text("\n".join([*lines, mistake]))
    with pytest.raises(SystemExit) as caught:
        main(["sweep", "mine.toml", "--on", "ray"])
    assert caught.value.code == 2
    assert message in capsys.readouterr().err
    assert [path.name for path in Path().iterdir()] == ["mine.toml"]


@pytest.mark.usefixtures("toys")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("none.toml",), "there is no sweep file none.toml"),
        (("plain", "--agnet", "walker"), "unknown option --agnet: did you mean --agent?"),
        (("plane", "--agent", "walker"), "unknown environment 'plane': did you mean 'plain'?"),
        (("plain",), "which agent? Add --agent, one of walker, runner"),
        (("plain", "--agent", "walker", "--grid", "size"), "--grid size: expected a setting and its values"),
        (("plain", "--agent", "walker", "--grid", "sise=3"), "unknown setting 'sise': did you mean 'size'?"),
        (("plain", "--agent", "walker", "--grid", "size=a,b"), "grid.size: expected int, got 'a'"),
        (("plain", "--agent", "walker", "--grid", "size=3", "--grid", "size=4"), "names a setting twice"),
        (("plain", "--agent", "walker", "--seeds", "0"), "--seeds 0: give at least 1"),
        (("mine.toml", "--agent", "walker"), "--agent is for a grid on the command line"),
        (("notes",), "notes: the name of a sweep file ends in .toml"),
    ],
)
def test_a_mistake_on_the_command_line(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    Path("notes").touch()
    with pytest.raises(SystemExit) as caught:
        main(["sweep", *arguments])
    assert caught.value.code == 2
    assert message in capsys.readouterr().err
    assert not Path("runs").exists()


def test_the_sweep_file_of_the_guide(tmp_path: Path) -> None:
    guide = Path(__file__).parents[2] / "docs" / "guides" / "sweeps.md"
    (text,) = (part.partition("```")[0] for part in guide.read_text().split("```toml\n")[1:])
    file = tmp_path / "beta.toml"
    file.write_text(text)
    sweep = read_sweep(file)
    assert len(run_specs(sweep.grids, installed())) == 9


@pytest.mark.usefixtures("toys")
def test_a_grid_takes_the_settings_of_train_and_is_plotted(capsys: pytest.CaptureFixture[str]) -> None:
    grid = ("sweep", "plain", "--agent", "walker", "--grid", "ballast=7,9", "--seeds", "1", "--steps", "200")
    main([*grid, "--optimiser.learning-rate", "0.25", "--size", "5"])
    out = Path("runs/sweep-plain-walker-ballast")
    assert f"`emcts plot {out}` draws them" in output(capsys)
    settings = [folder.config().settings for folder in find_runs(out)]
    assert [one["ballast"] for one in settings] == [7, 9]
    assert all(one["size"] == 5 and one["optimiser"]["learning_rate"] == 0.25 for one in settings)  # type: ignore[index, call-overload]
    main(["plot", str(out)])
    assert (out / "figure.png").stat().st_size > 0
    with pytest.raises(SystemExit):
        main([*grid, "--learning-rat", "0.25"])
    assert "--optimiser.learning-rate" in capsys.readouterr().err
    Path("empty").mkdir()
    with pytest.raises(SystemExit):
        main(["plot", "empty"])
    assert "has 0 runs, none with a curve to draw yet" in capsys.readouterr().err
