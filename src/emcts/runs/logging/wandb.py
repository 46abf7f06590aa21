"""Weights & Biases, an optional package."""

import zlib
from collections.abc import Iterable
from importlib import import_module

from emcts.runs.folder import Folder
from emcts.runs.logging.metrics import MetricsLine, metrics_of


class WeightsAndBiases:
    """One W&B run for all seeds: a metric's name ends with the seed."""

    def __init__(self, folder: Folder, env_steps: int) -> None:
        path = folder.path.absolute()
        # A folder is the same W&B run after a resume; another folder of the same name is not.
        identity = f"{path.name}-{zlib.crc32(str(path).encode()):08x}"
        config = folder.config().to_json()
        self.run = import_module("wandb").init(
            project="emcts", id=identity, name=path.name, config=config, resume="allow"
        )

    def write(self, lines: Iterable[MetricsLine]) -> None:
        for line in lines:
            values = {f"{name}/seed-{line['seed']}": value for name, value in metrics_of(line).items()}
            self.run.log({**values, "env_steps": line["env_steps"]}, step=line["env_steps"])

    def close(self) -> None:
        self.run.finish()
