"""The address that the coordinator of several processes listens on."""

import socket
from pathlib import Path
from typing import Any

import jax
import pytest

from emcts.cli.distributed import BIND, bind_address, join_process_group
from emcts.cli.train import train
from emcts.runs import process_group
from emcts.runs.config import CheckpointSchedule, Config, plain
from emcts.runs.folder import Folder
from tests.runs.toy import ToyCatalogue, ToySettings, ToyTrainer


@pytest.fixture
def initialised(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    calls: list[Any] = []
    monkeypatch.delenv(BIND, raising=False)
    monkeypatch.setattr(jax.distributed, "initialize", lambda *_, **named: calls.append(named))
    return calls


def join(process: int, coordinator: str = "127.0.0.1:4321") -> None:
    where = ("--coordinator", coordinator, "--processes", "2", "--process", str(process))
    join_process_group(["deep-sea", "--distributed", *where])


def test_the_coordinator_listens_on_the_given_address(
    initialised: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    join(0)
    join(1)
    join_process_group(["deep-sea", "--distributed"])
    monkeypatch.setenv(BIND, "[::]:4321")
    join(0)
    bound = [call["coordinator_bind_address"] for call in initialised]
    assert bound == ["127.0.0.1:4321", None, None, None]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("10.1.2.3:80", "10.1.2.3:80"),
        ("[::1]:80", "[::1]:80"),
        ("localhost:80", ("127.0.0.1:80", "[::1]:80")),
    ],
)
def test_addresses(given: str, expected: str | tuple[str, ...]) -> None:
    assert bind_address(given) in ((expected,) if isinstance(expected, str) else expected)


@pytest.mark.parametrize("given", ["host", ":80", "host:", "host:x", "10.0.0.1:0", "10.0.0.1:65536"])
def test_what_is_no_address_is_refused(given: str) -> None:
    with pytest.raises(ValueError, match="give HOST:PORT"):
        bind_address(given)


def test_a_name_that_only_this_machine_reaches_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Debian gives a machine's own name the address 127.0.1.1."""
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.1.1", 80))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    with pytest.raises(ValueError, match="node0 is 127.0.1.1 on this machine, which others cannot reach"):
        bind_address("node0:80")

    def unknown(*_: Any, **__: Any) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(ValueError, match="node0 has no address here"):
        bind_address("node0:80")


@pytest.mark.parametrize("process", [0, 1])
@pytest.mark.usefixtures("toys")
def test_a_run_that_fails_early_leaves_no_folder(monkeypatch: pytest.MonkeyPatch, process: int) -> None:
    """The leader, which made it, removes it; another process leaves it alone."""

    def fail(self: ToyTrainer) -> None:
        raise ValueError("an early failure")

    path = Path("runs/a")
    if process:  # the leader has made it
        config = Config(
            "plain", "walker", None, (0, 1), plain(ToySettings().resolved()), CheckpointSchedule()
        )
        Folder.create(path, config, {})
    monkeypatch.setattr(ToyTrainer, "init", fail)
    monkeypatch.setattr(jax, "process_count", lambda: 2)
    monkeypatch.setattr(jax, "process_index", lambda: process)
    monkeypatch.setattr(process_group, "broadcast_text", lambda text: str(path))
    with pytest.raises(ValueError, match="an early failure"):
        train(["plain", "--agent", "walker", "--seeds", "2", "--out", str(path)], ToyCatalogue())
    assert path.exists() == bool(process)
