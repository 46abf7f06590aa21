"""Where and from what a result was made."""

import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax


def provenance(command: str) -> dict[str, Any]:
    """The command, commit, versions and machine that a results file carries."""
    device = jax.devices()[0]
    return {
        "command": command,
        "commit": _commit(),
        "python": sys.version.split()[0],
        "jax": jax.__version__,
        "device": device.device_kind if device.platform != "cpu" else f"CPU, {os.cpu_count()} cores",
        "system": f"{platform.system()} {platform.machine()}",
    }


def _commit() -> str:
    given = os.environ.get("EMCTS_COMMIT")
    if given:
        return given
    here = Path(__file__).parent
    run = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=here, capture_output=True, text=True, check=False
    )
    return run.stdout.strip() or "unknown"
