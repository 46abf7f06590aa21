"""`emcts resume`: continues a run as if it had never stopped."""

import argparse
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from emcts.agents import catalogue as installed_agents
from emcts.cli.distributed import join_process_group
from emcts.cli.settings import parse_settings
from emcts.cli.train import LoggerNames, RunOptions, train_run
from emcts.runs.config import plain, refuse_changes, stored_settings
from emcts.runs.folder import Folder
from emcts.runs.logging.loggers import DEFAULT_LOGGERS, check_loggers
from emcts.training.catalogue import Catalogue

USAGE = """usage: emcts resume RUN [--steps N] [--stop-when-solved] [--max-minutes M] [--loggers NAME ...]
                        [--devices SEEDSxDATA] [--distributed ...]
       emcts resume RUN --env-from MODULE:NAME [...]

Continues from the newest intact checkpoint, and ends as `emcts train` does. A run keeps the settings that it was
started with; only the number of steps may be raised. The number of devices and processes may change;
`emcts train ENVIRONMENT --agent AGENT --help` describes these options. `emcts runs` lists the runs.

A run of an environment of your own names its code, which is not run because a folder says so: --env-from does."""


@dataclass(frozen=True)
class ResumeOptions(RunOptions):
    """How to continue."""

    loggers: LoggerNames = DEFAULT_LOGGERS


def take_env_from(arguments: Sequence[str]) -> tuple[str | None, list[str]]:
    """Takes --env-from from a command line, and returns the rest of it too."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--env-from")
    given, rest = parser.parse_known_args(list(arguments))
    return given.env_from, rest


def main(arguments: Sequence[str]) -> None:
    join_process_group(arguments)
    resume(arguments)


def resume(arguments: Sequence[str], catalogue: Catalogue | None = None) -> None:
    """Continues a run. An option that would change one of its settings is an error."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(USAGE)
        return
    if arguments[0].startswith("-"):
        raise ValueError("the run comes first: emcts resume RUN ...")
    folder = Folder.open(Path(arguments[0]))
    config = folder.config()
    env_from, rest = take_env_from(arguments[1:])
    if catalogue is None:
        catalogue = installed_agents.installed_for(config.environment, env_from)
    stored, prog = stored_settings(config, catalogue), f"emcts resume {arguments[0]}"
    options, settings = parse_settings(ResumeOptions(), stored, config.environment, rest, prog)
    refuse_changes(config.settings, plain(settings))
    check_loggers(options.loggers)
    trainer = options.place(catalogue.trainer(config.environment, config.agent, settings, config.seeds))
    train_run(
        trainer, folder, shlex.join(["emcts", "resume", *arguments]), options.loggers, options.stop(settings)
    )
