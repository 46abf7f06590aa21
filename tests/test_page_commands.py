"""Every `emcts` command in a block of README or of the docs is one: its options and settings exist."""

import functools
import importlib
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from emcts import cli

ROOT = Path(__file__).parents[1]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *(page for page in sorted((ROOT / "docs").rglob("*.md")) if page.parent.name != "notes"),
]
PLACEHOLDERS = re.compile(
    r"\b(my_module|my\.module|ENVIRONMENT|REFERENCE|NAME|LIBRARY|\.\.\.|\w+\.toml)\b|[A-Z]+:ID"
)
NO_SUCH_RUN = "is not a run"  # before a command that resumes one looks at its options


class Parsed(Exception):
    """Raised where a command that was parsed would begin its work."""


def _stop(*arguments: object, **named: object) -> None:
    raise Parsed


def _blocks(text: str) -> Iterator[str]:
    """Yields the blocks of code that name no language, or that of a shell."""
    inside, lines = None, list[str]()
    for line in text.splitlines():
        if line.startswith("```"):
            if inside in ("", "bash", "console", "sh"):
                yield "\n".join(lines)
            inside, lines = (line[3:].strip(), []) if inside is None else (None, [])
        elif inside is not None:
            lines.append(line)


def _commands() -> list[str]:
    found = dict.fromkeys(
        shlex.join(shlex.split(line.removeprefix("$ "), comments=True)[1:])
        for page in PAGES
        for block in _blocks(page.read_text(encoding="utf-8"))
        for line in re.sub(r"\\\n\s*", " ", block).splitlines()
        if re.match(r"(\$ )?emcts [a-z-]", line) and not PLACEHOLDERS.search(line)
    )
    return [command for command in found if "$" not in command and ";" not in command]


def _parsed_only(commands: object) -> object:
    """Returns commands of a group that do nothing once they are parsed."""
    if isinstance(commands, Mapping):
        return {name: _parsed_only(command) for name, command in commands.items()}
    assert callable(commands)

    @functools.wraps(commands)
    def parsed(*arguments: object, **named: object) -> None:
        raise Parsed

    return parsed


@pytest.fixture(autouse=True)
def nothing_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    modules: dict[str, Any] = {name: importlib.import_module(f"emcts.cli.{name}") for name in cli.GROUPS}
    for module in modules.values():
        if hasattr(module, "COMMANDS"):
            monkeypatch.setattr(module, "COMMANDS", _parsed_only(module.COMMANDS))
    monkeypatch.setattr(modules["train"], "join_process_group", lambda arguments: None)
    monkeypatch.setattr(modules["train"], "Config", _stop)
    monkeypatch.setattr(modules["sweep"], "train_specs", _stop)

    def reproduce(options: Any, command: str, load: Callable[[], Any]) -> None:
        assert options.specs_of(options.experiment(load()))
        raise Parsed

    monkeypatch.setattr(modules["reproduce"], "reproduce", reproduce)


@pytest.mark.parametrize("command", _commands())
def test_the_command_exists(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        cli.main(shlex.split(command))
    except Parsed:
        return
    except SystemExit:
        message = capsys.readouterr().err
        assert NO_SUCH_RUN in message, message


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("train deep-sea --agent e-az --search.simulation 5", "simulation"),
        ("plot runs/a --tables x.csv", "tables"),
        ("bench serch", "serch"),
    ],
)
def test_a_command_that_does_not_exist_is_noticed(
    command: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        cli.main(shlex.split(command))
    assert message in capsys.readouterr().err
