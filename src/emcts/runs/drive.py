"""Trains a run from its last checkpoint to its end: restores, then advances, writes, shows and saves in a loop."""

import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, field

import jax
import numpy as np
from jaxtyping import PyTree

from emcts.runs import process_group
from emcts.runs.checkpoints import Checkpoints
from emcts.runs.config import TOTAL, CheckpointSchedule, Config, flat, refuse_changes
from emcts.runs.files import DiskFull, is_full_disk
from emcts.runs.folder import Folder
from emcts.runs.logging.display import Clock, Display
from emcts.runs.logging.loggers import DEFAULT_LOGGERS
from emcts.runs.logging.metrics import LatestMetrics, mean, new_warnings
from emcts.runs.logging.run_writer import NullRunWriter, RunWriter
from emcts.runs.process_group import Interruption
from emcts.runs.provenance import Provenance, provenance
from emcts.training.progress import Progress, Trainer


@dataclass(frozen=True)
class RunResult:
    """The state that a run ended in: `finished` (exit code 0), `stopped` by a signal (143 or 130) or `broken` (1)."""

    state: str
    exit_code: int
    message: str


def drive(
    trainer: Trainer,
    folder: Folder,
    display: Display,
    command: str,
    loggers: Sequence[str] = DEFAULT_LOGGERS,
    stop: Callable[[LatestMetrics], bool] | None = None,
) -> RunResult:
    """Trains until all steps are done, a signal arrives, or a loss is not finite or explodes.

    If the process is killed at any moment, another call continues from the last checkpoint, and the files of the run
    are the same as without the interruption. In a group of processes each one calls this; the leader writes, shows
    and decides when to save. `loggers` are names of the table of loggers. `stop` ends training
    early, given the latest metrics of all seeds.
    """
    config = _with_steps(folder.config(), trainer.total_env_steps)
    if tuple(trainer.seeds) != config.seeds:
        raise ValueError(f"the trainer has seeds {list(trainer.seeds)}, the run {list(config.seeds)}")
    checkpoints = Checkpoints(folder.checkpoints, config.schedule.keep)
    lock = folder.lock() if process_group.is_leader() else nullcontext()
    with lock, Interruption() as interruption, display, _full_disk_explained(folder, checkpoints):
        state, env_steps = _restore_or_init(trainer, config, checkpoints, display.message)
        if process_group.is_leader():
            _store_steps(folder, config)
        made_by = provenance(command)
        with closing(_open_writer(folder, env_steps, trainer.total_env_steps, loggers)) as writer:
            clock, timer, settings = Clock(), SaveTimer(config.schedule), dict(flat(config.settings))

            def is_finished() -> bool:
                early = stop is not None and bool(process_group.broadcast(stop(writer.latest)))
                return early or env_steps >= trainer.total_env_steps

            over = is_finished()
            while not over:
                state, progress = trainer.advance(state)
                env_steps = progress.env_steps
                before = writer.latest
                writer.write(progress)
                display.show(clock.progress(env_steps, trainer.total_env_steps, writer.latest))
                for warning in new_warnings(before, writer.latest, settings):
                    display.message(warning)
                if (problem := _not_finite(trainer.seeds, progress)) is not None:
                    kept = checkpoints.save_broken(state, env_steps)
                    return _end(writer, made_by, display, _broken(problem, kept, checkpoints))
                if process_group.broadcast(writer.wants_maps(env_steps)):
                    writer.write_maps(env_steps, trainer.maps(state))
                interruption.add(process_group.maximum(interruption.signal or 0))
                over = is_finished() or interruption.signal is not None
                if process_group.broadcast(timer.is_due()) or over:
                    checkpoints.save(state, env_steps, mean(writer.latest, "return"), config.identity)
                    writer.write_summary("running", made_by)
            stopped = None if is_finished() else interruption
            if stopped is not None:
                result = _stopped(folder, env_steps, stopped)
            else:
                result = _finished(folder, env_steps, trainer.total_env_steps)
            return _end(writer, made_by, display, result)


def _with_steps(config: Config, total: int) -> Config:
    """Returns the configuration with the number of steps that the trainer has, which may be more than before."""
    if config.total_env_steps in (None, total):
        return config
    longer = dataclasses.replace(config, settings={**config.settings, TOTAL: total})
    refuse_changes(config.settings, longer.settings)
    return longer


def _store_steps(folder: Folder, config: Config) -> None:
    """Writes the number of steps, with the lock held: a run says of itself what is trained, and nothing else."""
    stored = folder.config()
    refuse_changes(stored.identity["names"], config.identity["names"])
    refuse_changes(stored.settings, config.settings)
    if stored.settings != config.settings:
        folder.write_config(config, folder.provenance())


@dataclass
class SaveTimer:
    """Decides, once per chunk, whether to save."""

    schedule: CheckpointSchedule
    chunks: int = 0
    since: float = field(default_factory=time.monotonic)

    def is_due(self) -> bool:
        self.chunks += 1
        if self.schedule.chunks is not None:
            due = self.chunks >= self.schedule.chunks
        else:
            due = time.monotonic() - self.since >= self.schedule.seconds
        if due:
            self.chunks, self.since = 0, time.monotonic()
        return due


def _restore_or_init(
    trainer: Trainer, config: Config, checkpoints: Checkpoints, message: Callable[[str], None]
) -> tuple[PyTree, int]:
    """Starts from the beginning without a checkpoint: the run is new, or was killed before its first."""
    before = checkpoints.identity()
    if before is not None:
        refuse_changes(before["names"], config.identity["names"])
        refuse_changes(before["settings"], config.identity["settings"])
    restored = checkpoints.restore(jax.eval_shape(trainer.init), shardings=trainer.shardings)
    if restored is None:
        return trainer.init(), 0
    for problem in restored.damaged:
        message(f"warning: {problem}; using an older checkpoint")
    message(f"resumes from step {restored.env_steps:,}")
    return restored.state, restored.env_steps


def _open_writer(
    folder: Folder, env_steps: int, total: int, loggers: Sequence[str]
) -> RunWriter | NullRunWriter:
    if process_group.is_leader():
        return RunWriter(folder, env_steps, total, loggers)
    return NullRunWriter()


def _not_finite(seeds: Sequence[int], progress: Progress) -> str | None:
    """Returns the seeds with a loss that is not finite, and their steps; None if there are none."""
    steps = progress.metrics.get("nan_step", np.full(len(seeds), np.nan))
    broken = [
        f"seed {seed} at step {step:,.0f}"
        for seed, step in zip(seeds, steps, strict=True)
        if np.isfinite(step)
    ]
    return ", ".join(broken) or None


def _broken(problem: str, kept: object, checkpoints: Checkpoints) -> RunResult:
    good = checkpoints.steps()
    last = f"the last good checkpoint is at step {good[-1]:,}" if good else "there is no earlier checkpoint"
    return RunResult(
        "broken",
        1,
        f"a loss was not finite or exploded: {problem}. The state is in {kept}; {last}. The same settings give the "
        "same result: start another run, for example with a lower learning rate",
    )


def _finished(folder: Folder, env_steps: int, total: int) -> RunResult:
    if env_steps < total:
        message = (
            f"ended and saved at step {env_steps:,} of {total:,}: `{folder.resume_command}` trains the rest"
        )
        return RunResult("finished", 0, message)
    longer = f"`{folder.resume_command} --steps N` trains it for longer"
    return RunResult("finished", 0, f"finished: {env_steps:,} steps of each seed in {folder.path}; {longer}")


def _stopped(folder: Folder, env_steps: int, interruption: Interruption) -> RunResult:
    message = f"stopped and saved at step {env_steps:,}: continue with `{folder.resume_command}`"
    return RunResult("stopped", interruption.exit_code, message)


def _end(
    writer: RunWriter | NullRunWriter, made_by: Provenance, display: Display, result: RunResult
) -> RunResult:
    writer.write_summary(result.state, made_by)
    writer.draw()
    display.message(result.message)
    return result


@contextmanager
def _full_disk_explained(folder: Folder, checkpoints: Checkpoints) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if not is_full_disk(error):
            raise
        steps = checkpoints.steps()
        where = f"from step {steps[-1]:,}" if steps else "from the beginning"
        raise DiskFull(
            f"the disk is full: {error}. Free some space, then `{folder.resume_command}` continues {where}"
        ) from error
