"""Device layouts: the default for a number of devices, parsing, and what is refused."""

from typing import Any

import pytest

from emcts.agents.catalogue import Registered
from emcts.training.devices import DeviceLayout, best_layout
from emcts.training.seeds import SeedTrainer


@pytest.mark.parametrize(
    ("seeds", "devices", "num_envs", "wanted"),
    [
        (20, 1, 2, DeviceLayout(1, 1)),
        (8, 8, 2, DeviceLayout(8, 1)),
        (20, 8, 2, DeviceLayout(4, 2)),
        (4, 8, 64, DeviceLayout(4, 2)),
        (1, 8, 64, DeviceLayout(1, 8)),
        (1, 8, 2, DeviceLayout(1, 2)),
        (5, 8, 1, DeviceLayout(5, 1)),
    ],
)
def test_seeds_come_first(seeds: int, devices: int, num_envs: int, wanted: DeviceLayout) -> None:
    assert best_layout(seeds, devices, lambda data: num_envs % data == 0) == wanted


def test_parse() -> None:
    assert DeviceLayout.parse("4x2") == DeviceLayout(4, 2)
    for text in ("4", "0x2", "4x", "4*2", "-1x2"):
        with pytest.raises(ValueError, match="give SEEDSxDATA"):
            DeviceLayout.parse(text)


def test_what_cannot_be_shared_is_refused() -> None:
    def trainer(agent: str, seeds: int) -> SeedTrainer[Any]:
        catalogue = Registered()
        settings = catalogue.settings("deep-sea", agent)
        return catalogue.trainer("deep-sea", agent, settings, tuple(range(seeds)))

    with pytest.raises(ValueError, match="3 seeds cannot be shared evenly by 2 groups"):
        trainer("e-az", 3).on(DeviceLayout(2, 1))
    with pytest.raises(ValueError, match="parallel episodes is 2, which 4 devices cannot share"):
        trainer("e-az", 4).on(DeviceLayout(1, 4))
    with pytest.raises(ValueError, match="bdqn is 1, which 2 devices cannot share"):
        trainer("bdqn", 4).on(DeviceLayout(1, 2))
    with pytest.raises(ValueError, match="are 64 devices, and there are"):
        DeviceLayout(64, 1).mesh()
