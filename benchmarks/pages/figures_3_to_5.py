"""The tables of figures 3, 4 and 5, and of table 1."""

import numpy as np

from benchmarks.pages.page import TextTable
from benchmarks.pages.stored import figure, file, row_of
from benchmarks.pages.texts import count, decimal, found, mean_and_std, probability
from emcts.experiments.analysis.tables import TableRow, column, number, where
from emcts.experiments.paper.published import quantities

MODELS = {
    "": ("simulator", "E-AZ", "AZ+UBE"),
    "-anchored": ("anchored model", "E-MZ", "MZ+UBE"),
    "-abstracted": ("abstracted model", "E-MZ", "MZ+UBE"),
}
TABLE_1 = {
    "e-az": "E-AZ, RND",
    "az-ube": "AZ+UBE, RND",
    "az": "AZ",
    "e-mz-abstracted": "E-MZ, counts (abstracted)",
    "mz-ube-abstracted": "MZ+UBE, counts (abstracted)",
    "mz-abstracted": "MZ (abstracted)",
    "e-mz-anchored": "E-MZ, RND (anchored)",
    "mz-ube-anchored": "MZ+UBE, RND (anchored)",
    "mz-anchored": "MZ (anchored)",
}
BESIDES = {
    "deep-sea-40-e-az-counts": "E-AZ, counts",
    "perfect-novelty": "perfect novelty",
    "perfect-novelty-300-random-steps-first": "perfect novelty, 300 random steps first",
    "perfect-novelty-all-episodes-explore": "perfect novelty, all episodes explore",
}
AGENTS = {"e-az": "E-AZ", "az": "AZ"}


def agreement() -> TextTable:
    rows = [
        [
            count(row["env_steps"]),
            count(row["seeds"]),
            decimal(row["search"]),
            decimal(row["UBE head"]),
            count(row["seeds where search is closer"]),
        ]
        for row in figure("figure-3")["agreement"]
    ]
    return TextTable(["steps", "seeds", "search", "UBE head", "seeds where the search is closer"], rows)


def averages() -> TextTable:
    """Compares returns and discovered states, averaged over the steps that both agents have."""
    rows = []
    for suffix, (model, epistemic, ube) in MODELS.items():
        for metric, places in (("return", 2), ("states_discovered", 0)):
            name = f"deep-sea-40-{_name(epistemic)}{suffix}"
            row = row_of(figure("figure-4")["areas"], first=name, metric=metric)
            means = [decimal(row[name], places) for name in ("first_mean", "second_mean")]
            what = metric.replace("_", " ").replace("states discovered", "states")
            rows.append(
                [
                    f"{model}: {epistemic}, {ube}",
                    what,
                    str(row["seeds"]).split()[0],
                    count(row["up_to"]),
                    *means,
                    probability(row["permutation_p"]),
                ]
            )
    header = ["model and agents", "average of", "seeds", "steps", "epistemic search", "UBE"]
    return TextTable([*header, "permutation p"], rows)


def first_goals() -> TextTable:
    rows = []
    for agent, label in TABLE_1.items():
        row = row_of(figure("table-1")["summary"], row=f"deep-sea-40-{agent}")
        paper = quantities("table-1", f"deep-sea-40-{agent}")
        mean = f"{paper['mean']:,.0f} ± {paper['std']:,.0f}" if "mean" in paper else "none"
        share = f"{paper['found percent']:.0f}% of {paper['seeds']:.0f}"
        rows.append([label, found(row), mean_and_std(row), share, mean])
    header = ["agent", "found here", "first goal, mean ± std", "found, paper", "first goal, paper"]
    return TextTable(header, rows)


def first_goals_of_all() -> TextTable:
    """Statistics over all seeds: one that has not found the goal counts as infinite."""
    names = {f"deep-sea-40-{agent}": label for agent, label in TABLE_1.items()} | BESIDES
    rows = []
    horizon = ""
    for name, label in names.items():
        row = row_of(figure("table-1")["summary"], row=name)
        horizon = count(row["horizon"])  # the same for all
        rows.append(
            [
                label,
                count(row["steps_run"]) if name.startswith("deep-sea") else "",
                found(row),
                count(row["median"]),
                _interval(row, "median"),
                count(row["iqm"]),
                _interval(row, "iqm"),
                count(row["restricted_mean"]),
            ]
        )
    header = ["agent", "steps", "found", "median", "95%", "interquartile mean", "95%"]
    return TextTable([*header, f"mean up to {horizon} steps"], rows)


def first_goal_claims() -> TextTable:
    rows = []
    for suffix, (model, epistemic, ube) in MODELS.items():
        row = row_of(figure("table-1")["claims"], sooner=f"deep-sea-40-{_name(epistemic)}{suffix}")
        rows.append(
            [
                f"{model}: {epistemic}, {ube}",
                count(-number(row["difference_of_restricted_means"])),
                count(row["horizon"]),
                probability(row["permutation_p"]),
                probability(row["log_rank_p"]),
            ]
        )
    header = ["model and agents", "steps sooner on average", "up to", "permutation p", "log-rank p"]
    return TextTable(header, rows)


def first_goals_on_fresh_seeds() -> TextTable:
    """E-AZ on seeds that nothing was chosen on, beside the rows above."""
    runs = where(file("deep-sea-reward-noise.csv"), size=40.0, stochastic="False", purpose="report")
    rows = []
    for novelty, beta, row in (("rnd", 10.0, "deep-sea-40-e-az"), ("counts", 1.0, "deep-sea-40-e-az-counts")):
        seeds = where(runs, novelty=novelty, beta=beta)
        first = column(seeds, "first_goal_step")
        tuned = row_of(figure("table-1")["summary"], row=row)
        numbers = column(seeds, "seed")
        rows.append(
            [
                f"E-AZ, {'RND' if novelty == 'rnd' else novelty}",
                mean_and_std(tuned),
                f"{min(numbers):.0f} to {max(numbers):.0f}",
                f"{np.isfinite(first).sum()} of {len(seeds)}",
                f"{np.mean(first):,.0f} ± {np.std(first, ddof=1):,.0f}",
            ]
        )
    header = ["agent", "seeds of the presets, mean ± std", "other seeds", "found"]
    return TextTable([*header, "first goal, mean ± std"], rows)


def games() -> TextTable:
    rows = []
    for last in figure("figure-5")["summary"]:
        name = str(last["row"]).removeprefix("minatar-")
        agent = next(agent for agent in AGENTS if name.endswith(f"-{agent}"))
        game = name.removesuffix(f"-{agent}").replace("-", " ")
        area = row_of(figure("figure-5")["areas"], first=str(last["row"]).removesuffix(agent) + "e-az")
        rows.append(
            [
                f"{game.title()}, {AGENTS[agent]}",
                count(last["seeds"]),
                count(last["steps_run"]),
                f"{decimal(last['mean'], 1)} ± {decimal(last['standard_error'], 1)}",
                decimal(area["first_mean" if agent == "e-az" else "second_mean"], 1),
                probability(area["permutation_p"]) if agent == "e-az" else "",
            ]
        )
    header = ["game and agent", "seeds", "steps", "return at the end, mean ± standard error"]
    return TextTable([*header, "return, average over the run", "permutation p"], rows)


def _name(agent: str) -> str:
    return agent.lower()


def _interval(row: TableRow, what: str) -> str:
    low, high = row[f"{what}_low"], row[f"{what}_high"]
    return "" if low == high else f"{count(low)} to {count(high)}"


TABLES = {
    "figure-3": agreement,
    "figure-4": averages,
    "table-1": first_goals,
    "table-1-all-seeds": first_goals_of_all,
    "table-1-claims": first_goal_claims,
    "table-1-fresh-seeds": first_goals_on_fresh_seeds,
    "figure-5": games,
}
