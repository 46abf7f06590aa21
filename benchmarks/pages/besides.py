"""Tables that the paper has no counterpart of: Bootstrapped DQN, two CPU cores, and the speed of training."""

from typing import Any

import numpy as np
from scipy.stats import mannwhitneyu

from benchmarks.pages.page import TextTable
from benchmarks.pages.stored import file, record
from benchmarks.pages.texts import count, decimal, probability
from emcts.experiments.analysis.tables import column, where

RUNS_ON_TWO_CORES = {
    "deep-sea-10-e-az": "Deep Sea 10 x 10, E-AZ",
    "deep-sea-20-e-az": "Deep Sea 20 x 20, E-AZ",
    "deep-sea-20-az": "Deep Sea 20 x 20, AZ",
    "negate-positives-e-az-io": "negate-positives, E-AZ, IO hash",
    "negate-positives-e-az-full": "negate-positives, E-AZ, full hash",
    "negate-positives-az": "negate-positives, AZ",
}
SPEEDS = {
    "train-h200": "H200",
    "train-h200-e-mz": "H200",
    "train-h200-minatar": "H200",
    "train-cpu": "two cores",
}
SPEED_LABELS = {
    ("subleq", "e-az"): "SUBLEQ, E-AZ, paper-subleq",
    ("deep-sea 40 x 40", "e-az"): "Deep Sea 40 x 40, E-AZ",
    ("deep-sea 40 x 40, rnd", "e-az"): "Deep Sea 40 x 40, E-AZ with RND",
    ("deep-sea 40 x 40", "e-mz"): "Deep Sea 40 x 40, E-MZ",
    ("minatar-breakout", "e-az"): "MinAtar Breakout, E-AZ",
}
CHANGED = {
    "e-az-rnd": "Deep Sea 40 x 40, E-AZ with RND",
    "e-az-counts": "Deep Sea 40 x 40, E-AZ",
    "e-mz": "Deep Sea 40 x 40, E-MZ",
}


def bdqn_sizes() -> TextTable:
    rows = [_run(f"deep-sea-{size}-bdqn", f"{size} x {size}", seconds=False) for size in (10, 20, 30)]
    header = ["size", "seeds", "steps", "found the goal", "first goal, mean", "range", "solved", "solved by"]
    return TextTable(header, rows)


def bdqn_beside_bsuite() -> TextTable:
    all_rows = file("bdqn-vs-bsuite.csv")
    rows = []
    for batch, size in ((128, 6), (128, 10), (128, 14), (128, 20), (1280, 10), (1280, 14)):
        of_size = where(all_rows, batch_size=float(batch), size=float(size))
        ours, theirs = (where(of_size, agent=agent) for agent in ("emcts", "bsuite"))
        if len(ours) != len(theirs):
            raise ValueError(f"{len(ours)} and {len(theirs)} seeds at size {size}: expected as many")
        first = [column(of_agent, "first_reward_step") for of_agent in (theirs, ours)]
        p = mannwhitneyu(*(np.nan_to_num(steps, nan=np.inf) for steps in first)).pvalue
        medians = [count(np.median(steps)) for steps in first]
        rows.append([f"{size} x {size}", count(batch), count(len(ours)), *medians, probability(p)])
    header = ["size", "batch", "seeds each", "bsuite, median", "emcts, median"]
    return TextTable([*header, "rank-sum p"], rows)


def two_cores() -> TextTable:
    rows = [_run(name, label, seconds=True) for name, label in RUNS_ON_TWO_CORES.items()]
    header = ["", "seeds", "steps", "found", "first success, mean", "range", "solved", "solved by"]
    return TextTable([*header, "seconds"], rows)


def training_speed() -> TextTable:
    rows = []
    for name, device in SPEEDS.items():
        for case in record(f"{name}.json")["cases"]:
            shares = (case[f"{part}_share"] for part in ("acting", "reanalyse", "updates"))
            rows.append(
                [
                    SPEED_LABELS[case["case"], case["agent"]],
                    device,
                    count(case["seeds"]),
                    count(case["steps_per_second"]),
                    count(case["authors"]),
                    *(f"{share:.0%}" for share in shares),
                ]
            )
    header = ["", "machine", "seeds", "steps a second, all seeds", "the authors' program"]
    return TextTable([*header, "acting", "Reanalyse", "updates"], rows)


def training_change() -> TextTable:
    """CPU time of an iteration, all threads together, before a change and after it."""
    rows = []
    for case in record("train-change-cpu.json")["cases"]:
        parts = {"acting": "acting", "Reanalyse": "reanalyse", "updates": "updates"}
        pairs = {name: [case[f"{part}_cpu_ms_{when}"] for when in WHEN] for name, part in parts.items()}
        pairs["all"] = [case[f"cpu_ms_{when}"] for when in WHEN]
        for name, (before, after) in pairs.items():
            label = CHANGED[case["case"]] if name == "acting" else ""
            rows.append([label, name, count(before), count(after), decimal(before / after, 2)])
    return TextTable(["", "part", "before, CPU ms", "after, CPU ms", "ratio"], rows)


WHEN = ("before", "after")
SCALED = {
    "subleq e-az": "SUBLEQ, E-AZ",
    "deep-sea e-az, 10 x 10": "Deep Sea 10 x 10, E-AZ",
    "deep-sea e-az, 40 x 40": "Deep Sea 40 x 40, E-AZ",
    "deep-sea e-mz, 40 x 40": "Deep Sea 40 x 40, E-MZ",
}


def scale_on_gpu() -> TextTable:
    rows: list[list[str]] = []
    one: dict[str, float] = {}
    for row in record("scale-h200.json")["rows"]:
        speed = row["steps_per_second"]
        factor = speed / one.setdefault(row["case"], speed)
        rows.append(
            [
                SCALED[row["case"]],
                count(row["seeds"]),
                count(speed),
                decimal(factor, 1 if factor < 10 else 0),
                count(row["iteration_ms"]),
                count(row["state_mib_per_seed"]),
            ]
        )
    header = ["", "seeds", "steps a second, all seeds", "times one seed", "an iteration, ms"]
    return TextTable([*header, "MiB of state a seed"], rows)


def scale_on_virtual_devices() -> TextTable:
    rows = []
    for name in ("scale-cpu-virtual", "scale-cpu-virtual-subleq"):
        for row in record(f"{name}.json")["rows"]:
            communicated = sum(row["told_kib_per_iteration"].values()) * 1024 / 1e6
            rows.append(
                [
                    SCALED[row["case"]],
                    count(row["seeds"]),
                    row["layout"],
                    count(row["steps_per_second"]),
                    decimal(communicated, 0 if communicated >= 10 else 1) if communicated else "",
                ]
            )
    header = ["", "seeds", "devices", "steps a second, all seeds", "MB communicated in an iteration"]
    return TextTable(header, rows)


def _run(name: str, label: str, *, seconds: bool) -> list[str]:
    summary = record(f"{name}.json")
    seeds: list[dict[str, Any]] = summary["seeds"]
    first = [seed["first_reward_step"] for seed in seeds if seed["first_reward_step"] is not None]
    solved = [seed["solved_step"] for seed in seeds if seed["solved_step"] is not None]
    row = [
        label,
        count(len(seeds)),
        count(max(seed["env_steps"] for seed in seeds)),
        f"{len(first)} of {len(seeds)}",
        count(np.mean(first)) if first else "never",
        f"{count(min(first))} to {count(max(first))}" if first else "",
        f"{len(solved)} of {len(seeds)}",
        count(max(solved)) if solved else "never",
    ]
    return [*row, decimal(max(seed["seconds"] for seed in seeds), 0)] if seconds else row


TABLES = {
    "bdqn": bdqn_sizes,
    "bdqn-beside-bsuite": bdqn_beside_bsuite,
    "two-cores": two_cores,
    "training-speed": training_speed,
    "training-change": training_change,
    "scale-h200": scale_on_gpu,
    "scale-cpu": scale_on_virtual_devices,
}
