"""The values that each setting may have, checked before a run is created."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

MOST = 2**31 - 1  # of whole numbers, but for steps: arrays have no more elements along an axis


@dataclasses.dataclass(frozen=True)
class Range:
    """Numbers from `low` to `high`, without `low` itself if it is `above`."""

    low: int | float = -math.inf
    high: int | float = math.inf
    above: bool = False

    def __contains__(self, number: int | float) -> bool:
        return (
            math.isfinite(number)
            and self.low <= number <= self.high
            and not (self.above and number == self.low)
        )

    def __str__(self) -> str:
        """Completes `give ...`."""
        if self.low == -math.inf:
            return "a finite number"
        if self.above:
            return f"a finite number above {self.low:g}"
        return (
            f"at least {self.low:g}"
            if self.high == math.inf
            else f"a number from {self.low:g} to {self.high:g}"
        )


POSITIVE, NOT_NEGATIVE, FRACTION = Range(0, above=True), Range(0), Range(0, 1)
COUNT = Range(1)
LEARNING_RATE = Range(0, 1)  # of Adam, which moves each weight by about as much in an update
RANGES: Mapping[str, Range] = {
    "steps": COUNT,
    "offline_steps": COUNT,
    "discount": FRACTION,
    "return_range": POSITIVE,
    "search.simulations": COUNT,
    "search.discount": FRACTION,
    "search.temperature": NOT_NEGATIVE,
    "search.gumbel_scale": NOT_NEGATIVE,
    "search.dirichlet_fraction": FRACTION,
    "exploration.num_exploiting": NOT_NEGATIVE,
    "exploration.temperature": POSITIVE,
    "novelty.return_range": POSITIVE,
    "novelty.unseen_variance": NOT_NEGATIVE,
    "novelty.max_variance": POSITIVE,
    "novelty.count_epsilon": POSITIVE,
    "novelty.hash_bits": Range(1, 31),
    "novelty.simhash_bits": COUNT,
    "novelty.bins": NOT_NEGATIVE,
    "novelty.features": NOT_NEGATIVE,
    "novelty.feature_length": POSITIVE,
    "novelty.rnd_width": COUNT,
    "novelty.ensemble_size": COUNT,
    "novelty.ensemble_prior": NOT_NEGATIVE,
    "novelty.learning_rate": LEARNING_RATE,
    "novelty.adam_epsilon": POSITIVE,
    "novelty.power": POSITIVE,
    "novelty.saturation": POSITIVE,
    "model.width": COUNT,
    "model.depth": NOT_NEGATIVE,
    "model.channels": COUNT,
    "model.latent": COUNT,
    "search.backup_exponent": Range(1),
    "targets.value_steps": NOT_NEGATIVE,
    "targets.ube_steps": NOT_NEGATIVE,
    "targets.ube_depth": COUNT,
    "targets.fraction": FRACTION,
    "targets.uniform_fraction": Range(0, 0.99),
    "replay.capacity": COUNT,
    "replay.batch_size": COUNT,
    "replay.sequence": COUNT,
    "replay.priority_exponent": NOT_NEGATIVE,
    "replay.recent": NOT_NEGATIVE,
    "optimiser.learning_rate": LEARNING_RATE,
    "schedule.num_envs": COUNT,
    "schedule.rollout_length": COUNT,
    "schedule.updates": COUNT,
    "schedule.warmup_steps": NOT_NEGATIVE,
    "schedule.target_period": COUNT,
    "evaluation.every": COUNT,
    "evaluation.episodes": COUNT,
    "evaluation.max_steps": COUNT,
    "ensemble.size": COUNT,
    "ensemble.prior_scale": NOT_NEGATIVE,
    "ensemble.mask_probability": FRACTION,
    "ensemble.noise_scale": NOT_NEGATIVE,
    **{
        f"loss.{name}": NOT_NEGATIVE
        for name in ("value", "policy", "exploration", "ube", "reward", "continuation", "consistency")
    },
}
"""Of settings that may have any finite value, such as betas, nothing is listed."""


def check_ranges(settings: Any) -> None:
    """Raises an error for the first setting that is out of its range. A setting that is left open is in it."""
    for path, value in _numbers(settings):
        if value not in (allowed := RANGES.get(path, Range())):
            raise ValueError(f"{path} is {value}: give {allowed}")
        if isinstance(value, int) and abs(value) > MOST and path != "steps":
            raise ValueError(f"{path} is {value}: give at most {MOST:,}")


def _numbers(settings: Any, path: str = "") -> list[tuple[str, int | float]]:
    """Returns every number of the settings, with its dotted path; those of an environment are its own."""
    found: list[tuple[str, int | float]] = []
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        if dataclasses.is_dataclass(value):
            found += [] if field.name == "env" and not path else _numbers(value, f"{field.name}.")
            continue
        for one in value if isinstance(value, tuple) else (value,):
            if isinstance(one, int | float) and not isinstance(one, bool):
                found.append((path + field.name, one))
    return found
