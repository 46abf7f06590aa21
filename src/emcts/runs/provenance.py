"""The command, code and machine that made a run."""

import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path
from typing import TypedDict

import jax

import emcts


class Provenance(TypedDict, total=False):
    """Part of `config.json`, `summary.json` and `evaluation.json`."""

    command: str
    commit: str | None
    versions: dict[str, str]
    device: str
    machine: str


def provenance(command: str) -> Provenance:
    """Returns the command with the commit, versions and machine that it runs on."""
    device = jax.devices()[0]
    return {
        "command": command,
        "commit": commit(),
        "versions": {
            "emcts": emcts.__version__,
            "jax": jax.__version__,
            "orbax-checkpoint": _version("orbax-checkpoint"),
            "python": platform.python_version(),
        },
        "device": device.device_kind if device.platform != "cpu" else f"CPU, {os.cpu_count()} cores",
        "machine": f"{platform.system()} {platform.machine()}",
    }


def commit() -> str | None:
    """Returns EMCTS_COMMIT if it is set, else the commit of the checkout of this file; None outside of a checkout."""
    given = os.environ.get("EMCTS_COMMIT")
    if given:
        return given
    root = Path(__file__).parents[3]
    if not (root / ".git").exists():
        return None
    command = ["git", "rev-parse", "--short", "HEAD"]
    try:
        run = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return run.stdout.strip() or None


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"
