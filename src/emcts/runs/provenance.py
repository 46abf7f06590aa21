"""Where and from what a run was made."""

import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

import jax


def provenance(command: str) -> dict[str, Any]:
    """The command, commit, versions and machine that the files of a run carry."""
    device = jax.devices()[0]
    return {
        "command": command,
        "commit": commit(),
        "versions": {
            "emcts": _version("emcts"),
            "jax": jax.__version__,
            "orbax-checkpoint": _version("orbax-checkpoint"),
            "python": platform.python_version(),
        },
        "device": device.device_kind if device.platform != "cpu" else f"CPU, {os.cpu_count()} cores",
        "machine": f"{platform.system()} {platform.machine()}",
    }


def commit() -> str | None:
    """Of the checkout that this file is in, unless EMCTS_COMMIT says another; None where it is in none."""
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
