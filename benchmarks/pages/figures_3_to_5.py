"""The tables of figures 3, 4 and 5, and of table 1."""

from collections.abc import Sequence

import numpy as np

from benchmarks.pages.page import TextTable
from benchmarks.pages.stored import figure, file, row_of
from benchmarks.pages.texts import count, decimal, found, mean_and_std, probability
from emcts.experiments.analysis.tables import Table, TableRow, column, number, where
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
FRESH = (
    "e-az",
    "az-ube",
    "az",
    "e-az-counts",
    "e-mz-abstracted",
    "mz-ube-abstracted",
    "e-mz-anchored",
    "mz-ube-anchored",
)
BEFORE = ("e-az", "az-ube")
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
    return _claims("table-1", tuple(MODELS))


def first_goal_claims_with_paper_settings() -> TextTable:
    return _claims("table-1-paper", ("",))


def _claims(name: str, suffixes: Sequence[str]) -> TextTable:
    rows = []
    for suffix in suffixes:
        model, epistemic, ube = MODELS[suffix]
        row = row_of(figure(name)["claims"], sooner=f"deep-sea-40-{_name(epistemic)}{suffix}")
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
    """Agents on seeds that nothing was chosen on: rows of the table, and those of the presets before."""
    fresh, before = file("table-1-fresh.csv"), figure("why-search")["seeds"]
    rows = [_fresh(where(fresh, row=f"deep-sea-40-{name}"), "today's") for name in FRESH]
    rows += [_fresh(where(before, row=f"deep-sea-40-{name}-rnd-one-step"), "before") for name in BEFORE]
    header = ["agent", "preset", "seeds", "steps", "found", "first goal, mean ± std", "latest"]
    return TextTable(header, rows)


def _fresh(seeds: Table, preset: str) -> list[str]:
    name = str(seeds[0]["row"]).removeprefix("deep-sea-40-").removesuffix("-rnd-one-step")
    numbers, first = (np.array(column(seeds, what)) for what in ("seed", "first_goal_step"))
    goals = first[np.isfinite(first)]
    spread = f" ± {goals.std(ddof=1):,.0f}" if len(goals) > 1 else ""
    return [
        {**TABLE_1, "e-az-counts": "E-AZ, counts"}[name],
        preset,
        f"{min(numbers):.0f} to {max(numbers):.0f}",
        count(max(column(seeds, "env_steps"))),
        f"{len(goals)} of {len(seeds)}",
        f"{goals.mean():,.0f}{spread}" if len(goals) else "none",
        count(goals.max()) if len(goals) else "",
    ]


def first_goals_with_paper_settings() -> TextTable:
    """Agents with the paper's own settings, beside the paper's numbers."""
    rows = []
    for row in figure("table-1-paper")["summary"]:
        name = str(row["row"]).removeprefix("deep-sea-40-")
        if name not in TABLE_1:
            continue
        paper = quantities("table-1", str(row["row"]))
        rows.append(
            [
                TABLE_1[name],
                found(row),
                mean_and_std(row),
                f"{count(paper['found percent'])}% of {count(paper['seeds'])}",
                f"{count(paper['mean'])} ± {count(paper['std'])}",
            ]
        )
    header = ["agent", "found here", "first goal, mean ± std", "found, paper", "first goal, paper"]
    return TextTable(header, rows)


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
    "table-1-paper-settings": first_goals_with_paper_settings,
    "table-1-paper-settings-claims": first_goal_claims_with_paper_settings,
    "figure-5": games,
}
