"""`emcts resume`: goes on with a run, as if it had never stopped."""

import dataclasses
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from emcts.agents import catalogue as installed_agents
from emcts.cli.together import Together, join
from emcts.cli.train import drive_to_the_end, parse
from emcts.runs import team
from emcts.runs.config import TOTAL, plain, refuse_changes, stored_settings
from emcts.runs.folder import Folder
from emcts.training.catalogue import Catalogue

USAGE = """usage: emcts resume RUN [--steps N] [--wandb] [--devices SEEDSxDATA] [--distributed ...]

Goes on from the newest sound checkpoint, and ends as `emcts train` does. The settings stay those that the run began
with; only the number of steps may be raised. Devices and processes may be others than before, and any number of them;
`emcts train ENVIRONMENT --agent AGENT --help` tells of these options. `emcts runs` lists the runs."""


@dataclass(frozen=True)
class Options(Together):
    """How to go on."""

    steps: int | None = None
    """Train to so many environment steps of each seed, more than before."""
    wandb: bool = False
    """Also send the metrics to Weights & Biases."""


def main(arguments: Sequence[str]) -> None:
    join(arguments)
    resume(arguments, installed_agents.installed())


def resume(arguments: Sequence[str], catalogue: Catalogue) -> None:
    """Reads the run's settings, and refuses any option that would change one."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(USAGE)
        return
    if arguments[0].startswith("-"):
        raise ValueError("the run comes first: emcts resume RUN ...")
    folder = Folder.open(Path(arguments[0]))
    config = folder.config()
    options, settings = parse(
        Options(), stored_settings(config, catalogue), arguments[1:], f"emcts resume {arguments[0]}"
    )
    if options.steps is not None:
        settings = dataclasses.replace(settings, **{TOTAL: options.steps})
    refuse_changes(config.settings, plain(settings))
    trainer = options.placed(catalogue.trainer(config.environment, config.agent, settings, config.seeds))
    if plain(settings) != config.settings and team.leads():
        folder.write_config(dataclasses.replace(config, settings=plain(settings)), folder.provenance())
    drive_to_the_end(trainer, folder, shlex.join(["emcts", "resume", *arguments]), options.wandb)
