"""Figure 2, middle: Deep Sea 50 x 50 with stochastic rewards at the goal and in the opposite corner."""

from collections.abc import Sequence
from dataclasses import replace

from matplotlib.figure import Figure

from emcts.experiments import setting_paths as paths
from emcts.experiments.analysis.curves import areas_table, curves_table, draw_survival, plot_curves
from emcts.experiments.analysis.first_times import (
    SUMMARY,
    Claim,
    claims_table,
    summary_table,
    survival_table,
)
from emcts.experiments.analysis.run_group import RunGroup, all_seeds
from emcts.experiments.analysis.tables import Tables
from emcts.experiments.paper.deep_sea import bdqn, deep_sea_specs, pair
from emcts.experiments.paper.experiment import Experiment
from emcts.experiments.paper.figure_2_left import KEYS
from emcts.experiments.sweeps.run_spec import RunSpec

SIZE, SEEDS = 50, 10
CHANGES = {paths.STOCHASTIC: True, paths.EVALUATION_EPISODES: 8}


def _stochastic(spec: RunSpec) -> RunSpec:
    return replace(spec, name=spec.name.replace("deep-sea", "stochastic-sea"))


_PLANNING = {
    key: _stochastic(spec) for key, spec in deep_sea_specs(SIZE, SEEDS, CHANGES).items() if key in KEYS
}
_PAIRS = tuple(pair(_PLANNING, model) for model in ("true", "abstracted"))


def analyse(groups: Sequence[RunGroup]) -> Tables:
    seeds = all_seeds(groups)
    return {
        "seeds": seeds,
        "curves": curves_table(groups, ["return", "solved", "states_discovered"]),
        "summary": summary_table(seeds, "first_goal_step"),
        "survival": survival_table(seeds, "first_goal_step"),
        "claims": claims_table(seeds, "first_goal_step", [Claim(*names) for names in _PAIRS]),
        "areas": areas_table(groups, "return", _PAIRS),
    }


def draw(tables: Tables) -> Figure:
    figure = Figure(figsize=(10.4, 3.8), layout="constrained")
    returns, times = figure.subplots(1, 2)
    plot_curves(returns, tables["curves"], "return")
    returns.set(ylabel="return in evaluation", title="stochastic rewards, mean and standard error")
    draw_survival(times, tables["survival"])
    times.set(title="seeds that have not found the goal")
    returns.legend(fontsize="x-small")
    return figure


EXPERIMENT = Experiment(
    name="figure-2-middle",
    title="Deep Sea 50 x 50 with stochastic rewards",
    specs=(*_PLANNING.values(), _stochastic(bdqn(SIZE, SEEDS, CHANGES))),
    smoke=(_PLANNING["true-e"].name,),
    analyse=analyse,
    draw=draw,
    shown={"summary": SUMMARY, "claims": (), "areas": ()},
)
