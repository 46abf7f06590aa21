"""`emcts train`: a new run. Its options depend on the environment, the agent and the preset."""

import argparse
import dataclasses
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, make_dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

import tyro
from rich.console import Console

from emcts.agents import catalogue as installed_agents
from emcts.cli.distributed import (
    DistributedOptions,
    create_shared_folder,
    explain_lost_process,
    join_process_group,
)
from emcts.registry import lookup
from emcts.runs import process_group
from emcts.runs.config import CheckpointSchedule, Config, DataclassInstance, plain
from emcts.runs.drive import drive
from emcts.runs.folder import Folder, next_free
from emcts.runs.logging.display import display_for
from emcts.runs.logging.loggers import DEFAULT_LOGGERS, LOGGERS, check_loggers
from emcts.runs.provenance import provenance
from emcts.training.catalogue import Catalogue
from emcts.training.progress import Trainer

OptionsT = TypeVar("OptionsT", bound=DataclassInstance)
SettingsT = TypeVar("SettingsT", bound=DataclassInstance)
LoggerNames = Annotated[
    tuple[str, ...], tyro.conf.arg(help=f"Loggers that receive the metrics: any of {', '.join(LOGGERS)}.")
]

DEFAULT_SEEDS = 4
EXIT_CODES = """Ctrl-C or SIGTERM finishes the chunk, saves and exits with code 130 or 143; `emcts resume` continues.
A loss that is not finite exits with 1, bad input and a full disk with 2."""


@dataclass(frozen=True)
class TrainOptions(DistributedOptions):
    """TrainOptions of a run that do not depend on what is trained."""

    seeds: int | None = None
    """Train this number of seeds, from 0 on, at the same time. 4 if not given."""
    seed_list: tuple[int, ...] = ()
    """Train these seeds instead."""
    out: Path | None = None
    """The folder of the run. If not given: runs/ENVIRONMENT-AGENT-NUMBER."""
    checkpoint_seconds: float = CheckpointSchedule.seconds
    """Save after the first chunk that ends this long after the last save."""
    checkpoint_chunks: int | None = CheckpointSchedule.chunks
    """Save after this number of chunks instead."""
    keep_checkpoints: int = CheckpointSchedule.keep
    """Keep this number of the last checkpoints, and the best by return."""
    loggers: LoggerNames = DEFAULT_LOGGERS

    def all_seeds(self) -> tuple[int, ...]:
        if self.seed_list and self.seeds is not None:
            raise ValueError("--seeds and --seed-list exclude each other: give one of them")
        if self.seeds is not None and self.seeds < 1:
            raise ValueError(f"--seeds {self.seeds}: give at least 1")
        return self.seed_list or tuple(range(self.seeds or DEFAULT_SEEDS))

    def schedule(self) -> CheckpointSchedule:
        return CheckpointSchedule(self.checkpoint_seconds, self.checkpoint_chunks, self.keep_checkpoints)


def main(arguments: Sequence[str]) -> None:
    join_process_group(arguments)
    train(arguments, installed_agents.installed())


def train(arguments: Sequence[str], catalogue: Catalogue) -> None:
    """Parses environment, agent and preset, then every other option with the preset's values as defaults."""
    environment, agent, preset, rest = _choose(arguments, catalogue)
    defaults = catalogue.settings(environment, agent, preset)
    options, settings = parse(TrainOptions(), defaults, rest, f"emcts train {environment} --agent {agent}")
    settings = catalogue.resolve(environment, agent, settings)
    config = Config(environment, agent, preset, options.all_seeds(), plain(settings), options.schedule())
    trainer = options.place(catalogue.trainer(environment, agent, settings, config.seeds))
    check_loggers(options.loggers)
    command = shlex.join(["emcts", "train", *arguments])
    out = options.out or Path(process_group.broadcast_text(str(next_free(Path("runs"), environment, agent))))
    folder = create_shared_folder(lambda path: Folder.create(path, config, provenance(command)), out)
    train_run(trainer, folder, command, options.loggers)


def train_run(trainer: Trainer, folder: Folder, command: str, loggers: Sequence[str]) -> None:
    """Trains a run to its end, and exits with the code of its result unless that is 0."""
    config = folder.config()
    title = f"{folder.path}: {config.agent} on {config.environment}, {len(config.seeds)} seeds"
    with explain_lost_process(folder):
        result = drive(trainer, folder, display_for(Console(), title), command, loggers)
    if result.exit_code:
        raise SystemExit(result.exit_code)


def parse(
    options: OptionsT, settings: SettingsT, arguments: Sequence[str], prog: str
) -> tuple[OptionsT, SettingsT]:
    """Parses two dataclasses from one command line, with the given values as defaults."""
    values: dict[str, DataclassInstance] = {"options": options, "settings": settings}
    # An empty name puts the fields of both at the top level.
    fields = [(name, Annotated[_type_of(value), tyro.conf.arg(name="")]) for name, value in values.items()]
    both_type: Any = make_dataclass("Both", fields)
    both: Any = tyro.cli(both_type, prog=prog, args=arguments, default=both_type(**values), description="")
    return both.options, both.settings


def _type_of(value: DataclassInstance) -> object:
    """Returns the type of a dataclass, with the types of its values in place of its type variables."""
    generic: Any = type(value)
    types = {one.type: type(getattr(value, one.name)) for one in dataclasses.fields(value)}
    variables = getattr(generic, "__parameters__", ())
    return generic[tuple(types[variable] for variable in variables)] if variables else generic


def _choose(arguments: Sequence[str], catalogue: Catalogue) -> tuple[str, str, str | None, list[str]]:
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_overview(catalogue))
        raise SystemExit(0)
    if arguments[0].startswith("-"):
        raise ValueError("the environment comes first: emcts train ENVIRONMENT --agent AGENT ...")
    environment = arguments[0]
    catalogue.agents(environment)
    parser = argparse.ArgumentParser(prog="emcts train", add_help=False, allow_abbrev=False)
    parser.add_argument("--agent")
    parser.add_argument("--preset")
    chosen, rest = parser.parse_known_args(list(arguments[1:]))
    if chosen.agent is None and {"-h", "--help"} & set(rest):
        print(_overview(catalogue, environment))
        raise SystemExit(0)
    if chosen.agent is None:
        raise ValueError(f"no agent given: add --agent, one of {', '.join(catalogue.agents(environment))}")
    agent = chosen.agent
    lookup(catalogue.agents(environment), agent, "agent")
    if chosen.preset is not None:
        lookup(dict.fromkeys(catalogue.presets(environment, agent)), chosen.preset, "preset")
    return environment, agent, chosen.preset, rest


def _overview(catalogue: Catalogue, environment: str | None = None) -> str:
    lines = ["usage: emcts train ENVIRONMENT --agent AGENT [--preset PRESET] [--out FOLDER] [every setting]"]
    which = catalogue.environments if environment is None else (environment,)
    agents = {name: what for each in which for name, what in catalogue.agents(each).items()}
    if environment is None:
        lines += ["", "environments:", *_described(catalogue.environments)]
    else:
        lines += ["", *_presets(catalogue, environment), "The first is the default."]
    lines += ["", "agents:", *_described(agents)]
    return "\n".join(
        [*lines, "", EXIT_CODES, "emcts train ENVIRONMENT --agent AGENT --help shows every setting."]
    )


def _described(names: Mapping[str, str]) -> list[str]:
    return [f"  {name:<24} {what}" for name, what in names.items()]


def _presets(catalogue: Catalogue, environment: str) -> list[str]:
    """Returns one line for all agents, or one for each group of agents that share their presets."""
    shared: dict[tuple[str, ...], list[str]] = {}
    for agent in catalogue.agents(environment):
        shared.setdefault(catalogue.presets(environment, agent), []).append(agent)
    if len(shared) == 1:
        return [f"presets of {environment}: {', '.join(*shared)}"]
    return [f"presets of {environment} for {', '.join(a)}: {', '.join(p)}" for p, a in shared.items()]
