"""The metrics of a run: `metrics.jsonl`, the latest value of each metric, and warnings about values."""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from emcts.runs.stored_json import JsonLines
from emcts.training.progress import Progress
from emcts.types import JSON

Value = int | float
MetricsLine = dict[str, Value]  # `seed`, `env_steps`, and every metric that has a value
ROUNDING = 1e-6
LatestMetrics = Mapping[int, MetricsLine]  # for each seed, the last value of every metric so far


class MetricsWriter:
    """Writes `metrics.jsonl`: a line for each seed after each chunk. Opening it removes the lines after a step."""

    def __init__(self, file: JsonLines[MetricsLine], seeds: Sequence[int], env_steps: int) -> None:
        self.file, self.seeds = file, seeds
        self.latest = with_lines({}, file.truncate(env_steps))
        self.started = time.monotonic() - max(
            (line.get("seconds", 0.0) for line in self.latest.values()), default=0.0
        )

    def write(self, progress: Progress) -> list[MetricsLine]:
        """Appends the metrics of a chunk, and returns the new lines."""
        lines = to_lines(self.seeds, progress, time.monotonic() - self.started)
        self.file.append(lines)
        self.latest = with_lines(self.latest, lines)
        return lines


def to_lines(seeds: Sequence[int], progress: Progress, seconds: float) -> list[MetricsLine]:
    """Returns a line for each seed, without the metrics that are not finite."""
    lines = []
    for index, seed in enumerate(seeds):
        steps: MetricsLine = {
            "seed": seed,
            "env_steps": progress.env_steps,
            "train_steps": progress.train_steps,
            "simulator_steps": progress.simulator_steps,
        }
        reported = {name: float(values[index]) for name, values in progress.metrics.items()}
        finite = {name: value for name, value in reported.items() if np.isfinite(value)}
        lines.append({**steps, **finite, "seconds": round(seconds, 3)})
    return lines


def metrics_of(line: MetricsLine) -> dict[str, float]:
    """Returns the metrics of a line, without its seed and step."""
    return {name: float(value) for name, value in line.items() if name not in ("seed", "env_steps")}


def with_lines(latest: LatestMetrics, lines: Iterable[MetricsLine]) -> LatestMetrics:
    """Returns the latest metrics after some more lines."""
    updated = dict(latest)
    for line in lines:
        seed = int(line["seed"])
        updated[seed] = {**updated.get(seed, {}), **line}
    return updated


def is_solved(latest: LatestMetrics) -> bool:
    """Returns whether every seed solved all episodes of its last evaluation."""
    return bool(latest) and all(line.get("solved") == 1 for line in latest.values())


def have_had(latest: LatestMetrics, event: str) -> bool:
    """Returns whether every seed has had an event, named by the metric that holds its step."""
    return bool(latest) and all(event in line for line in latest.values())


def seeds_solved(latest: LatestMetrics) -> int | None:
    """Returns how many seeds have solved the task; None before an evaluation, and if nothing tells when it is."""
    if not any("solved" in line or "solved_step" in line for line in latest.values()):
        return None
    return sum("solved_step" in line for line in latest.values())


def mean(latest: LatestMetrics, name: str) -> float | None:
    """Returns the mean over the seeds that have reported the metric; None if none has."""
    values = [line[name] for line in latest.values() if name in line]
    return float(np.mean(values)) if values else None


def readable(value: float) -> float:
    """Returns a number for people to read: a tiny negative one is the rounding of float32, and is 0 instead."""
    return 0.0 if -ROUNDING < value <= 0 else value


def largest(latest: LatestMetrics, name: str) -> Value | None:
    """Returns the largest value of the seeds that have reported the metric; None if none has."""
    return max((line[name] for line in latest.values() if name in line), default=None)


@dataclass(frozen=True)
class MetricWarning:
    """A warning to print once in a run: when the largest value of a metric over the seeds exceeds a limit.

    `text` has the placeholders `{value}` and `{setting}`: the option to change, with its value in this run.
    """

    metric: str
    limit: float
    setting: str
    text: str

    def check(self, before: LatestMetrics, now: LatestMetrics, settings: Mapping[str, JSON]) -> str | None:
        """Returns the warning if the value has exceeded the limit between two states of the metrics."""
        value = largest(now, self.metric) or 0.0
        if value <= self.limit or (largest(before, self.metric) or 0.0) > self.limit:
            return None
        given = settings.get(self.setting)
        option = f"--{self.setting.replace('_', '-')}" + (f" (now {given})" if given is not None else "")
        return "warning: " + self.text.format(value=value, setting=option)


WARNINGS = (
    MetricWarning(
        "table_occupancy",
        0.1,
        "novelty.hash_bits",
        "{value:.1%} of the hash table is in use, and about that share of new states counts as visited. This run "
        "continues; raise {setting} in the next one: each additional bit halves the share",
    ),
    MetricWarning(
        "clipped_targets",
        0.0,
        "model.support",
        "{value:.1%} of the targets of values, variances or rewards are larger than the networks can represent, and "
        "were clipped. This run continues; in the next one take a wide {setting}, give a larger "
        "--novelty.return-range, or divide the rewards by a constant",
    ),
)


def new_warnings(before: LatestMetrics, now: LatestMetrics, settings: Mapping[str, JSON]) -> list[str]:
    """Returns the warnings of one chunk. The settings are flat, by dotted path."""
    texts = (warning.check(before, now, settings) for warning in WARNINGS)
    return [text for text in texts if text is not None]
