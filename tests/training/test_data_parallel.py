"""One seed on several devices, and several seeds: the same training, each device with its shard of it."""

import functools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.training.eight_devices import CASES

EIGHT = "--xla_force_host_platform_device_count=8"


# One case covers groups of seeds and shards of episodes; the others take minutes on two cores.
NAMES = [pytest.param(name, marks=[] if name == "counts" else pytest.mark.long) for name in CASES]


@functools.cache
def results(name: str) -> Any:
    script = Path(__file__).with_name("eight_devices.py")
    path = os.pathsep.join([str(Path.cwd()), *sys.path])
    done = subprocess.run(
        [sys.executable, str(script), name],
        env={**os.environ, "XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} {EIGHT}", "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])[name]


@pytest.mark.parametrize("name", NAMES)
def test_devices_do_not_change_the_learning_curve(name: str) -> None:
    single, *sharded = CASES[name].layouts
    for layout in sharded:
        for metric, wanted in results(name)[single]["curve"].items():
            found = results(name)[layout]["curve"][metric]
            np.testing.assert_allclose(found, wanted, rtol=2e-3, atol=2e-4, err_msg=f"{layout} {metric}")


@pytest.mark.parametrize("name", NAMES)
def test_each_device_has_its_shard_of_the_episodes(name: str) -> None:
    for layout in CASES[name].layouts:
        groups, devices = map(int, layout.split("x"))
        for shape in results(name)[layout]["replay"]:
            assert shape[0] == CASES[name].num_seeds // groups
            assert shape[2] == 8 // devices


@pytest.mark.parametrize("name", NAMES)
def test_what_is_learned_is_the_same_on_all_devices(name: str) -> None:
    assert all(result["alike"] for result in results(name).values())


@pytest.mark.long
def test_each_device_has_its_share_of_the_work() -> None:
    """Searches and updates of eight episodes and batches, over eight devices: what all do alike is small."""
    work = {layout: result["flops"] for layout, result in results("subleq").items()}
    assert work["1x8"] < work["1x1"] / 4
