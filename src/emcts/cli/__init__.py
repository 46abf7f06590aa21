"""The console script `emcts`: parses arguments, calls the package and prints.

Each group of commands is a module with a table `COMMANDS`, or with a function `main` where the options depend on the
arguments before them.
"""

import difflib
import importlib
import itertools
import sys
from collections.abc import Sequence
from types import ModuleType

from emcts import interrupts
from emcts.cli.compilation_cache import use_compilation_cache

interrupts.guard()

PATHS = ("--out", "--results", "--table")
GROUPS = {
    "train": "train an agent on an environment, several seeds at once",
    "resume": "continue a run that was stopped, or extend it",
    "evaluate": "run evaluation episodes with a trained run",
    "inspect": "show the searches of a trained agent as a page in the browser",
    "plot": "plot learning curves of one run, or of several in one figure",
    "runs": "list the runs of a folder",
    "demo": "compare E-AZ and AZ on Deep Sea, as a table and a figure",
    "sweep": "train many runs from a file or a grid, on this machine or a cluster",
    "reproduce": "reproduce a figure or table of the paper",
    "bench": "measure the speed, and compare it with other libraries",
    "subleq": "run, explain, assemble, disassemble and enumerate SUBLEQ programs",
}


MEASURES = "bench"  # also how long it compiles


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs one command. Bad input exits with code 2 and one line that says what to do."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_overview())
        return
    if arguments[0] == "--version":
        print(_versions())
        return
    group, *rest = arguments
    if group not in GROUPS:
        near = difflib.get_close_matches(group, GROUPS, n=1)
        hint = f": did you mean {near[0]!r}?" if near else ""
        _fail(f"unknown command {group!r}{hint}\n\n{_overview()}")
    try:
        _refuse_empty_paths(rest)
        interrupts.guard()
        if group != MEASURES:
            use_compilation_cache()
        module = importlib.import_module(f"emcts.cli.{group}")
        interrupts.release()
        _run(module, group, rest)
    except KeyboardInterrupt:
        print("emcts: interrupted", file=sys.stderr)
        raise SystemExit(interrupts.EXIT_CODE) from None
    except (ValueError, OSError, ModuleNotFoundError, OverflowError) as error:
        _fail(str(error))
    except MemoryError as error:
        _fail(f"{_NO_MEMORY} ({error})" if str(error) else _NO_MEMORY)
    except RuntimeError as error:
        if "RESOURCE_EXHAUSTED" in str(error):
            _fail(f"{_NO_MEMORY} ({str(error).partition(chr(10))[0][:200]})")
        # Imported here, as the groups are: most commands need no environment.
        if not isinstance(error, importlib.import_module("emcts.envs.base").SimulatorError):
            raise
        _fail(str(error))


_NO_MEMORY = (
    "not enough memory: give fewer seeds, a smaller replay or smaller networks; --plan says what is needed"
)


def _run(module: ModuleType, group: str, arguments: Sequence[str]) -> None:
    import tyro  # takes long

    if hasattr(module, "main"):
        module.main(arguments)
    elif callable(module.COMMANDS):
        tyro.cli(module.COMMANDS, prog=f"emcts {group}", args=arguments)
    else:
        tyro.extras.subcommand_cli_from_dict(module.COMMANDS, prog=f"emcts {group}", args=arguments)


def _refuse_empty_paths(arguments: Sequence[str]) -> None:
    """An empty path is the current folder, which nobody means by it: a variable of a script may be empty."""
    for name, value in itertools.pairwise([*arguments, "-"]):
        if (name in PATHS and value == "") or name in [f"{path}=" for path in PATHS]:
            raise ValueError(f"{name.rstrip('=')} is empty: name a file or folder, or leave it out")


def _overview() -> str:
    rows = [f"  {name:<10} {what}" for name, what in GROUPS.items()]
    hints = [
        "emcts COMMAND --help shows the options of a command.",
        "emcts --version shows the versions of emcts, Python and JAX, and the device.",
    ]
    return "\n".join(["usage: emcts COMMAND ...", "", *rows, "", *hints])


def _versions() -> str:
    import jax  # takes long

    made_by = importlib.import_module("emcts.runs.provenance").provenance("emcts --version")
    versions, count = made_by["versions"], len(jax.devices())
    return "\n".join(
        [
            f"emcts {versions['emcts']}",
            f"Python {versions['python']}",
            f"JAX {versions['jax']}",
            f"device {made_by['device']}" + (f", {count} of them" if count > 1 else ""),
        ]
    )


def _fail(message: str) -> None:
    print(f"emcts: {message}", file=sys.stderr)
    raise SystemExit(2)
