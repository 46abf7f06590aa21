"""Trains a run from where it stands to its end: restore, then advance, write down, show and save, in turn."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from emcts.runs import atomic, team
from emcts.runs.board import Board
from emcts.runs.checkpoints import Checkpoints
from emcts.runs.config import Config, Schedule, refuse_changes
from emcts.runs.display import Clock, Display
from emcts.runs.folder import Folder
from emcts.runs.interruption import Interruption
from emcts.runs.journal import Journal, Unwritten
from emcts.runs.provenance import provenance
from emcts.runs.summary import Latest, largest, mean
from emcts.runs.trainer import Progress, Trainer

OCCUPANCY = "table_occupancy"
CROWDED = 0.1  # the share of a hash table in use from which on a run warns


@dataclass(frozen=True)
class Ending:
    """How a run ended: `finished` (exit code 0), `stopped` by a signal (143 or 130) or `broken` (1)."""

    state: str
    exit_code: int
    message: str


def drive(
    trainer: Trainer,
    folder: Folder,
    display: Display,
    command: str,
    boards: Sequence[Board] = (),
    stop: Callable[[Latest], bool] | None = None,
) -> Ending:
    """Trains until the steps are done, a signal asks to stop, or a loss is not finite.

    Killed at any moment, the run goes on from its last checkpoint when this is called again, and what it writes down
    is the same as if nothing had happened. Processes that train the run together each call this; the one that leads
    writes down, shows, and decides when to save. `stop` ends the training early, given the latest metrics of all seeds.
    """
    config = folder.config()
    if tuple(trainer.seeds) != config.seeds:
        raise ValueError(f"the trainer has seeds {list(trainer.seeds)}, the run {list(config.seeds)}")
    checkpoints = Checkpoints(folder.checkpoints, config.schedule.keep)
    lock = folder.lock() if team.leads() else nullcontext()
    with lock, Interruption() as interruption, display, _full_disk_explained(folder, checkpoints):
        state, env_steps = _restore_or_init(trainer, config, checkpoints, display.say)
        made_by = provenance(command)
        with closing(_journal(folder, env_steps, trainer, boards)) as journal:
            clock, timer = Clock(), SaveTimer(config.schedule)

            def is_finished() -> bool:
                early = stop is not None and bool(team.told(stop(journal.latest)))
                return early or env_steps >= trainer.total_env_steps

            over = is_finished()
            while not over:
                state, progress = trainer.advance(state)
                env_steps = progress.env_steps
                before = journal.latest
                journal.write(progress)
                display.show(clock.standing(env_steps, trainer.total_env_steps, journal.latest))
                if (warning := _crowded(before, journal.latest, config)) is not None:
                    display.say(warning)
                if (problem := _not_finite(trainer.seeds, progress)) is not None:
                    kept = checkpoints.save_broken(state, env_steps)
                    return _end(journal, made_by, display, _broken(problem, kept, checkpoints))
                if team.told(journal.wants_maps(env_steps)):
                    journal.write_maps(env_steps, trainer.maps(state))
                interruption.heed(team.largest(interruption.signal or 0))
                over = is_finished() or interruption.signal is not None
                if team.told(timer.is_due()) or over:
                    checkpoints.save(state, env_steps, mean(journal.latest, "return"), _notes(config))
                    journal.write_summary("running", made_by)
            ending = (
                _finished(folder, env_steps) if is_finished() else _stopped(folder, env_steps, interruption)
            )
            return _end(journal, made_by, display, ending)


@dataclass
class SaveTimer:
    """Says, once a chunk, whether it is time to save."""

    schedule: Schedule
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
    trainer: Trainer, config: Config, checkpoints: Checkpoints, say: Callable[[str], None]
) -> tuple[PyTree, int]:
    """A run without a checkpoint starts from the beginning: it was killed before its first."""
    before = checkpoints.notes()
    if before is not None:
        now = _notes(config)
        refuse_changes(before["names"], now["names"])
        refuse_changes(before["settings"], now["settings"])
    restored = checkpoints.restore(jax.eval_shape(trainer.init), shardings=trainer.shardings)
    if restored is None:
        return trainer.init(), 0
    for problem in restored.damaged:
        say(f"warning: {problem}; taking an older checkpoint")
    say(f"goes on from step {restored.env_steps:,}")
    return restored.state, restored.env_steps


def _journal(
    folder: Folder, env_steps: int, trainer: Trainer, boards: Sequence[Board]
) -> Journal | Unwritten:
    return Journal(folder, env_steps, trainer.total_env_steps, boards) if team.leads() else Unwritten()


def _notes(config: Config) -> dict[str, Any]:
    """What a checkpoint belongs to."""
    names = {"environment": config.environment, "agent": config.agent, "seeds": list(config.seeds)}
    return {"names": names, "settings": config.settings}


def _not_finite(seeds: Sequence[int], progress: Progress) -> str | None:
    """Which seed broke where, if one did."""
    steps = progress.metrics.get("nan_step", np.full(len(seeds), np.nan))
    broken = [
        f"seed {seed} at step {step:,.0f}"
        for seed, step in zip(seeds, steps, strict=True)
        if np.isfinite(step)
    ]
    return ", ".join(broken) or None


def _crowded(before: Latest, now: Latest, config: Config) -> str | None:
    """A warning when a hash table has become too full, which it does once in a run."""
    fullest = largest(now, OCCUPANCY) or 0.0
    if fullest <= CROWDED or (largest(before, OCCUPANCY) or 0.0) > CROWDED:
        return None
    bits = config.settings.get("hash_bits")
    advice = "raise --hash-bits" + (f", which is {bits}" if bits is not None else "")
    return (
        f"warning: {fullest:.1%} of the hash table is in use, and as much of what is new looks seen. This run goes "
        f"on; for the next one {advice}: each bit more halves the share"
    )


def _broken(problem: str, kept: object, checkpoints: Checkpoints) -> Ending:
    good = checkpoints.steps()
    last = (
        f"the last good checkpoint is at step {good[-1]:,}" if good else "there is no checkpoint from before"
    )
    return Ending(
        "broken",
        1,
        f"a loss was not finite: {problem}. The state is kept in {kept}; {last}. The same settings lead there "
        "again: start another run, with a lower learning rate to begin with",
    )


def _finished(folder: Folder, env_steps: int) -> Ending:
    longer = f"`emcts resume {folder.path} --steps N` trains it for longer"
    return Ending("finished", 0, f"finished: {env_steps:,} steps of each seed in {folder.path}; {longer}")


def _stopped(folder: Folder, env_steps: int, interruption: Interruption) -> Ending:
    message = f"stopped and saved at step {env_steps:,}: go on with `emcts resume {folder.path}`"
    return Ending("stopped", interruption.exit_code, message)


def _end(
    journal: Journal | Unwritten, made_by: dict[str, object], display: Display, ending: Ending
) -> Ending:
    journal.write_summary(ending.state, made_by)
    journal.draw()
    display.say(ending.message)
    return ending


@contextmanager
def _full_disk_explained(folder: Folder, checkpoints: Checkpoints) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if not atomic.is_full_disk(error):
            raise
        steps = checkpoints.steps()
        where = f"from step {steps[-1]:,}" if steps else "from the beginning"
        raise atomic.DiskFull(
            f"the disk is full: {error}. Free some space, then `emcts resume {folder.path}` goes on {where}"
        ) from error
