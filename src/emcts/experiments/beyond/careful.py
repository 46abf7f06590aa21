"""Careful agents: what a beta below 0, and losses weighted by uncertainty, do for an agent that learns offline.

Agents learn from the first transitions of a run that acted, in worlds whose best return is known. Each is evaluated
with several betas, by episodes that also count the steps that leave the dataset.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from matplotlib.figure import Figure

from emcts.agents.catalogue import installed
from emcts.agents.mcts.offline import OfflineLearner
from emcts.agents.mcts.state import TrainState
from emcts.experiments import setting_paths as paths
from emcts.experiments.analysis.run_group import RunGroup
from emcts.experiments.analysis.statistics import describe
from emcts.experiments.analysis.tables import Table, TableRow, Tables, column, number, unique, where
from emcts.experiments.beyond.offline_episodes import EvaluatedEpisodes, best_within, pair_counts, play
from emcts.experiments.paper.experiment import Experiment
from emcts.experiments.sweeps.run_spec import RunSpec
from emcts.runs.checkpoints import Checkpoints
from emcts.runs.config import stored_settings

SEEDS = 10
BETAS = (-10.0, -1.0, 0.0, 1.0)
WEIGHT = 4.0
"""Of losses by uncertainty, for the two betas of Reanalyse in `WEIGHTED`."""
WEIGHTED = (-1.0, 0.0)
LAKE = "emcts.experiments.beyond.frozen_lake:FrozenLake"
LAKE_STEPS = 50
"""The longest episode in the lake; its shortest way to the goal has 6."""


UNSEEN = "novelty.unseen_variance"
SHARED: Mapping[str, Any] = {
    paths.SIMULATIONS: 24,
    "targets.value_steps": 0,
    "replay.batch_size": 32,
    "schedule.num_envs": 2,
    "schedule.rollout_length": 5,
    "schedule.updates": 10,
}
SMALL: Mapping[str, Any] = {**SHARED, paths.WIDTH: 64}
"""Settings that train in seconds on two cores. Value targets are searched values, not those of who acted."""
SMALL_MODEL: Mapping[str, Any] = {
    **SHARED,
    "model.latent": 32,
    "model.representation": (64,),
    "model.dynamics": (64,),
    "model.heads": (64,),
    "model.ube_head": (64,),
}
"""The same for agents with a learned model."""


@dataclass(frozen=True)
class OfflineTask:
    """An environment, the agents that learn in it offline, and the numbers of transitions that they learn from."""

    name: str
    label: str
    environment: str
    sizes: tuple[int, ...]
    episodes: int  # of an evaluation
    settings: Mapping[str, Any]
    steps: int  # of the run that acts
    kept: int  # of its last transitions
    agents: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: {"e-az": SMALL})


def _lake(slippery: bool) -> dict[str, Any]:
    arguments = {"size": 4, "slippery": slippery}
    named = {f"{paths.ENV_ARGUMENTS}.{name}": value for name, value in arguments.items()}
    return {**named, paths.TIME_LIMIT: LAKE_STEPS}


WORLDS = (
    OfflineTask(
        "deep-sea",
        "Deep Sea 10 x 10",
        "deep-sea",
        (40, 160),
        1,
        {paths.SIZE: 10, UNSEEN: 1.0},
        steps=1000,
        kept=160,
        agents={"e-az": SMALL, "e-mz": SMALL_MODEL},
    ),
    OfflineTask("lake", "FrozenLake 4 x 4", LAKE, (40, 160), 1, _lake(False), steps=600, kept=160),
    OfflineTask(
        "slippery", "FrozenLake 4 x 4, slippery", LAKE, (100, 400), 200, _lake(True), steps=1000, kept=400
    ),
)
INSIDE = ("deep-sea-e-az-40-beta-0-weight-0", "deep-sea-e-az-40-beta--1-weight-0")
"""Rows whose first seed is looked into, state by state."""
OFFLINE_STEPS = 1_500
"""Of the schedule: 150 iterations of 10 updates."""


def analyse(groups: Sequence[RunGroup]) -> Tables:
    offline = [group for group in groups if group.spec.offline is not None]
    alike: dict[tuple[str, str], list[RunGroup]] = {}
    for group in offline:
        alike.setdefault((_world(group).name, group.spec.agent), []).append(group)
    seeds = [row for groups in alike.values() for row in _evaluated(groups)]
    return {
        "data": _data_table(offline),
        "seeds": seeds,
        "learned": [_learned(rows) for rows in _alike(seeds)],
        "inside": [row for group in offline if group.spec.name in INSIDE for row in _inside(group)],
    }


def draw(tables: Tables) -> Figure:
    """Draws the mean return by the betas of Reanalyse and of evaluation, for each world and number of transitions."""
    learned = where(tables["learned"], weight=0.0)
    panels = list(dict.fromkeys((row["world"], row["agent"], row["transitions"]) for row in learned))
    columns = min(4, len(panels))
    height = -(-len(panels) // columns)
    figure = Figure(figsize=(2.6 * columns, 2.7 * height), layout="constrained")
    axes = np.atleast_1d(figure.subplots(height, columns, squeeze=False)).reshape(-1)
    for axis, (world, agent, transitions) in zip(axes, panels, strict=False):
        rows = [
            row
            for row in learned
            if (row["world"], row["agent"], row["transitions"]) == (world, agent, transitions)
        ]
        reanalyse, evaluation = (sorted(set(column(rows, name))) for name in ("reanalyse", "evaluation"))
        grid = np.full((len(evaluation), len(reanalyse)), np.nan)
        for row in rows:
            at = evaluation.index(number(row["evaluation"])), reanalyse.index(number(row["reanalyse"]))
            grid[at] = number(row["return"])
        axis.imshow(grid, vmin=0, vmax=1, cmap="viridis", origin="lower")
        for (y, x), value in np.ndenumerate(grid):
            axis.text(
                x,
                y,
                f"{round(value, 2) + 0.0:.2f}",
                ha="center",
                va="center",
                color="w" if value < 0.6 else "k",
                fontsize=7,
            )
        axis.set_xticks(range(len(reanalyse)), [f"{beta:g}" for beta in reanalyse])
        axis.set_yticks(range(len(evaluation)), [f"{beta:g}" for beta in evaluation])
        data = "all" if transitions is None else f"{int(number(transitions)):,}"
        axis.set_title(f"{world}, {agent}, {data}", fontsize=8)
        axis.set(xlabel="beta of Reanalyse", ylabel="beta of evaluation")
    for axis in axes[len(panels) :]:
        axis.axis("off")
    return figure


def _evaluated(groups: Sequence[RunGroup]) -> list[TableRow]:
    """Evaluates every seed of groups of one world and agent, with each beta.

    Evaluation is the same for all of them, so that one program serves them all.
    """
    folders = [(group, folder) for group in groups for folder in group.folders]
    restored = [_restored(folder) for _, folder in folders]
    learner, episodes = restored[0][0], _world(groups[0]).episodes
    of_runs = [(_shown(group), seed) for group, folder in folders for seed in folder.config().seeds]
    states = jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *(state for _, state in restored))

    def evaluate(beta: Float[Array, ""], state: TrainState) -> EvaluatedEpisodes:
        return play(learner, state, jax.random.key(1), episodes=episodes, beta=beta)

    program = jax.jit(jax.vmap(jax.vmap(evaluate, in_axes=(None, 0)), in_axes=(0, None)))
    played = jax.device_get(program(jnp.array(BETAS), states))
    means = {name: np.asarray(values).mean(axis=-1).round(5) for name, values in vars(played).items()}
    return [
        {
            **shown,
            "evaluation": beta,
            "seed": seed,
            **{name: float(values[at, row]) for name, values in means.items()},
        }
        for row, (shown, seed) in enumerate(of_runs)
        for at, beta in enumerate(BETAS)
    ]


def _inside(group: RunGroup) -> list[TableRow]:
    """Searches the states of an episode of the first seed: the best tried action, and the best untried one."""
    learner, states = _restored(group.folders[0])
    state = jax.tree.map(lambda leaf: leaf[0], states)
    env: Any = learner.env(state.env_params)
    counts = np.asarray(pair_counts(learner, state))
    search = jax.jit(lambda key, now: learner.search(state, key, now, beta=0.0))
    now = env.init(jax.random.key(0))
    rows: list[TableRow] = []
    for step in range(env.steps_left(now).item()):
        out = search(jax.random.key(step), jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], now))
        summary, action = out.search_tree.summary(), out.action[0]
        row: dict[str, Any] = {**_shown(group), "seed": group.folders[0].config().seeds[0], "step": step}
        tried = counts[int(env.index(now))] > 0
        row["takes"] = "tried" if tried[int(action)] else "untried"
        for name, chosen in (("tried", tried), ("untried", ~tried)):
            qvalues = np.where(chosen, np.asarray(summary.qvalues[0]), -np.inf)
            best = int(qvalues.argmax())
            std = float(summary.qvalues_std[0, best])
            row[f"{name}_q"] = round(float(qvalues[best]), 4) if chosen.any() else None
            row[f"{name}_std"] = round(std, 4) if chosen.any() else None
        rows.append(row)
        now, _ = env.step(now, action, jax.random.key(step))
    return rows


def _data_table(groups: Sequence[RunGroup]) -> list[TableRow]:
    """Describes the datasets, once for each world and number of transitions."""
    of_data: dict[tuple[str, int], RunGroup] = {}
    for group in groups:
        of_data.setdefault((_world(group).name, group.setting(paths.OFFLINE_STEPS)), group)
    return [_data_row(group) for group in of_data.values()]


def _data_row(group: RunGroup) -> TableRow:
    found: list[dict[str, float]] = []
    for folder in group.folders:
        learner, states = _restored(folder)
        for row in range(len(folder.config().seeds)):
            state = jax.tree.map(lambda leaf, row=row: leaf[row], states)
            env: Any = learner.env(state.env_params)
            counts = np.asarray(pair_counts(learner, state))
            stored, there = state.replay.transitions, np.asarray(state.replay.priorities) > 0
            ended = there & np.asarray(stored.terminated | stored.truncated)
            max_steps = learner.evaluation.max_steps
            found.append(
                {
                    "goals": float((there & (np.asarray(stored.reward) > 0.5)).sum()),
                    "episodes": float(ended.sum()),
                    "episode_return": float(np.asarray(stored.reward)[there].sum() / max(ended.sum(), 1)),
                    "seen": float((counts > 0).mean()),
                    "best_within": best_within(env, counts > 0, max_steps),
                    "best": best_within(env, np.ones_like(counts, bool), max_steps),
                }
            )
    shown, means = _shown(group), {name: [one[name] for one in found] for name in found[0]}
    return {
        "world": shown["world"],
        "label": shown["label"],
        "transitions": shown["transitions"],
        "seeds": len(found),
        "seeds_with_goal": sum(one["goals"] > 0 for one in found),
        **{name: round(float(np.mean(values)), 4) for name, values in means.items()},
    }


def _learned(rows: Table) -> TableRow:
    """Summarises the seeds of one row of the table."""
    returns = describe(np.array(column(rows, "episode_return")))
    names = ("world", "label", "agent", "transitions", "reanalyse", "weight", "evaluation")
    means = {
        name: round(float(np.mean(column(rows, name))), 4)
        for name in ("unseen_steps", "start_value", "start_std")
    }
    return {
        **{name: rows[0][name] for name in names},
        "seeds": len(rows),
        "return": round(returns.mean, 4),
        "return_standard_error": round(returns.standard_error, 4),
        **means,
    }


def _alike(seeds: Table) -> Iterable[Table]:
    names = unique(seeds, "row")
    of_rows = [where(seeds, row=name) for name in names]
    return [where(rows, evaluation=beta) for rows in of_rows for beta in BETAS]


def _restored(folder: Any) -> tuple[OfflineLearner, Any]:
    config = folder.config()
    catalogue = installed((LAKE,))
    settings = stored_settings(config, catalogue)
    trainer: Any = catalogue.trainer(config.environment, config.agent, settings, config.seeds)
    restored = Checkpoints(folder.checkpoints).restore(jax.eval_shape(trainer.init))
    if restored is None:
        raise ValueError(f"{folder.path} has no checkpoint yet: train it first")
    return trainer.learner, restored.state


def _world(group: RunGroup) -> OfflineTask:
    return next(world for world in WORLDS if group.spec.name.startswith(f"{world.name}-"))


def _shown(group: RunGroup) -> dict[str, Any]:
    world = _world(group)
    return {
        "row": group.spec.name,
        "world": world.name,
        "label": world.label,
        "agent": group.spec.agent,
        "transitions": group.setting(paths.OFFLINE_STEPS),
        "reanalyse": group.setting(paths.TARGET_BETA),
        "weight": group.setting(paths.UNCERTAINTY_WEIGHT),
    }


def _data_spec(world: OfflineTask) -> RunSpec:
    return RunSpec(
        name=f"{world.name}-data",
        label=f"{world.label}: the run that acts",
        environment=world.environment,
        agent="e-az",
        seeds=SEEDS,
        paper_preset="default",
        changes={
            **world.settings,
            **SMALL,
            paths.STEPS: world.steps,
            paths.EVALUATION_INTERVAL: world.steps,
            paths.CAPACITY: world.kept,
        },
        seeds_per_run={"cpu": SEEDS, "gpu": SEEDS},
    )


def _offline_spec(world: OfflineTask, agent: str, transitions: int, beta: float, weight: float) -> RunSpec:
    return RunSpec(
        name=f"{world.name}-{agent}-{transitions}-beta-{beta:g}-weight-{weight:g}",
        label=f"{world.label}, {agent} from {transitions:,} transitions, beta {beta:g}, weight {weight:g}",
        environment=world.environment,
        agent=agent,
        seeds=SEEDS,
        paper_preset="default",
        changes={
            **world.settings,
            **world.agents[agent],
            paths.STEPS: OFFLINE_STEPS,
            paths.EVALUATION_INTERVAL: OFFLINE_STEPS,
            paths.OFFLINE_STEPS: transitions,
            paths.CAPACITY: world.kept,
            paths.TARGET_BETA: beta,
            paths.UNCERTAINTY_WEIGHT: weight,
        },
        seeds_per_run={"cpu": SEEDS, "gpu": SEEDS},
        offline=f"{world.name}-data",
    )


SPECS = (
    *(_data_spec(world) for world in WORLDS),
    *(
        _offline_spec(world, agent, transitions, beta, weight)
        for world in WORLDS
        for agent in world.agents
        for transitions in world.sizes
        for weight, betas in ((0.0, BETAS), (WEIGHT, WEIGHTED))
        for beta in betas
    ),
)

EXPERIMENT = Experiment(
    name="careful",
    title="careful agents, trained offline",
    specs=SPECS,
    smoke=("lake-data", "lake-e-az-160-beta--1-weight-0", "lake-e-az-160-beta-0-weight-4"),
    analyse=analyse,
    draw=draw,
    shown={"data": (), "learned": ()},
)
