"""Steps to the goal of Deep Sea by uncertainty that is late or noisy on purpose (examples/wrong_uncertainty.py).

These are the places of agents without networks on the plane on which `benchmarks.heads` puts those with them.
"""

import csv
import importlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.machine import provenance

EXAMPLES = Path(__file__).parents[1] / "examples"


def example() -> Any:
    """Returns the module of the example."""
    if str(EXAMPLES) not in sys.path:
        sys.path.insert(0, str(EXAMPLES))
    return importlib.import_module("wrong_uncertainty")


def rows(size: int, seeds: int, ways: Sequence[str]) -> list[dict[str, Any]]:
    """Returns a row for each fault and way of acting, or those named; prints each as it is known."""
    module = example()
    options = {**module.columns(), **module.columns(backups=True)}
    if missing := [way for way in ways if way not in options]:
        raise ValueError(f"there is no column {missing[0]!r}: give any of {', '.join(options)}")
    found = []
    for fault in module.FAULTS:
        for way in ways or options:
            if way == "mean":  # that of 50 simulations
                continue
            steps = module.steps_to_goal(size, fault=fault, seeds=seeds, **options[way])
            found.append(
                {
                    "size": size,
                    "late": fault.late,
                    "noise": fault.noise,
                    "lasting": fault.lasting,
                    "width": fault.width,
                    "acting": way,
                    "seeds": seeds,
                    "found": int(np.isfinite(steps).sum()),
                    "mean": round(float(np.nanmean(steps)), 1),
                    "std": round(float(np.nanstd(steps)), 1),
                }
            )
            print(fault, found[-1], flush=True)
    return found


def main(
    *, size: int = 40, seeds: int = 20, ways: Sequence[str] = (), smoke: bool = False, out: Path | None = None
) -> None:
    """Simulates all faults, and writes a CSV file, with a JSON file of what made it beside."""
    command = f"emcts bench faults --size {size} --seeds {seeds}"
    command += "".join(f' "{way}"' if place else f' --ways "{way}"' for place, way in enumerate(ways))
    found = rows(3 if smoke else size, 1 if smoke else seeds, ways)
    if out is None:
        return
    out.parent.mkdir(parents=True, exist_ok=True)
    with out.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(found[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(found)
    out.with_suffix(".json").write_text(json.dumps(provenance(command), indent=1) + "\n", encoding="utf-8")
