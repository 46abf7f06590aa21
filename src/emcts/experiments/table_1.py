"""Table 1: steps until the first visit to the treasure of Deep Sea 40 x 40, for all models and ways to explore."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure

from emcts.experiments import perfect_novelty
from emcts.experiments.curves import draw_survival
from emcts.experiments.deep_sea_rows import SEARCHES, counting, sea_rows, sooner
from emcts.experiments.evidence import Evidence
from emcts.experiments.experiment import Experiment
from emcts.experiments.first_times import SUMMARY, claims_table, summary_table, survival_table
from emcts.experiments.perfect_novelty import Protocol
from emcts.experiments.results import Line, Table, Tables, lines_of, number

SIZE, SEEDS = 40, 20
ROWS = sea_rows(SIZE, SEEDS)
COUNTING = counting(SIZE, SEEDS)
CLAIMS = tuple(sooner(SIZE, model) for model in SEARCHES)
FLOORS = {
    "perfect novelty": perfect_novelty.HALF,
    "perfect novelty, 300 random steps first": perfect_novelty.PAPER,
    "perfect novelty, all episodes explore": perfect_novelty.ALL,
}


@dataclass(frozen=True)
class Published:
    """A line of the paper's table: mean and deviation over the seeds that found the goal, and their percentage."""

    mean: int | None
    std: int | None
    found: int
    seeds: int

    def line(self) -> Line:
        return {
            "paper_mean": self.mean,
            "paper_std": self.std,
            "paper_found_percent": self.found,
            "paper_seeds": self.seeds,
        }


PAPER: Mapping[str, Published] = {
    "true-e": Published(10_539, 9_006, 94, 35),
    "true-ube": Published(22_801, 7_514, 91, 35),
    "true-plain": Published(None, None, 0, 20),
    "abstracted-e": Published(14_339, 6_845, 100, 23),
    "abstracted-ube": Published(29_945, 8_113, 57, 21),
    "abstracted-plain": Published(None, None, 0, 20),
    "anchored-e": Published(15_241, 3_236, 95, 20),
    "anchored-ube": Published(22_497, 6_645, 85, 20),
    "anchored-plain": Published(None, None, 0, 20),
}


def analyse(evidence: Sequence[Evidence]) -> Tables:
    seeds = [line for one in evidence for line in one.seeds()]
    size = evidence[0].setting("size")
    count = max(len({line["seed"] for line in lines_of(seeds, row=one.row.name)}) for one in evidence)
    whole = [*seeds, *(line for name, how in FLOORS.items() for line in _floor(name, how, size, count))]
    published = {ROWS[key].name: paper.line() for key, paper in PAPER.items()}
    return {
        "seeds": whole,
        "summary": summary_table(whole, "first_goal_step", published),
        "survival": survival_table(whole, "first_goal_step"),
        "claims": claims_table(seeds, "first_goal_step", CLAIMS),
    }


def draw(tables: Tables) -> Figure:
    figure = Figure(figsize=(8.5, 4.8), layout="constrained")
    axis = figure.subplots()
    floors = [line for line in tables["survival"] if line["label"] in FLOORS]
    draw_survival(axis, [line for line in tables["survival"] if line not in floors])
    for style, label in zip((":", "-.", "--"), FLOORS, strict=True):
        steps, share = (
            [number(line[name]) for line in lines_of(floors, label=label)]
            for name in ("env_steps", "not_yet")
        )
        axis.step(steps, share, where="post", color="grey", linestyle=style, linewidth=1, label=label)
    axis.set(title="Deep Sea: seeds that have not found the treasure, with 95% bands")
    axis.legend(fontsize="x-small", loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def _floor(name: str, protocol: Protocol, size: int, seeds: int) -> Table:
    steps = perfect_novelty.steps_of_seeds(size, seeds, protocol)
    return [
        {
            "row": name.replace(",", "").replace(" ", "-"),
            "label": name,
            "seed": seed,
            "env_steps": float(step),
            "first_goal_step": float(step),
            "solved_step": None,
            "regret_step": None,
            "final_return": None,
        }
        for seed, step in enumerate(steps)
    ]


EXPERIMENT = Experiment(
    name="table-1",
    title="steps to the first goal in Deep Sea 40 x 40",
    rows=(*ROWS.values(), COUNTING),
    smoke=tuple(ROWS[key].name for key in ("true-e", "true-ube")),
    analyse=analyse,
    draw=draw,
    shown={"summary": (*SUMMARY, "paper_mean", "paper_std", "paper_found_percent"), "claims": ()},
)
