"""The mesh that a run trains on: seeds along one axis, the data of a seed along the other."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import jax
import numpy as np
from jax.sharding import AxisType, Mesh

from emcts.training.data_parallel import AXIS

SEEDS = "seeds"


@dataclass(frozen=True)
class DeviceLayout:
    """`seeds` groups of devices share the seeds; a group shards the data of each of its seeds over `data` devices."""

    seeds: int = 1
    data: int = 1

    @classmethod
    def parse(cls, text: str) -> "DeviceLayout":
        """Parses SEEDSxDATA: 4x2 is 4 groups of 2 devices."""
        found = re.fullmatch(r"([1-9]\d*)x([1-9]\d*)", text)
        if not found:
            raise ValueError(f"devices {text!r}: give SEEDSxDATA, such as 4x2 for 4 groups of 2 devices")
        return cls(int(found[1]), int(found[2]))

    @property
    def size(self) -> int:
        return self.seeds * self.data

    def mesh(self) -> Mesh:
        """Returns a mesh over the first devices of all processes."""
        devices = jax.devices()
        if self.size > len(devices):
            raise ValueError(
                f"{self.seeds}x{self.data} are {self.size} devices, and there are {len(devices)}"
            )
        grid = np.array(devices[: self.size]).reshape(self.seeds, self.data)
        return Mesh(grid, (SEEDS, AXIS), axis_types=(AxisType.Auto, AxisType.Auto))


def best_layout(num_seeds: int, num_devices: int, can_share: Callable[[int], bool]) -> DeviceLayout:
    """Returns the layout that uses the most devices; of several, the one with the most groups, which communicate least.

    `can_share` tells whether a seed can be sharded over a number of devices.
    """
    fitting = [
        DeviceLayout(seeds, data)
        for seeds in _divisors(num_seeds)
        for data in range(1, num_devices // seeds + 1)
        if can_share(data)
    ]
    return max(fitting, key=lambda layout: (layout.size, layout.seeds))


def _divisors(number: int) -> Sequence[int]:
    return [divisor for divisor in range(1, number + 1) if number % divisor == 0]
