"""What the docs run besides the `emcts` commands of their blocks, which tests/test_page_commands.py parses."""

import contextlib
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from emcts.cli import GROUPS
from tests.docs.pages import PAGES, ROOT, Block, blocks, commands, name


def _commands(*programs: str) -> Iterator[tuple[Block, list[str]]]:
    """Yields the arguments of programs in the blocks of shells."""
    for page in PAGES:
        for block in blocks(page, "", "bash", "console"):
            with contextlib.suppress(ValueError):  # of blocks that are no commands: quotes do not match
                found = commands(block.text)
                yield from ((block, words[1:]) for words in found if Path(words[0]).name in programs)


def _ids(value: object) -> str:
    return value.name if isinstance(value, Block) else " ".join(value) if isinstance(value, list) else ""


@pytest.fixture(scope="module")
def flags() -> set[str]:
    """Returns the options of all commands, without settings."""
    from command_pages import OPTIONS, parser_of

    found: list[Any] = list(OPTIONS.values())
    for group in set(GROUPS) - set(OPTIONS):
        of_group: Any = importlib.import_module(f"emcts.cli.{group}").COMMANDS
        found += [of_group] if callable(of_group) else of_group.values()
    actions = [action for one in found for action in parser_of(one, "emcts")._actions]
    parsed = {flag for action in actions for flag in action.option_strings}
    return parsed | {"--agent", "--preset", "--env", "--env-from", "--time-limit", "--version"}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_commands_in_the_text_have_their_options(page: Path, flags: set[str]) -> None:
    in_text = [command.split() for command in re.findall(r"`emcts ([^`]+)`", page.read_text())]
    resumed = [words for block, words in _commands("emcts") if block.page == page and words[:1] == ["resume"]]
    for group, *rest in [*in_text, *resumed]:
        assert group in (*GROUPS, "COMMAND", "--version"), f"{name(page)}: `emcts {group}`"
        for word in rest:
            flag = word.partition("=")[0]
            if flag.startswith("--") and "." not in flag:
                assert flag in flags, f"{name(page)}: `emcts {group}` has {flag}"


@pytest.mark.parametrize(("block", "arguments"), list(_commands("python", "python3")), ids=_ids)
def test_a_script_exists(block: Block, arguments: list[str]) -> None:
    if arguments[0] == "-m":
        path = ROOT / (arguments[1].replace(".", "/") + ".py")
        assert path.is_file() or importlib.util.find_spec(arguments[1]), f"{block.name}: {arguments[1]}"
    elif arguments[0].endswith(".py"):
        assert (ROOT / arguments[0]).is_file(), f"{block.name}: {arguments[0]}"


def test_targets_exist() -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    for block, arguments in _commands("make"):
        assert set(arguments) <= set(targets), block.name
    for page in PAGES:
        assert set(re.findall(r"`make ([a-z-]+)`", page.read_text())) <= set(targets), name(page)
