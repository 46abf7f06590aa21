"""`emcts train`: a new run. Which options there are depends on the environment, the agent and the preset."""

import argparse
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, make_dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console

from emcts.agents import catalogue as installed_agents
from emcts.cli.together import Together, join, others_may_die, shared_folder
from emcts.registry import lookup
from emcts.runs import team
from emcts.runs.board import WeightsAndBiases, check_wandb
from emcts.runs.config import Config, Schedule, plain, sized
from emcts.runs.display import display_for
from emcts.runs.drive import drive
from emcts.runs.folder import Folder, next_free
from emcts.runs.provenance import provenance
from emcts.runs.trainer import Trainer
from emcts.training.catalogue import Catalogue

DEFAULT_SEEDS = 4
ENDINGS = """Ctrl-C or SIGTERM finishes the chunk, saves and leaves with exit code 130 or 143; `emcts resume` goes on.
A loss that is not finite leaves with 1, bad input and a full disk with 2."""


@dataclass(frozen=True)
class Options(Together):
    """How to run, whatever is trained."""

    seeds: int | None = None
    """Train so many seeds, from 0 on, side by side. 4 if not given."""
    seed_list: tuple[int, ...] = ()
    """Train these seeds instead."""
    out: Path | None = None
    """A folder for the run. If not given: runs/ENVIRONMENT-AGENT-NUMBER."""
    checkpoint_seconds: float = Schedule.seconds
    """Save after the first chunk that ends so long after the last save."""
    checkpoint_chunks: int | None = Schedule.chunks
    """Save after so many chunks instead."""
    keep_checkpoints: int = Schedule.keep
    """Keep the last checkpoints, so many, and the best by return."""
    wandb: bool = False
    """Also send the metrics to Weights & Biases."""

    def all_seeds(self) -> tuple[int, ...]:
        if self.seed_list and self.seeds is not None:
            raise ValueError("--seeds and --seed-list both say which seeds to train: give one of them")
        if self.seeds is not None and self.seeds < 1:
            raise ValueError(f"--seeds {self.seeds}: give at least 1")
        return self.seed_list or tuple(range(self.seeds or DEFAULT_SEEDS))

    def schedule(self) -> Schedule:
        return Schedule(self.checkpoint_seconds, self.checkpoint_chunks, self.keep_checkpoints)


def main(arguments: Sequence[str]) -> None:
    join(arguments)
    train(arguments, installed_agents.installed())


def train(arguments: Sequence[str], catalogue: Catalogue) -> None:
    """Reads environment, agent and preset; then, with the preset's values as defaults, every other option."""
    environment, agent, preset, rest = _choose(arguments, catalogue)
    defaults = catalogue.settings(environment, agent, preset)
    options, settings = parse(Options(), defaults, rest, f"emcts train {environment} --agent {agent}")
    settings = sized(settings)
    config = Config(environment, agent, preset, options.all_seeds(), plain(settings), options.schedule())
    trainer = options.placed(catalogue.trainer(environment, agent, settings, config.seeds))
    if options.wandb:
        check_wandb()
    command = shlex.join(["emcts", "train", *arguments])
    out = options.out or Path(team.told_text(str(next_free(Path("runs"), environment, agent))))
    folder = shared_folder(lambda path: Folder.create(path, config, provenance(command)), out)
    drive_to_the_end(trainer, folder, command, options.wandb)


def drive_to_the_end(trainer: Trainer, folder: Folder, command: str, wandb: bool) -> None:
    """Trains, and leaves with the exit code that the ending calls for."""
    config = folder.config()
    boards = [WeightsAndBiases(folder.path, config.to_json())] if wandb and team.leads() else []
    title = f"{folder.path}: {config.agent} on {config.environment}, {len(config.seeds)} seeds"
    with others_may_die(folder):
        ending = drive(trainer, folder, display_for(Console(), title), command, boards)
    if ending.exit_code:
        raise SystemExit(ending.exit_code)


def parse(options: Any, settings: Any, arguments: Sequence[str], prog: str) -> tuple[Any, Any]:
    """Both from one command line, with their present values as defaults."""
    names = ("options", "settings")
    values = (options, settings)
    # Without a name of their own, the fields of both become options side by side.
    fields = [
        (name, Annotated[type(value), tyro.conf.arg(name="")])
        for name, value in zip(names, values, strict=True)
    ]
    both_type: Any = make_dataclass("Both", fields)
    both: Any = tyro.cli(both_type, prog=prog, args=arguments, default=both_type(*values), description="")
    return both.options, both.settings


def _choose(arguments: Sequence[str], catalogue: Catalogue) -> tuple[str, str, str | None, list[str]]:
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_overview(catalogue))
        raise SystemExit(0)
    if arguments[0].startswith("-"):
        raise ValueError("the environment comes first: emcts train ENVIRONMENT --agent AGENT ...")
    environment = arguments[0]
    lookup(catalogue.environments, environment, "environment")
    parser = argparse.ArgumentParser(prog="emcts train", add_help=False, allow_abbrev=False)
    parser.add_argument("--agent")
    parser.add_argument("--preset")
    chosen, rest = parser.parse_known_args(list(arguments[1:]))
    if chosen.agent is None and {"-h", "--help"} & set(rest):
        print(_overview(catalogue, environment))
        raise SystemExit(0)
    if chosen.agent is None:
        raise ValueError(f"which agent? Add --agent, one of {', '.join(catalogue.agents(environment))}")
    agent = chosen.agent
    lookup(catalogue.agents(environment), agent, f"agent of {environment}")
    if chosen.preset is not None:
        lookup(dict.fromkeys(catalogue.presets(environment, agent)), chosen.preset, "preset")
    return environment, agent, chosen.preset, rest


def _overview(catalogue: Catalogue, environment: str | None = None) -> str:
    lines = ["usage: emcts train ENVIRONMENT --agent AGENT [--preset PRESET] [--out FOLDER] [every setting]"]
    if environment is None:
        agents = {n: w for each in catalogue.environments for n, w in catalogue.agents(each).items()}
        lines += ["", "environments:", *_described(catalogue.environments)]
    else:
        agents = catalogue.agents(environment)
        lines += ["", *_presets(catalogue, environment), "The first is the default."]
    lines += ["", "agents:", *_described(agents)]
    return "\n".join(
        [*lines, "", ENDINGS, "emcts train ENVIRONMENT --agent AGENT --help shows every setting."]
    )


def _described(names: Mapping[str, str]) -> list[str]:
    return [f"  {name:<24} {what}" for name, what in names.items()]


def _presets(catalogue: Catalogue, environment: str) -> list[str]:
    """One line for all agents, or one for those that share their presets."""
    shared: dict[tuple[str, ...], list[str]] = {}
    for agent in catalogue.agents(environment):
        shared.setdefault(catalogue.presets(environment, agent), []).append(agent)
    if len(shared) == 1:
        return [f"presets of {environment}: {', '.join(*shared)}"]
    return [f"presets of {environment} for {', '.join(a)}: {', '.join(p)}" for p, a in shared.items()]
