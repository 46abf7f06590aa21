"""Trains a run of a real agent in many processes, all but the last of which are killed at random moments.

Prints a JSON list of `[step it began at, newest checkpoint after the kill, whether training had begun]`, one for each
kill. The processes are forks of this one, which has imported everything and computed nothing.
"""

import json
import os
import random
import select
import signal
import sys
import time
from pathlib import Path

from emcts.runs import pacing
from emcts.runs.checkpoints import Checkpoints
from emcts.runs.config import stored_settings
from emcts.runs.drive import drive
from emcts.runs.folder import Folder
from emcts.runs.logging import run_writer
from emcts.runs.logging.display import Display
from emcts.training.seeds import SeedTrainer
from tests.agents.tiny import CATALOGUE

START_SECONDS = 6.0  # of a process, in which a kill may come before it trains
TRAIN_SECONDS = 2.5  # of training, at most, before a kill


def child(folder: Folder, began: int | None) -> None:
    """Trains to the end. With a descriptor, it saves after nearly every iteration, and says when training begins."""
    run_writer.draw_run = lambda folder, out: out  # a picture takes longer than all of the run
    config = folder.config()
    trainer = CATALOGUE.trainer(
        config.environment, config.agent, stored_settings(config, CATALOGUE), config.seeds
    )
    if began is not None:
        pacing.PIECE_SECONDS = pacing.FIRST_SAVE_SECONDS = 0.0
        run_piece = SeedTrainer.run_piece

        def said(self, state, chunk, iterations):
            os.write(began, b".")
            return run_piece(self, state, chunk, iterations)

        SeedTrainer.run_piece = said  # type: ignore[method-assign]
    drive(trainer, folder, Display(), "emcts train")


def newest(folder: Folder) -> int:
    return max(Checkpoints(folder.checkpoints).steps(), default=0)


def fork(folder: Folder, began: int | None) -> int:
    process = os.fork()
    if process == 0:
        status = 1
        try:
            child(folder, began)
            status = 0
        finally:
            os._exit(status)
    return process


def kill_one(folder: Folder, draw: random.Random) -> tuple[int, int, bool]:
    """One in five is killed at any moment of its start, the others while they train, evaluate or save."""
    reads, writes = os.pipe()
    before, process = newest(folder), fork(folder, writes)
    os.close(writes)
    patience = draw.uniform(0, START_SECONDS) if draw.random() < 0.2 else 600.0
    is_training = bool(select.select([reads], [], [], patience)[0])
    if is_training:
        time.sleep(draw.uniform(0, TRAIN_SECONDS))
    os.kill(process, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    os.close(reads)
    if status != -signal.SIGKILL:
        raise RuntimeError(f"ended with {status} before it was killed: give it more steps")
    return before, newest(folder), is_training


def main(path: Path, kills: int, seed: int) -> None:
    folder, draw = Folder.open(path), random.Random(seed)
    reported = [kill_one(folder, draw) for _ in range(kills)]
    status = os.waitstatus_to_exitcode(os.waitpid(fork(folder, None), 0)[1])
    if status:
        raise RuntimeError(f"the last process ended with {status}")
    print(json.dumps(reported))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
