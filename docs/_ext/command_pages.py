"""Commands as Markdown: what each does and its options, read from the parser that the command line uses."""

import argparse
import importlib
import inspect
import re
import warnings
from collections.abc import Callable
from typing import Any

import tyro

from emcts.cli.reproduce import ReproduceOptions
from emcts.cli.resume import ResumeOptions
from emcts.cli.sweep import SweepOptions
from emcts.cli.train import TrainOptions

# Commands whose other options depend on the arguments before them.
OPTIONS: dict[str, type] = {
    "train": TrainOptions,
    "resume": ResumeOptions,
    "sweep": SweepOptions,
    "reproduce": ReproduceOptions,
}
DEFAULT = re.compile(r"\s*\((?:default: (?P<value>.*)|required|repeatable)\)$", flags=re.DOTALL)


def command(group: str) -> str:
    """Returns the options of a command, or those of each command of a group below a heading of its own."""
    if group in OPTIONS:
        return _options(OPTIONS[group], f"emcts {group}")
    commands: Any = importlib.import_module(f"emcts.cli.{group}").COMMANDS
    if callable(commands):
        return _described(commands, f"emcts {group}")
    sections = [
        f"### emcts {group} {name}\n\n{_described(one, f'emcts {group} {name}')}"
        for name, one in commands.items()
    ]
    return "\n\n".join(sections)


def parser_of(command: Callable[..., Any], prog: str) -> Any:
    """Returns the parser of a function or a dataclass, which has what `argparse` has."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return tyro.extras.get_parser(command, prog=prog)


def _described(command: Callable[..., Any], prog: str) -> str:
    about = inspect.cleandoc(command.__doc__ or "").partition("\nArgs:")[0].strip()
    positional = [_metavar(action) for action in _actions(command, prog) if not action.option_strings]
    usage = " ".join([prog, *positional, "[options]"])
    return f"```text\n{usage}\n```\n\n{about}\n\n{_options(command, prog)}"


def _options(command: Callable[..., Any], prog: str) -> str:
    entries = [_entry(action) for action in _actions(command, prog)]
    return "\n\n".join([f"```{{program}} {prog}\n```", *entries])


def _actions(command: Callable[..., Any], prog: str) -> list[argparse.Action]:
    parser = parser_of(command, prog)
    return [action for action in parser._actions if "--help" not in action.option_strings]


def _entry(action: argparse.Action) -> str:
    flags = [flag for flag in action.option_strings if not flag.startswith("--no-")]
    metavar = "" if action.nargs == 0 else _metavar(action)
    name = " ".join(part for part in (*flags, metavar) if part)
    text = " ".join((action.help or "").split())
    default = DEFAULT.search(text)
    text = DEFAULT.sub("", text)
    text = text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")
    value = default["value"] if default else None
    if value not in (None, "", "None", "False", "''"):
        text += f" Default: `{value}`."
    return f"```{{option}} {name}\n{text}\n```"


def _metavar(action: argparse.Action) -> str:
    """`INT` of `{None}|INT`, `STR ...` of `[STR [STR ...]]`; a positional argument is called by its name."""
    if not action.option_strings:
        return action.dest.upper() + (" ..." if action.nargs in ("*", "+") else "")
    metavar = str(action.metavar or "").replace("{None}|", "")
    several = re.fullmatch(r"\[(\w+) \[\1 \.\.\.\]\]", metavar)
    return f"{several[1]} ..." if several else metavar
