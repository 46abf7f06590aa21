"""The tables of figure 1, SUBLEQ."""

import numpy as np

from benchmarks.pages.page import TextTable
from benchmarks.pages.stored import figure, file, row_of
from benchmarks.pages.texts import count, decimal, found, mean_and_std, probability
from emcts.experiments.analysis.tables import column, number, where
from emcts.experiments.paper.published import curve, quantities

FIGURE = "figure-1"
AGENTS = {"e-az-io": "E-AZ, IO hash", "e-az-full": "E-AZ, full hash", "az": "AZ"}
EVENTS = {"first_goal_step": "first program", "solved_step": "solved"}
# Of the runs, all of the same settings: simulations of a move, and searches of Reanalyse after each iteration.
SIMULATIONS, ITERATION, BATCHES, WARM_UP_ITERATIONS = 32, 4_096, 4, 1


def levels() -> TextTable:
    """Compares the steps at which mean returns are reached with those read off the paper's curves."""
    rows = []
    for agent, label in AGENTS.items():
        for steps, value in curve(FIGURE, f"identity-{agent}").items():
            reached = _reached(f"identity-{agent}", value)
            rows.append([label, decimal(value), reached, count(steps)])
    return TextTable(["agent", "mean return", "steps here", "steps in the paper"], rows)


def identity() -> TextTable:
    rows = []
    for agent, label in AGENTS.items():
        level = row_of(figure(FIGURE)["levels"], row=f"identity-{agent}")
        first = row_of(figure(FIGURE)["first_programs"], row=f"identity-{agent}")
        rows.append(
            [
                label,
                count(level["seeds"]),
                count(level["steps_run"]),
                decimal(level["last_mean"]),
                found(first),
                mean_and_std(first),
                count(first["median"]),
                count(first["restricted_mean"]),
            ]
        )
    header = ["agent", "seeds", "steps", "return at the end", "found a program"]
    return TextTable([*header, "first program, mean ± std", "median", "restricted mean"], rows)


def claims() -> TextTable:
    rows = [
        [
            str(row["sooner"]).partition("-e-az")[0].replace("-", " "),
            AGENTS[_agent(row["sooner"])],
            AGENTS[_agent(row["later"])],
            EVENTS[str(row["what"])],
            probability(row["log_rank_p"]),
            probability(row["permutation_p"]),
        ]
        for row in figure(FIGURE)["claims"]
    ]
    return TextTable(["task", "sooner", "later", "event", "log-rank p", "permutation p"], rows)


def programs() -> TextTable:
    """Counts programs up to the first solution: one for each environment step, one for each simulator step."""
    enumerated = row_of(figure(FIGURE)["enumeration"], task="identity")
    baseline = number(enumerated["first_in_order"])
    rows = []
    for agent, label in AGENTS.items():
        seeds = where(figure(FIGURE)["seeds"], row=f"identity-{agent}")
        first = np.array([step for step in column(seeds, "first_goal_step") if not np.isnan(step)])
        simulated = np.array([_simulator_steps(step) for step in first])
        total = (first + simulated).mean()
        rows.append(
            [
                label,
                f"{len(first)} of {len(seeds)}",
                count(first.mean()),
                count(round(simulated.mean(), -5)),
                count(round(total, -5)),
                decimal(total / baseline, 1 if total < 10 * baseline else 0),
            ]
        )
    rows.append(["enumeration, shortest first", "", "", "", count(baseline), "1"])
    header = ["", "found", "environment steps", "simulator steps", "programs run"]
    return TextTable([*header, "of enumeration's"], rows)


def negate_positives() -> TextTable:
    paper = quantities(FIGURE, "negate-positives")
    published = " to ".join(count(paper[f"solved by the {place} agent"]) for place in ("first", "last"))
    rows = []
    for agent, label in AGENTS.items():
        level = row_of(figure(FIGURE)["levels"], row=f"negate-positives-{agent}")
        seeds = where(figure(FIGURE)["seeds"], row=f"negate-positives-{agent}")
        slowest = max(column(seeds, "first_goal_step"))
        rows.append([label, count(len(seeds)), count(slowest), count(level["reaches_0.99"]), published])
    header = ["agent", "seeds", "last seed's first program", "mean return 0.99 by", "paper: solved by"]
    return TextTable(header, rows)


def enumeration() -> TextTable:
    rows = [
        [
            str(row["task"]).replace("-", " "),
            count(row["words"]),
            count(row["programs"]),
            count(row["solutions"]),
            f"`{row['shortest']}`",
            count(row["first_in_order"]),
            count(row["first_at_random"]),
        ]
        for row in figure(FIGURE)["enumeration"]
    ]
    header = ["task", "words, at most", "programs", "solutions", "shortest"]
    return TextTable([*header, "its number, shortest first", "mean number, random order"], rows)


def paper_preset() -> TextTable:
    """Compares E-AZ with the paper's settings and the IO hash with the paper's curve."""
    points = file("identity-paper-subleq.csv")
    last = points[-1]
    rows = []
    for steps, value in curve(FIGURE, "identity-e-az-io").items():
        reached = [point["env_steps"] for point in points if number(point["mean_return"]) >= value]
        here = count(reached[0]) if reached else f"not by {count(last['env_steps'])}"
        rows.append([decimal(value), here, count(steps)])
    rows.append([f"at the end: {decimal(last['mean_return'])}", count(last["env_steps"]), ""])
    header = ["mean return of 15 seeds", "steps here, paper's preset", "steps in the paper"]
    return TextTable(header, rows)


def _agent(row: object) -> str:
    return str(row).removeprefix("identity-").removeprefix("negate-positives-")


def _reached(row: str, value: float) -> str:
    """Returns the first step at which the mean return is as high, by its own column or else by the stored curve."""
    level = row_of(figure(FIGURE)["levels"], row=row)
    column_name = f"reaches_{min(value, 0.99):g}"
    points = where(figure(FIGURE)["curves"], row=row, metric="return")
    steps = (
        [level[column_name]]
        if column_name in level
        else [point["env_steps"] for point in points if number(point["mean"]) >= value]
    )
    return count(steps[0]) if steps and steps[0] is not None else f"not by {count(level['steps_run'])}"


def _simulator_steps(step: float) -> float:
    """Returns the environment steps inside searches up to a step: those of acting, and those of Reanalyse."""
    iterations = max(int(step) // ITERATION - WARM_UP_ITERATIONS, 0)
    return SIMULATIONS * (step + BATCHES * ITERATION * iterations)


TABLES = {
    "figure-1-levels": levels,
    "figure-1-identity": identity,
    "figure-1-claims": claims,
    "figure-1-programs": programs,
    "figure-1-enumeration": enumeration,
    "figure-1-negate-positives": negate_positives,
    "figure-1-paper-preset": paper_preset,
}
