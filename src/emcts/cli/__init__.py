"""The console script `emcts`: parses, calls, prints. Each group of commands is a module with a table `COMMANDS`."""

import importlib
import sys
from collections.abc import Sequence

import tyro

GROUPS = {
    "demo": "a search with and without uncertainty, as a table and a picture",
    "bench": "speed against the peers, in one run",
    "subleq": "run, assemble, disassemble and enumerate SUBLEQ programs",
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs one command. Bad input ends with exit code 2 and one line that says what to do."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_overview())
        return
    group, *rest = arguments
    if group not in GROUPS:
        _fail(f"unknown command {group!r}\n\n{_overview()}")
    commands = importlib.import_module(f"emcts.cli.{group}").COMMANDS
    try:
        if callable(commands):
            tyro.cli(commands, prog=f"emcts {group}", args=rest)
        else:
            tyro.extras.subcommand_cli_from_dict(commands, prog=f"emcts {group}", args=rest)
    except (ValueError, OSError, ModuleNotFoundError) as error:
        _fail(str(error))


def _overview() -> str:
    rows = [f"  {name:<10} {what}" for name, what in GROUPS.items()]
    return "\n".join(["usage: emcts COMMAND ...", "", *rows, "", "emcts COMMAND --help says more."])


def _fail(message: str) -> None:
    print(f"emcts: {message}", file=sys.stderr)
    raise SystemExit(2)
