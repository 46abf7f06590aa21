"""Tables over all figures: verdicts, times, and what is complete; and the speed of searches."""

import re
from collections.abc import Sequence
from functools import cache
from typing import Any

from benchmarks.pages.page import ROOT, TextTable
from benchmarks.pages.stored import file, made, record, row_of
from benchmarks.pages.texts import count, spread
from emcts.agents.catalogue import installed
from emcts.experiments import setting_paths as paths
from emcts.experiments.analysis.tables import number, where
from emcts.experiments.paper import EXPERIMENTS
from emcts.experiments.paper.published import published
from emcts.experiments.sweeps.plan import stored_speeds
from emcts.experiments.sweeps.run_spec import RunSpec
from emcts.training.catalogue import Catalogue

FIGURES = {
    "figure-1": "Figure 1, SUBLEQ",
    "figure-2-left": "Figure 2 left, sizes",
    "figure-2-middle": "Figure 2 middle, noise",
    "figure-2-right": "Figure 2 right, beta",
    "figure-3": "Figure 3, heat maps",
    "figure-4": "Figure 4, curves",
    "table-1": "Table 1, first goals",
    "figure-5": "Figure 5, MinAtar",
}
SEARCHES = (
    "PUCT 128, 16, 32",
    "PUCT 64, 4, 256",
    "PUCT 4096, 16, 128",
    "Gumbel 128, 16, 32",
    "Gumbel 4096, 16, 128",
)
VERDICTS = ("holds", "holds for learned models", "does not hold", "not tested")
GPU = "NVIDIA H200"
HOUR, DAY = 3600, 24 * 3600
HOURS_UP_TO = 2 * DAY


def verdicts() -> TextTable:
    rows = [
        [
            label,
            f"`emcts reproduce {name}`",
            _duration(gpu_seconds(name)),
            _duration(cpu_seconds(name)),
            f"[{verdict(name)}](docs/results/{name}.md)",
        ]
        for name, label in FIGURES.items()
    ]
    return TextTable(["", "command", "H200", "two cores", "verdict"], rows)


def times() -> TextTable:
    rows = [
        [
            f"[{label}]({name}.md)",
            count(sum(_steps(spec) for spec in EXPERIMENTS[name].specs)),
            _duration(gpu_seconds(name)),
            _duration(cpu_seconds(name)),
        ]
        for name, label in FIGURES.items()
    ]
    return TextTable(["", "environment steps, all seeds", "H200", "two cores"], rows)


def complete() -> TextTable:
    rows = []
    for name, label in FIGURES.items():
        runs = made(name)["runs"]
        seeds = {spec: sum(len(run["seeds"]) for run in runs if run["row"] == spec) for spec in _rows(runs)}
        paper = [row["value"] for row in where(published(name), quantity="seeds")]
        rows.append(
            [
                f"[{label}]({name}.md)",
                f"{len(seeds)} of {len(EXPERIMENTS[name].specs)}",
                spread(list(seeds.values())),
                spread(paper) if paper else "",
                spread([run["env_steps"] for run in runs]),
                spread([_steps(spec) / spec.seeds for spec in EXPERIMENTS[name].specs]),
            ]
        )
    header = ["", "rows", "seeds of a row", "seeds, paper", "steps of a seed"]
    return TextTable([*header, "steps of the full command"], rows)


def verdict(name: str) -> str:
    """Returns the verdict that the page of a figure states."""
    page = ROOT / "docs" / "results" / f"{name}.md"
    found = re.findall(r"^\*\*Verdict\*\*: (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    if len(found) != 1 or found[0] not in VERDICTS:
        raise ValueError(f"{page.name} has the verdicts {found}: expected one of {', '.join(VERDICTS)}")
    return str(found[0])


def gpu_seconds(name: str) -> float:
    """Estimates the time of the full command, one run after the other, from the speeds of the stored runs."""
    speeds = [stored for stored in stored_speeds(ROOT / "results") if stored.device == GPU]
    total = 0.0
    for spec in EXPERIMENTS[name].specs:
        same = [one for one in speeds if one.row == spec.name]
        like = same or [one for one in speeds if _kind(one.row) == _kind(spec.name)]
        total += _steps(spec) / max(one.steps_per_second for one in like)
    return total


def cpu_seconds(name: str) -> float | None:
    """Estimates the same on two cores, from a file of speeds; None if one of them was never measured."""
    total = 0.0
    for spec in EXPERIMENTS[name].specs:
        speed = _cpu_speed(spec)
        if speed is None:
            return None
        total += _steps(spec) / speed
    return total


def _cpu_speed(spec: RunSpec) -> float | None:
    speeds = file("speeds-two-cores.csv")
    if spec.environment == "subleq":
        return number(row_of(speeds, agents="subleq")["steps_per_second"])
    if spec.environment != "deep-sea":
        return None
    if spec.agent in ("e-mz", "mz-ube", "mz"):
        agents = "learned model"
    elif spec.agent == "bdqn":
        agents = "bdqn"
    else:
        rnd = spec.changes.get(paths.NOVELTY, "counts") == "rnd"
        agents = f"simulator {'with' if rnd else 'without'} RND"
    size = spec.changes[paths.SIZE]
    rows = where(speeds, agents=agents)
    nearest = min(rows, key=lambda row: abs(number(row["size"]) - size))
    return number(nearest["steps_per_second"])


def search_speed() -> TextTable:
    """The time of mctx divided by that of emcts, in the same run."""
    cpu, gpu = (_tiny_model(record(f"search-{device}.json")["cases"]) for device in ("cpu", "h200"))
    rows = [[case, *(_ratio(cases.get(case)) for cases in (cpu, gpu))] for case in SEARCHES]
    return TextTable(["rule: batch, actions, simulations", "two cores", "H200"], rows)


def _tiny_model(cases: Sequence[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Returns the cases whose model takes next to no time, by their names. Older files have no others."""
    return {case["case"]: case for case in cases if case.get("model", "tiny") == "tiny"}


def _ratio(case: dict[str, Any] | None) -> str:
    if case is None:
        return ""
    ratio = case["mctx_ms"] / case["emcts_ms"]
    return f"{ratio:.1f} x" if ratio < 10 else f"{ratio:.0f} x"


def _steps(spec: RunSpec) -> int:
    """Returns the environment steps of all seeds of a spec."""
    steps: int = getattr(spec.settings(_catalogue()), paths.STEPS)
    return steps * spec.seeds


@cache
def _catalogue() -> Catalogue:
    return installed()


def _rows(runs: Sequence[dict[str, object]]) -> list[str]:
    return list(dict.fromkeys(str(run["row"]) for run in runs))


def _kind(row: str) -> str:
    """Returns a row without what it is run on, such as `minatar-e-az`."""
    return re.sub(r"-(asterix|breakout|freeway|seaquest|space-invaders|[\d.]+)", "", row)


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return "not known"
    if seconds < HOUR:
        return f"{seconds / 60:.0f} min"
    if seconds < HOURS_UP_TO:
        return f"{seconds / HOUR:.1f} h" if seconds < 10 * HOUR else f"{seconds / HOUR:.0f} h"
    return f"{seconds / DAY:.0f} days"


TABLES = {"verdicts": verdicts, "times": times, "complete": complete, "search-speed": search_speed}
