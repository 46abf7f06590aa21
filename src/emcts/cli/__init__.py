"""The console script `emcts`: parses arguments, calls the package and prints.

Each group of commands is a module with a table `COMMANDS`, or with a function `main` where the options depend on the
arguments before them.
"""

import importlib
import sys
from collections.abc import Sequence

import tyro

GROUPS = {
    "train": "train an agent on an environment, several seeds at once",
    "resume": "continue a run that was stopped, or extend it",
    "evaluate": "run evaluation episodes with a trained run",
    "plot": "plot learning curves of one run, or of several in one figure",
    "runs": "list the runs of a folder",
    "demo": "compare E-AZ and AZ on Deep Sea, as a table and a figure",
    "sweep": "train many runs from a file or a grid, on this machine or a cluster",
    "reproduce": "reproduce a figure or table of the paper",
    "bench": "measure the speed, and compare it with other libraries",
    "subleq": "run, assemble, disassemble and enumerate SUBLEQ programs",
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs one command. Bad input exits with code 2 and one line that says what to do."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_overview())
        return
    group, *rest = arguments
    if group not in GROUPS:
        _fail(f"unknown command {group!r}\n\n{_overview()}")
    module = importlib.import_module(f"emcts.cli.{group}")
    try:
        if hasattr(module, "main"):
            module.main(rest)
        elif callable(module.COMMANDS):
            tyro.cli(module.COMMANDS, prog=f"emcts {group}", args=rest)
        else:
            tyro.extras.subcommand_cli_from_dict(module.COMMANDS, prog=f"emcts {group}", args=rest)
    except KeyboardInterrupt:
        print("emcts: interrupted", file=sys.stderr)
        raise SystemExit(130) from None
    except (ValueError, OSError, ModuleNotFoundError) as error:
        _fail(str(error))
    except RuntimeError as error:
        # Imported here, as the groups are: most commands need no environment.
        if not isinstance(error, importlib.import_module("emcts.envs.base").SimulatorError):
            raise
        _fail(str(error))


def _overview() -> str:
    rows = [f"  {name:<10} {what}" for name, what in GROUPS.items()]
    return "\n".join(
        ["usage: emcts COMMAND ...", "", *rows, "", "emcts COMMAND --help shows the options of a command."]
    )


def _fail(message: str) -> None:
    print(f"emcts: {message}", file=sys.stderr)
    raise SystemExit(2)
