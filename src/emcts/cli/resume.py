"""`emcts resume`: continues a run as if it had never stopped."""

import dataclasses
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from emcts.agents import catalogue as installed_agents
from emcts.cli.distributed import DistributedOptions, join_process_group
from emcts.cli.train import LoggerNames, parse, train_run
from emcts.runs import process_group
from emcts.runs.config import plain, refuse_changes, stored_settings
from emcts.runs.folder import Folder
from emcts.runs.logging.loggers import DEFAULT_LOGGERS, check_loggers
from emcts.training.catalogue import Catalogue

USAGE = """usage: emcts resume RUN [--steps N] [--loggers NAME ...] [--devices SEEDSxDATA] [--distributed ...]

Continues from the newest intact checkpoint, and ends as `emcts train` does. A run keeps the settings that it was
started with; only the number of steps may be raised. The number of devices and processes may change;
`emcts train ENVIRONMENT --agent AGENT --help` describes these options. `emcts runs` lists the runs."""


@dataclass(frozen=True)
class ResumeOptions(DistributedOptions):
    """How to continue."""

    loggers: LoggerNames = DEFAULT_LOGGERS


def main(arguments: Sequence[str]) -> None:
    join_process_group(arguments)
    resume(arguments, installed_agents.installed())


def resume(arguments: Sequence[str], catalogue: Catalogue) -> None:
    """Continues a run. An option that would change one of its settings is an error."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(USAGE)
        return
    if arguments[0].startswith("-"):
        raise ValueError("the run comes first: emcts resume RUN ...")
    folder = Folder.open(Path(arguments[0]))
    config = folder.config()
    options, settings = parse(
        ResumeOptions(), stored_settings(config, catalogue), arguments[1:], f"emcts resume {arguments[0]}"
    )
    refuse_changes(config.settings, plain(settings))
    check_loggers(options.loggers)
    trainer = options.place(catalogue.trainer(config.environment, config.agent, settings, config.seeds))
    if plain(settings) != config.settings and process_group.is_leader():
        folder.write_config(dataclasses.replace(config, settings=plain(settings)), folder.provenance())
    train_run(trainer, folder, shlex.join(["emcts", "resume", *arguments]), options.loggers)
