"""Figure 2, middle: Deep Sea 50 x 50 with stochastic rewards at the treasure and in the opposite corner."""

from collections.abc import Sequence
from dataclasses import replace

from matplotlib.figure import Figure

from emcts.experiments.curves import areas_table, curves_table, draw_curves, draw_survival
from emcts.experiments.deep_sea_rows import bootstrapped, sea_rows
from emcts.experiments.evidence import Evidence
from emcts.experiments.experiment import Experiment
from emcts.experiments.first_times import SUMMARY, Claim, claims_table, summary_table, survival_table
from emcts.experiments.results import Tables
from emcts.experiments.sweep import Row

SIZE, SEEDS = 50, 10
CHANGES = {"stochastic": True, "evaluation_episodes": 8}
KEYS = ("true-e", "true-ube", "true-plain", "abstracted-e", "abstracted-ube")


def _stochastic(row: Row) -> Row:
    return replace(row, name=row.name.replace("deep-sea", "stochastic-sea"))


_OF_MODELS = {key: _stochastic(row) for key, row in sea_rows(SIZE, SEEDS, **CHANGES).items() if key in KEYS}
_PAIRS = tuple(
    (_OF_MODELS[f"{model}-e"].name, _OF_MODELS[f"{model}-ube"].name) for model in ("true", "abstracted")
)


def analyse(evidence: Sequence[Evidence]) -> Tables:
    seeds = [line for one in evidence for line in one.seeds()]
    return {
        "seeds": seeds,
        "curves": curves_table(evidence, ["return", "solved", "states_discovered"]),
        "summary": summary_table(seeds, "first_goal_step"),
        "survival": survival_table(seeds, "first_goal_step"),
        "claims": claims_table(seeds, "first_goal_step", [Claim(*pair) for pair in _PAIRS]),
        "areas": areas_table(evidence, "return", _PAIRS),
    }


def draw(tables: Tables) -> Figure:
    figure = Figure(figsize=(10.4, 3.8), layout="constrained")
    returns, times = figure.subplots(1, 2)
    draw_curves(returns, tables["curves"], "return")
    returns.set(ylabel="return in evaluation", title="stochastic rewards, mean and standard error")
    draw_survival(times, tables["survival"])
    times.set(title="seeds that have not found the treasure")
    returns.legend(fontsize="x-small")
    return figure


EXPERIMENT = Experiment(
    name="figure-2-middle",
    title="Deep Sea 50 x 50 with stochastic rewards",
    rows=(*_OF_MODELS.values(), _stochastic(bootstrapped(SIZE, SEEDS, **CHANGES))),
    smoke=(_OF_MODELS["true-e"].name,),
    analyse=analyse,
    draw=draw,
    shown={"summary": SUMMARY, "claims": (), "areas": ()},
)
