"""The folder of compiled programs: where it is, when it is used, and how large it gets."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import jax
import pytest

from emcts.cli import compilation_cache
from emcts.cli.compilation_cache import OF_JAX, SWITCH, use_compilation_cache


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache folder of its own; what the tests' own processes use is restored."""
    before = jax.config.values["jax_compilation_cache_dir"]
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv(OF_JAX)
    yield tmp_path
    os.environ.pop(OF_JAX, None)
    jax.config.update("jax_compilation_cache_dir", before)


def test_it_is_in_the_users_cache_folder(home: Path) -> None:
    folder = use_compilation_cache()
    assert folder is not None
    assert folder.parent == home / "emcts"
    assert os.environ[OF_JAX] == jax.config.values["jax_compilation_cache_dir"] == str(folder)
    assert folder.stat().st_mode & 0o077 == 0


def test_it_can_be_turned_off_or_be_another_one(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SWITCH, "0")
    assert use_compilation_cache() is None
    monkeypatch.delenv(SWITCH)
    monkeypatch.setenv(OF_JAX, "another")
    assert use_compilation_cache() is None
    assert os.environ[OF_JAX] == "another"
    assert not (home / "emcts").exists()


def test_a_folder_that_others_can_write_is_not_used(home: Path) -> None:
    folder = use_compilation_cache()
    assert folder is not None
    os.environ.pop(OF_JAX)
    folder.chmod(0o777)
    assert use_compilation_cache() is None
    folder.rmdir()
    folder.symlink_to(home)
    assert use_compilation_cache() is None


def test_no_folder_is_no_error(home: Path) -> None:
    (home / "emcts").write_text("a file")
    assert use_compilation_cache() is None


def test_the_oldest_programs_go_first(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = use_compilation_cache()
    assert folder is not None
    os.environ.pop(OF_JAX)
    now = time.time()
    for age in range(4):
        (folder / f"{age}-cache").write_bytes(b"x" * 100)
        os.utime(folder / f"{age}-cache", (now - age, now - age))
    monkeypatch.setattr(compilation_cache, "MOST_BYTES", 250)
    use_compilation_cache()
    assert sorted(file.name for file in folder.iterdir()) == ["0-cache", "1-cache"]


@pytest.mark.long
def test_a_second_run_compiles_less(home: Path) -> None:
    command = [sys.executable, "-m", "emcts", "train", "deep-sea", "--agent", "e-az", "--steps", "240"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")}

    def seconds(out: str) -> float:
        began = time.monotonic()
        subprocess.run([*command, "--out", str(home / out)], env=environment, check=True, capture_output=True)
        return time.monotonic() - began

    first = seconds("one")
    assert list((home / "emcts").rglob("*-cache"))
    assert seconds("two") < 0.7 * first
