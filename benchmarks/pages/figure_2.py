"""The tables of figure 2: sizes, stochastic rewards, and beta."""

import math

import numpy as np

from benchmarks.pages.page import TextTable
from benchmarks.pages.stored import figure, file, row_of
from benchmarks.pages.texts import count, decimal, found, mean_and_std, probability
from emcts.experiments.analysis.tables import Table, TableRow, column, number, where
from emcts.experiments.paper.published import published

SIZES = (10, 20, 30, 40, 50)
AGENTS = {
    "e-az": "E-AZ, RND",
    "az-ube": "AZ+UBE, RND",
    "az": "AZ",
    "e-mz-abstracted": "E-MZ, counts",
    "mz-ube-abstracted": "MZ+UBE, counts",
    "bdqn": "BDQN",
}
PAIRS = {"e-az": ("E-AZ", "AZ+UBE"), "e-mz-abstracted": ("E-MZ, counts", "MZ+UBE, counts")}
LAST_EVALUATIONS = 10


def sizes() -> TextTable:
    """Steps to an average regret below 90%."""
    summary, floor = figure("figure-2-left")["summary"], figure("figure-2-left")["floor"]
    rows = [
        [label, *(count(_size(summary, size, agent)["mean_of_found"]) or "none" for size in SIZES)]
        for agent, label in AGENTS.items()
    ]
    exact = [count(row_of(floor, size=size)["mean_steps"]) for size in SIZES]
    return TextTable(_sized("agent"), [*rows, ["perfect novelty, first goal", *exact]])


def sizes_found() -> TextTable:
    summary = figure("figure-2-left")["summary"]
    rows = [
        [label, *(found(_size(summary, size, agent)) for size in SIZES)] for agent, label in AGENTS.items()
    ]
    paper = where(published("figure-2-left"), quantity="seeds solved")
    solved = {str(row["row"]): count(row["value"]) for row in paper}
    for agent in ("az", "mz-ube-abstracted"):
        cells = [solved.get(f"deep-sea-{size}-{agent}", "") for size in SIZES]
        rows.append([f"paper: {AGENTS[agent]}", *(f"{cell} of 5" if cell else "" for cell in cells)])
    return TextTable(_sized("agent"), rows)


def sizes_steps() -> TextTable:
    summary = figure("figure-2-left")["summary"]
    rows = [
        [label, *(count(_size(summary, size, agent)["steps_run"]) for size in SIZES)]
        for agent, label in AGENTS.items()
    ]
    return TextTable(_sized("agent"), rows)


def size_claims() -> TextTable:
    claims = figure("figure-2-left")["claims"]
    rows = []
    for agent, (sooner, later) in PAIRS.items():
        for what in ("log_rank_p", "permutation_p"):
            of_sizes = (row_of(claims, sooner=f"deep-sea-{size}-{agent}") for size in SIZES)
            cells = (probability(row[what]) for row in of_sizes)
            rows.append([f"{sooner} before {later}, {what[:-2].replace('_', '-')}", *cells])
    return TextTable(_sized("p"), rows)


def rewards_again() -> TextTable:
    """The runs whose uncertainty includes the noise of rewards, on seeds that nothing was chosen on."""
    runs = where(file("deep-sea-reward-noise.csv"), size=50.0, stochastic="True", purpose="report")
    rows = []
    for novelty, beta in (("rnd", 10.0), ("counts", 10.0), ("counts", 1.0)):
        seeds = where(runs, novelty=novelty, beta=beta)
        first = [step for step in column(seeds, "first_goal_step") if not math.isnan(step)]
        stays = column(seeds, "last_10_evaluations_at_goal")
        rows.append(
            [
                f"E-AZ, {'RND' if novelty == 'rnd' else novelty}, beta {beta:g}",
                f"{min(column(seeds, 'seed')):.0f} to {max(column(seeds, 'seed')):.0f}",
                f"{len(first)} of {len(seeds)}",
                f"{np.mean(first):,.0f} ± {np.std(first, ddof=1):,.0f}",
                f"{min(stays):.0f} of {LAST_EVALUATIONS}",
                f"{sum(stay > 0 for stay in stays)} of {len(seeds)}",
            ]
        )
    header = ["agent", "seeds", "found the goal", "first goal, mean ± std"]
    return TextTable([*header, "last ten evaluations at the goal, worst seed", "seeds that returned"], rows)


def rewards() -> TextTable:
    tables = figure("figure-2-middle")
    rows = []
    for agent, label in AGENTS.items():
        name = f"stochastic-sea-50-{agent}"
        row = row_of(tables["summary"], row=name)
        returns = column(where(tables["curves"], row=name, metric="return"), "mean")
        last = decimal(float(np.mean(returns[-LAST_EVALUATIONS:])))
        rows.append([label, count(row["steps_run"]), found(row), mean_and_std(row), last])
    header = ["agent", "steps", "found the goal", "first goal, mean ± std"]
    return TextTable([*header, "return, mean of the last ten evaluations"], rows)


def reward_claims() -> TextTable:
    claims, areas = (figure("figure-2-middle")[name] for name in ("claims", "areas"))
    rows = []
    for agent, (sooner, later) in PAIRS.items():
        claim = row_of(claims, sooner=f"stochastic-sea-50-{agent}")
        returns = row_of(areas, first=f"stochastic-sea-50-{agent}")
        tests = (claim["log_rank_p"], claim["permutation_p"], returns["permutation_p"])
        rows.append([sooner, later, *map(probability, tests)])
    header = ["agent", "against", "first goal, log-rank p", "first goal, permutation p"]
    return TextTable([*header, "average return, permutation p"], rows)


def betas() -> TextTable:
    tables = figure("figure-2-right")
    rows = []
    for regret in tables["regret"]:
        row = row_of(tables["summary"], row=str(regret["row"]))
        rows.append(
            [
                f"{number(regret['beta']):g}",
                count(row["steps_run"]),
                found(row),
                mean_and_std(row),
                decimal(regret["average_regret"]),
                decimal(regret["last_regret"]),
            ]
        )
    header = ["beta", "steps", "found the goal", "first goal, mean ± std", "regret, average over the run"]
    return TextTable([*header, "regret at the end"], rows)


def _sized(first: str) -> list[str]:
    return [first, *(f"{size} x {size}" for size in SIZES)]


def _size(summary: Table, size: int, agent: str) -> TableRow:
    return row_of(summary, row=f"deep-sea-{size}-{agent}")


TABLES = {
    "figure-2-left": sizes,
    "figure-2-left-found": sizes_found,
    "figure-2-left-steps": sizes_steps,
    "figure-2-left-claims": size_claims,
    "figure-2-middle-again": rewards_again,
    "figure-2-middle": rewards,
    "figure-2-middle-claims": reward_claims,
    "figure-2-right": betas,
}
