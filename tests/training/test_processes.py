"""A run of two processes on one machine: trained, interrupted, and resumed by one process."""

import ipaddress
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from emcts.runs.folder import Folder, status
from tests.agents.tiny import BDQN, options

TRAIN = ("train", "deep-sea", "--agent", "bdqn", "--seeds", "2", "--out", "run", "--checkpoint-chunks", "1")
SMALL = {**BDQN, "env.size": 5}
PATIENCE = 400.0


def start(folder: Path, *arguments: str) -> "subprocess.Popen[str]":
    path = os.pathsep.join([str(Path.cwd() / "src"), *sys.path])
    return subprocess.Popen(
        [sys.executable, "-m", "emcts", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def listening_on(port: int) -> set[str]:
    """The addresses of this machine that a process listens on, by Linux' table of sockets."""
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path("/proc/net", table).read_text().splitlines()[1:]:
            address, _, number = line.split()[1].rpartition(":")
            if int(number, 16) == port and line.split()[3] == "0A":
                words = [
                    bytes.fromhex(address[start : start + 8])[::-1] for start in range(0, len(address), 8)
                ]
                found.add(str(ipaddress.ip_address(b"".join(words))).replace("::ffff:7f00:1", "127.0.0.1"))
    return found


def start_two(folder: Path, port: int, *arguments: str) -> list["subprocess.Popen[str]"]:
    how = ("--distributed", "--coordinator", f"127.0.0.1:{port}", "--processes", "2", "--process")
    return [start(folder, *arguments, *how, str(process)) for process in range(2)]


def training(steps: int) -> list[str]:
    return [*TRAIN, *options({**SMALL, "steps": steps})]


def test_two_processes_train_one_dies_and_one_resumes(tmp_path: Path) -> None:
    steps = 1_000_000  # more than are trained before one is killed
    port = free_port()
    pair = start_two(tmp_path, port, *training(steps))
    try:
        saved = tmp_path / "run" / "checkpoints"
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline and len(list(saved.glob("step-*"))) < 2:
            assert all(process.poll() is None for process in pair), [p.communicate() for p in pair]
            time.sleep(0.1)
        assert listening_on(port) == {"127.0.0.1"}, "the coordinator is open to no other machine"
        pair[1].send_signal(signal.SIGKILL)
        out, errors = pair[0].communicate(timeout=PATIENCE)
    finally:
        for process in pair:
            process.kill()
    assert pair[0].returncode != 0
    assert "another process of this run died" in errors
    assert "`emcts resume run` continues from step" in errors
    assert "2 seeds" in out
    assert pair[1].communicate()[0].count("steps") == 0, "one process alone displays progress"
    began = status(Folder.open(tmp_path / "run")).env_steps
    assert began >= 200
    resumes(tmp_path, began)


def resumes(folder: Path, began: int) -> None:
    """Resumes in one process until it has saved once, then stops it."""
    alone = start(folder, "resume", "run")
    try:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline and status(Folder.open(folder / "run")).env_steps <= began:
            assert alone.poll() is None, alone.communicate()
            time.sleep(0.1)
        alone.send_signal(signal.SIGTERM)
        out, errors = alone.communicate(timeout=PATIENCE)
    finally:
        alone.kill()
    assert f"resumes from step {began:,}" in out
    assert alone.returncode == 128 + signal.SIGTERM, errors
    steps = [
        int(line["env_steps"]) for line in Folder.open(folder / "run").metrics.read() if line["seed"] == 0
    ]
    expected = [1, 2, 4, 8, 16, 32, 64, *range(100, steps[-1] + 1, 100)]
    assert steps == expected, "no report and no chunk is missing, and none is there twice"


@pytest.mark.parametrize("process", [0, 1])
def test_incomplete_addresses_are_refused(tmp_path: Path, process: int) -> None:
    done = start(tmp_path, *training(100), "--distributed", "--process", str(process))
    _, errors = done.communicate(timeout=PATIENCE)
    assert done.returncode == 2
    assert "give all of --coordinator, --processes and --process" in errors
