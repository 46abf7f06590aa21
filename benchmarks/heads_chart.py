"""Draws agents by how late and how noisy their UBE heads are, among simulated agents whose uncertainty is so.

python -m benchmarks.heads_chart docs/results/heads-20.json docs/results/faults-20.csv docs/results/heads-20.png
"""

import csv
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

SHOWN = ("one-step lookahead", "50 simulations")


def draw(heads: Sequence[dict[str, Any]], faults: Sequence[dict[str, str]]) -> Figure:
    """Draws simulated agents as grey points with their steps, and trained ones as coloured points with theirs."""
    figure = Figure(figsize=(9, 5.5), layout="constrained")
    axis = figure.subplots()
    size = faults[0]["size"]
    plain = [row for row in faults if float(row["lasting"]) == 0 and float(row["width"]) == 0]
    for late, noise in sorted({(int(row["late"]), float(row["noise"])) for row in plain}):
        steps = {
            row["acting"]: float(row["mean"])
            for row in plain
            if (int(row["late"]), float(row["noise"])) == (late, noise) and row["acting"] in SHOWN
        }
        axis.plot(late, noise, "o", color="0.7")
        label = " / ".join(f"{steps[way]:,.0f}" for way in SHOWN if way in steps)
        axis.annotate(label, (late, noise), (4, 4), textcoords="offset points", color="0.45", fontsize=8)
    for place, row in enumerate(heads):
        first = row["mean_first_goal"]
        label = f"{row['row']}: " + ("none" if first is None else f"{first:,.0f}")
        axis.plot(row["age"], row["noise"], "s", color=f"C{place}", label=label)
    axis.set(
        xlabel="episodes that the head is late",
        ylabel="noise: std of log(head / exact) at that age",
        title=f"grey: steps at {size} x {size} by exact uncertainty made late or noisy, lookahead / 50 simulations",
    )
    axis.legend(fontsize="x-small", title="trained agents, with their size: steps to the goal", loc="best")
    axis.margins(0.08)
    return figure


def main(heads: Path, faults: Path, out: Path) -> None:
    rows = json.loads(heads.read_text(encoding="utf-8"))["rows"]
    with faults.open(newline="") as file:
        draw(rows, list(csv.DictReader(file))).savefig(out, dpi=110)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:4]))
