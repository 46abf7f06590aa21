"""Trains a run from its last checkpoint to its end: restores, then advances, writes, shows and saves in a loop."""

import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, field, replace

import jax
import numpy as np
from jaxtyping import PyTree

from emcts.runs import process_group
from emcts.runs.checkpoints import Checkpoints, Template
from emcts.runs.config import TOTAL, Config, flat, refuse_changes
from emcts.runs.files import DiskFull, is_full_disk
from emcts.runs.folder import Folder
from emcts.runs.logging.display import COMPILING, Clock, Display
from emcts.runs.logging.loggers import DEFAULT_LOGGERS
from emcts.runs.logging.metrics import LatestMetrics, mean, new_warnings
from emcts.runs.logging.run_writer import NullRunWriter, RunWriter
from emcts.runs.offline import first_state
from emcts.runs.pacing import PieceLength, SaveTimer
from emcts.runs.process_group import Interruption
from emcts.runs.provenance import provenance
from emcts.runs.stopping import REMOVED, SAVING, Now
from emcts.training.progress import Piece, Progress, Trainer


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
    *,
    is_new: bool = False,
) -> RunResult:
    """Trains until all steps are done, a signal arrives, or a loss is not finite or explodes.

    If the process is killed at any moment, another call continues from the last checkpoint, and the files of the run
    are the same as without the interruption. In a group of processes each one calls this; the leader writes, shows
    and decides when to save. `loggers` are names of the table of loggers. `stop` ends training
    early, after a chunk, given the latest metrics of all seeds. A run that `is_new` and is stopped by a signal before
    anything was trained leaves no folder.
    """
    config = _with_steps(folder.config(), trainer.total_env_steps)
    if tuple(trainer.seeds) != config.seeds:
        raise ValueError(f"the trainer has seeds {list(trainer.seeds)}, the run {list(config.seeds)}")
    checkpoints = Checkpoints(folder.checkpoints, config.schedule.keep)
    now = Now(folder, checkpoints, display, is_new=is_new)
    lock = folder.lock() if process_group.is_leader() else nullcontext()
    interruption = Interruption(now.stopping, now.leave)
    with lock, display, interruption, _full_disk_explained(folder, checkpoints):
        with display.busy("starting"):
            start = _restore_or_init(trainer, config, checkpoints, display.message)
        if process_group.is_leader():
            _store_steps(folder, config)
        with closing(_open_writer(folder, start.env_steps, trainer.total_env_steps, loggers)) as writer:
            run = DrivenRun(trainer, config, checkpoints, display, writer, interruption, now, stop, start)
            made_by = provenance(command)
            result = run.train(lambda: writer.write_summary("running", made_by))
            writer.write_summary(result.state, made_by)
            writer.draw()
        is_untrained = is_new and result.state == "stopped" and process_group.is_leader()
        if is_untrained and folder.discard_untrained():
            result = replace(
                result, message=f"stopped before anything was trained: {REMOVED.format(folder.path)}"
            )
        display.message(result.message)
        return result


@dataclass(frozen=True)
class Position:
    """Where training is: the state, and the chunk that has begun, if one has."""

    state: PyTree
    env_steps: int
    chunk: PyTree | None = None


@dataclass
class DrivenRun:
    """A run while it is trained."""

    trainer: Trainer
    config: Config
    checkpoints: Checkpoints
    display: Display
    writer: RunWriter | NullRunWriter
    interruption: Interruption
    now: Now
    stop: Callable[[LatestMetrics], bool] | None
    position: Position
    clock: Clock = field(default_factory=Clock)
    evaluation_seconds: float | None = None  # of the last
    is_unsaved: bool = False

    def train(self, saved: Callable[[], None]) -> RunResult:
        """Trains to the end, and calls `saved` after each save but the last."""
        over = self._is_over()
        if not over:
            self._compile()
        timer, length, is_finite = SaveTimer(self.config.schedule), PieceLength(), True
        self.clock.start(self.position.env_steps)
        while not over and not self._is_interrupted():
            piece = self._train_piece(length)
            is_finite = piece.is_finite
            if piece.is_last and (broken := self._end_chunk()) is not None:
                return broken
            over = self._is_over()
            is_due = process_group.broadcast(timer.is_due(in_chunk=self.position.chunk is not None))
            if is_due and is_finite:
                self._save()
                saved()
        if self.is_unsaved and is_finite:
            self._save()
        return self._result(is_finite)

    def _compile(self) -> None:
        for name, compile_now in self.trainer.compilations(self.position.state).items():
            with self.display.busy(f"{COMPILING} {name}", done=f"compiled {name}"):
                compile_now()

    def _is_over(self) -> bool:
        if self.position.chunk is not None:
            return False
        early = self.stop is not None and bool(process_group.broadcast(self.stop(self.writer.latest)))
        return early or self.position.env_steps >= self.trainer.total_env_steps

    def _is_interrupted(self) -> bool:
        """Returns whether any process of the group got a signal: all of them stop after the same piece."""
        self.interruption.add(process_group.maximum(self.interruption.signal or 0))
        self.now.is_stopping |= self.interruption.signal is not None
        return self.interruption.signal is not None

    def _train_piece(self, length: PieceLength) -> Piece:
        chunk = self.trainer.begin_chunk() if self.position.chunk is None else self.position.chunk
        self.now.does("this piece of training", length.seconds)
        began = time.monotonic()
        with self.display.busy("training"):
            state, chunk, piece = self.trainer.run_piece(
                self.position.state, chunk, process_group.broadcast(length.iterations)
            )
        length.update(piece, time.monotonic() - began)
        self.position, self.is_unsaved = Position(state, piece.env_steps, chunk), True
        if piece.is_report_due:
            self._write(self.trainer.report(state, chunk))
        if not piece.is_last:
            self._show(in_chunk=True)
        return piece

    def _end_chunk(self) -> RunResult | None:
        """Evaluates and writes; returns the result if that is the end because of a loss."""
        self.now.does("this evaluation", self.evaluation_seconds)
        began = time.monotonic()
        with self.display.busy("evaluating"):
            state, progress = self.trainer.end_chunk(self.position.state, self.position.chunk)
        self.evaluation_seconds = time.monotonic() - began
        self.position = Position(state, progress.env_steps)
        self._write(progress)
        self._show()
        if (problem := _not_finite(self.trainer.seeds, progress)) is not None:
            kept = self.checkpoints.save_broken(state, progress.env_steps)
            return _broken(problem, kept, self.checkpoints)
        if process_group.broadcast(self.writer.wants_maps(progress.env_steps)):
            self.writer.write_maps(progress.env_steps, self.trainer.maps(state))
        return None

    def _write(self, progress: Progress) -> None:
        before = self.writer.latest
        self.writer.write(progress)
        for warning in new_warnings(before, self.writer.latest, dict(flat(self.config.settings))):
            self.display.message(warning)

    def _show(self, in_chunk: bool = False) -> None:
        latest = {seed: self.writer.latest.get(seed, {}) for seed in self.trainer.seeds}
        steps, total = self.position.env_steps, self.trainer.total_env_steps
        self.display.show(self.clock.progress(steps, total, latest, in_chunk))

    def _save(self) -> None:
        self.now.does(SAVING)
        position = self.position
        # Between two evaluations nothing is known of the score.
        score = mean(self.writer.latest, "return") if position.chunk is None else None
        with self.display.busy("saving"):
            self.checkpoints.save(
                position.state, position.env_steps, score, self.config.identity, position.chunk
            )
        self.is_unsaved = False

    def _result(self, is_finite: bool) -> RunResult:
        folder, steps, total = self.now.folder, self.position.env_steps, self.trainer.total_env_steps
        if self.interruption.signal is None or self._is_over():
            return _finished(folder, steps, total)
        return _stopped(folder, steps if is_finite else None, self.checkpoints, self.interruption)


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


def _restore_or_init(
    trainer: Trainer, config: Config, checkpoints: Checkpoints, message: Callable[[str], None]
) -> Position:
    """Starts from the beginning without a checkpoint: the run is new, or was killed before its first."""
    before = checkpoints.identity()
    if before is not None:
        refuse_changes(before["names"], config.identity["names"])
        refuse_changes(before["settings"], config.identity["settings"])
    restored = checkpoints.restore(
        jax.eval_shape(trainer.init),
        shardings=trainer.shardings,
        chunk=lambda: Template(jax.eval_shape(trainer.begin_chunk), trainer.chunk_shardings),
    )
    if restored is None:
        return Position(first_state(trainer, config), 0)
    for problem in restored.damaged:
        message(f"warning: {problem}; using an older checkpoint")
    message(f"resumes from step {restored.env_steps:,}")
    return Position(restored.state, restored.env_steps, restored.chunk)


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
    trained = f"{env_steps:,} steps of each seed"
    if env_steps > total:
        trained += f" (whole iterations: {total:,} were asked for)"
    return RunResult("finished", 0, f"finished: {trained} in {folder.path}; {longer}")


def _stopped(
    folder: Folder, env_steps: int | None, checkpoints: Checkpoints, interruption: Interruption
) -> RunResult:
    """Without a step the state must not be saved."""
    saved, resume = checkpoints.steps(), f"continue with `{folder.resume_command}`"
    if env_steps is None:
        last = f"from step {saved[-1]:,}" if saved else "from the beginning"
        message = f"stopped without saving, since a loss was not finite or exploded: {resume}, {last}"
    elif env_steps in saved:
        message = f"stopped and saved at step {env_steps:,}: {resume}"
    else:
        message = f"stopped before anything was trained: {resume}"
    return RunResult("stopped", interruption.exit_code, message)


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
