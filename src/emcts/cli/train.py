"""`emcts train`: a new run. Its options depend on the environment, the agent and the preset."""

import argparse
import math
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich import box
from rich.console import Console
from rich.table import Table

from emcts.agents import catalogue as installed_agents
from emcts.agents.settings import EvaluationSettings
from emcts.cli.distributed import (
    DistributedOptions,
    create_shared_folder,
    explain_lost_process,
    join_process_group,
)
from emcts.cli.settings import parse_settings, refuse_misspelt
from emcts.envs.references import LIBRARIES, is_reference
from emcts.experiments.sweeps.plan import RunPlan, plan_run
from emcts.registry import lookup
from emcts.runs import process_group
from emcts.runs.config import CheckpointSchedule, Config, check_seed_count, plain, stored_settings
from emcts.runs.drive import drive
from emcts.runs.folder import Folder
from emcts.runs.logging.display import display_for, duration
from emcts.runs.logging.loggers import DEFAULT_LOGGERS, LOGGERS, check_loggers
from emcts.runs.logging.metrics import LatestMetrics, is_solved
from emcts.runs.offline import refuse_without_dataset, resolve_offline
from emcts.runs.provenance import provenance
from emcts.training.catalogue import Catalogue
from emcts.training.progress import Trainer

LoggerNames = Annotated[
    tuple[str, ...], tyro.conf.arg(help=f"Loggers that receive the metrics: any of {', '.join(LOGGERS)}.")
]

DEFAULT_SEEDS = 4
REFERENCES = {
    **{f"{library}:ID": f"an environment of {library}" for library in LIBRARIES},
    "MODULE:NAME": "a class or function of yours that makes one, called with the values of --env",
}
EXIT_CODES = """Ctrl-C or SIGTERM saves within seconds and exits with code 130 or 143; `emcts resume` continues.
A loss that is not finite, or explodes (above 1e10), exits with 1, bad input and a full disk with 2."""


@dataclass(frozen=True)
class RunOptions(DistributedOptions):
    """When to end before all steps are done. A run that ended early can be resumed."""

    stop_when_solved: bool = False
    """End when every seed has solved all episodes of an evaluation."""
    max_minutes: float | None = None
    """End with the first chunk that is done after this time, compilation included."""

    def stop(self, settings: object) -> Callable[[LatestMetrics], bool] | None:
        """Returns the condition to end early; None if there is none."""
        minutes = self.max_minutes
        if minutes is not None and not 0 < minutes < math.inf:
            raise ValueError(f"--max-minutes {minutes}: give a finite number above 0")
        if minutes is None and not self.stop_when_solved:
            return None
        evaluation = getattr(settings, "evaluation", None)
        if (
            self.stop_when_solved
            and isinstance(evaluation, EvaluationSettings)
            and evaluation.has_no_solution
        ):
            raise ValueError(
                "--stop-when-solved: rewards come at many steps here, and nothing tells when that is solved: give "
                "--evaluation.solved-return"
            )
        deadline = math.inf if minutes is None else time.monotonic() + 60 * minutes
        return lambda latest: time.monotonic() >= deadline or (self.stop_when_solved and is_solved(latest))


@dataclass(frozen=True)
class TrainOptions(RunOptions):
    """The options of a run that do not depend on what is trained."""

    seeds: int | None = None
    """Train this number of seeds, from 0 on, at the same time. 4 if not given."""
    seed_list: tuple[int, ...] = ()
    """Train these seeds instead."""
    out: Path | None = None
    """The folder of the run. If not given: runs/ENVIRONMENT-AGENT-NUMBER."""
    plan: bool = False
    """Only show how long the training takes and what memory and disk it needs; it compiles and is timed for some
    seconds."""
    checkpoint_seconds: float = CheckpointSchedule.seconds
    """Save after the first chunk that ends this long after the last save, or in a chunk after twice the time."""
    checkpoint_chunks: int | None = CheckpointSchedule.chunks
    """Save after this number of chunks instead."""
    keep_checkpoints: int = CheckpointSchedule.keep
    """Keep this number of the last checkpoints, and the best by return."""
    loggers: LoggerNames = DEFAULT_LOGGERS

    def all_seeds(self) -> tuple[int, ...]:
        if self.seed_list and self.seeds is not None:
            raise ValueError("--seeds and --seed-list exclude each other: give one of them")
        if self.seeds is not None:
            check_seed_count(self.seeds, "--seeds")
        return self.seed_list or tuple(range(self.seeds or DEFAULT_SEEDS))

    def schedule(self) -> CheckpointSchedule:
        return CheckpointSchedule(self.checkpoint_seconds, self.checkpoint_chunks, self.keep_checkpoints)


def main(arguments: Sequence[str]) -> None:
    join_process_group(arguments)
    named = [argument for argument in arguments[:1] if is_reference(argument)]
    train(arguments, installed_agents.installed(tuple(named)) if named else installed_agents.installed())


def train(arguments: Sequence[str], catalogue: Catalogue) -> None:
    """Parses environment, agent and preset, then every other option with the preset's values as defaults."""
    environment, agent, preset, rest = _choose(arguments, catalogue)
    defaults = catalogue.settings(environment, agent, preset)
    if any(argument.split("=")[0] == "--offline" for argument in rest):
        refuse_without_dataset(agent, defaults)
    prog = f"emcts train {environment} --agent {agent}"
    options, settings = parse_settings(TrainOptions(), defaults, environment, rest, prog)
    settings = catalogue.resolve(environment, agent, settings)
    config = Config(environment, agent, preset, options.all_seeds(), plain(settings), options.schedule())
    config, settings = resolve_offline(config, settings)
    trainer = options.place(catalogue.trainer(environment, agent, settings, config.seeds))
    check_loggers(options.loggers)
    stop = options.stop(settings)
    if options.plan:
        Console().print(_plan_table(plan_run(config, settings, catalogue, options.place)))
        return
    command = shlex.join(["emcts", "train", *arguments])
    folder = create_shared_folder(lambda: Folder.create_in(options.out, config, provenance(command)))
    with folder.discarded_on_error() if process_group.is_leader() else nullcontext():
        if not process_group.is_single():
            # What was found by trying the environment is the leader's in every process.
            stored = stored_settings(folder.config(), catalogue)
            trainer = options.place(catalogue.trainer(environment, agent, stored, config.seeds))
        train_run(trainer, folder, command, options.loggers, stop, is_new=True)


def train_run(
    trainer: Trainer,
    folder: Folder,
    command: str,
    loggers: Sequence[str],
    stop: Callable[[LatestMetrics], bool] | None = None,
    *,
    is_new: bool = False,
) -> None:
    """Trains a run to its end, and exits with the code of its result unless that is 0."""
    config = folder.config()
    title = f"{folder.path}: {config.agent} on {config.environment}, {len(config.seeds)} seeds"
    with explain_lost_process(folder):
        result = drive(trainer, folder, display_for(Console(), title), command, loggers, stop, is_new=is_new)
    if result.exit_code:
        raise SystemExit(result.exit_code)


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
        refuse_misspelt(rest, "--agent")
        raise ValueError(f"no agent given: add --agent, one of {', '.join(catalogue.agents(environment))}")
    agent = chosen.agent
    lookup(catalogue.agents(environment), agent, "agent")
    if chosen.preset is not None:
        lookup(dict.fromkeys(catalogue.presets(environment, agent)), chosen.preset, "preset")
    return environment, agent, chosen.preset, rest


def _plan_table(plan: RunPlan) -> Table:
    """Returns what a training takes, as a table."""
    mebibyte = 2**20
    table = Table(title=plan.title, title_justify="left", show_header=False, box=box.SIMPLE)
    for name, value in {
        "steps": f"{plan.total_steps:,} of each of {plan.seeds} seeds",
        "parameters": f"{plan.parameters:,} of each seed",
        "memory": f"{plan.state_bytes / mebibyte:,.1f} MiB, of these {plan.replay_bytes / mebibyte:,.1f} the replay",
        "disk": f"at most {plan.disk_bytes / mebibyte:,.1f} MiB, with {plan.checkpoints} checkpoints",
        "compiling": duration(plan.compile_seconds),
        "training": f"{plan.steps_per_second:,.0f} steps a second, all seeds together",
        "evaluation": f"{plan.evaluation_seconds:,.1f} s each, {plan.evaluations:,} times; before anything is learned",
        "in all": duration(plan.seconds),
    }.items():
        table.add_row(name, value)
    return table


def _overview(catalogue: Catalogue, environment: str | None = None) -> str:
    lines = [
        "usage: emcts train ENVIRONMENT --agent AGENT [--preset PRESET] [--out FOLDER] [--plan] [every setting]",
        "       emcts train REFERENCE --agent AGENT [--env NAME=VALUE ...] [--time-limit N] [...]",
    ]
    which = catalogue.environments if environment is None else (environment,)
    agents = {name: what for each in which for name, what in catalogue.agents(each).items()}
    if environment is None:
        lines += ["", "environments:", *_described(catalogue.environments)]
        lines += ["", "references, to any other environment:", *_described(REFERENCES)]
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
