"""The variants of agents: {simulator, learned model} x {no uncertainty, UBE at the root, epistemic search}."""

import dataclasses
from collections.abc import Callable
from typing import Protocol, runtime_checkable

import numpy as np
import optax
from jaxtyping import PyTree

import emcts
from emcts.agents.mcts.agent import ReplayConfig
from emcts.agents.mcts.learner import MctsLearner
from emcts.agents.mcts.offline import OfflineLearner
from emcts.agents.mcts.planners import (
    Gumbel,
    Planner,
    Puct,
    UbeAtRoot,
    Uct,
    exploration_prior,
    uniform_prior,
)
from emcts.agents.mcts.targets import (
    EDGE,
    LOOKAHEAD,
    ROOT,
    NStep,
    NStepUbe,
    PathUbe,
    Reanalyse,
    SearchedEdgeUbe,
    UbeRule,
    value_rule,
)
from emcts.agents.mcts.world_models import AnySettings, Networks, learned, simulator
from emcts.agents.novelty import novelty_update
from emcts.agents.settings import LearnedModelSettings
from emcts.agents.task import Task
from emcts.models.world_model import WorldModel
from emcts.registry import lookup
from emcts.training.learner import ExplorationSchedule, UpdateSchedule, check_positive
from emcts.training.replay import surprise, value_error


@runtime_checkable
class MakeModel(Protocol):
    """Makes the world model and its networks. Without `uncertainty` there is no novelty, and no UBE head."""

    def __call__(
        self, task: Task, settings: AnySettings, *, uncertainty: bool
    ) -> tuple[WorldModel[PyTree], Networks]: ...


@dataclasses.dataclass(frozen=True)
class Acting:
    """How a variant acts: its planner, and how its parallel episodes explore."""

    planner: Callable[[AnySettings], Planner]
    exploration: Callable[[Task, AnySettings], ExplorationSchedule]
    uncertainty: bool
    searches_by_it: bool = False  # the search that acts reads stds


@dataclasses.dataclass(frozen=True)
class Variant:
    """An entry of the table: what the agent plans with, and what its acting does with uncertainty."""

    description: str
    model: MakeModel
    acting: Acting


def compose(variant: Variant, task: Task, settings: AnySettings) -> MctsLearner:
    """Makes the agent of a variant, for any task."""
    settings = fill_open(variant, task, settings)
    check_positive(settings.schedule, "schedule", "num_envs")
    world_model, networks = variant.model(task, settings, uncertainty=variant.acting.uncertainty)
    replay, schedule = settings.replay, settings.schedule
    make, warmup_steps, recent = MctsLearner, schedule.warmup_steps, replay.recent
    if settings.offline is not None:
        # A dataset is there from the start, and nothing in it is recent.
        make, warmup_steps, recent = OfflineLearner, 0, 0
    return make(
        env_factory=task.env_factory,
        world_model=world_model,
        make_networks=networks,
        planner=variant.acting.planner(settings),
        exploration=variant.acting.exploration(task, settings),
        novelty_update=novelty_update(settings.novelty),
        reanalyse=_reanalyse(task, settings),
        loss_weights=settings.loss,
        optimiser=optax.adam(settings.optimiser.learning_rate),
        replay=ReplayConfig(
            capacity=replay.capacity,
            batch_size=replay.batch_size,
            sequence=replay.sequence,
            priority_exponent=replay.priority_exponent,
            importance=replay.importance,
            priority=lookup(PRIORITIES, replay.priority, "replay.priority"),
            recent=recent,
        ),
        schedule=UpdateSchedule(
            schedule.rollout_length, schedule.updates, warmup_steps, schedule.target_period
        ),
        evaluation=task.evaluation(settings.evaluation),
        evaluation_planner=Gumbel(
            settings.search.simulations,
            gumbel_scale=0.0,
            uniform_fraction=settings.targets.uniform_fraction,
        ),
        reuse_tree=_reuse(settings),
    )


def fill_open(variant: Variant, task: Task, settings: AnySettings) -> AnySettings:
    """Returns the settings with values for those that are left open and depend on the variant or the states."""
    search, targets = settings.search, settings.targets
    if search.backup_exponent is None:
        exponent = NEAR_THE_MAX if variant.acting.searches_by_it else 1.0
        search = dataclasses.replace(search, backup_exponent=exponent)
    if targets.ube_depth is None:
        has_table = variant.model is simulator and task.is_finite and variant.acting.uncertainty
        is_deep = has_table and targets.ube == "lookahead"
        targets = dataclasses.replace(targets, ube_depth=task.max_steps if is_deep else 1)
    return dataclasses.replace(settings, search=search, targets=targets)


def _reuse(settings: AnySettings) -> bool:
    outcomes = settings.search.outcomes
    if settings.search.reuse and outcomes != 1:
        raise ValueError(
            f"search.reuse with search.outcomes {outcomes}: a tree with several outcomes of each action has no one "
            "tree below it. Give --search.outcomes 1, or leave reuse out"
        )
    return settings.search.reuse


NEAR_THE_MAX = 16.0  # of the power mean of stds, where the setting is left open: docs/results/why-search.md
PRIORITIES = {"value-error": value_error, "surprise": surprise}


def _beta(task: Task, settings: AnySettings) -> float:
    """Larger where rewards are noisy: with 1, one seed in ten never returned to a goal whose first draws were bad."""
    if settings.exploration.beta is not None:
        return settings.exploration.beta
    return 1.0 if task.is_deterministic else 10.0


def _search(settings: AnySettings) -> Planner:
    exponent = settings.search.backup_exponent or 1.0
    return _search_by(settings, emcts.mean_backup if exponent == 1 else emcts.power_mean(exponent))


def _search_by(settings: AnySettings, backup: emcts.Backup, *, noise: bool = False) -> Planner:
    """The search with a rule of backups. With `noise`, puct explores by Dirichlet noise and by sampled actions."""
    search = settings.search
    prior = exploration_prior if settings.exploration.policy_head else uniform_prior
    planners: dict[str, Planner] = {
        "puct": Puct(
            search.simulations,
            prior,
            dirichlet_fraction=search.dirichlet_fraction if noise else 0.0,
            temperature=1.0 if noise else search.temperature,
            backup=backup,
        ),
        "gumbel": Gumbel(search.simulations, prior, gumbel_scale=search.gumbel_scale, backup=backup),
        "uct": Uct(search.simulations, backup=backup),
    }
    return lookup(planners, search.policy, "search.policy")


def _search_without_uncertainty(settings: AnySettings, *, noise: bool) -> Planner:
    if settings.search.backup_exponent != 1:
        raise ValueError(
            f"search.backup_exponent {settings.search.backup_exponent} is that of stds, which this agent's search does "
            "not read: give 1, or take --agent e-az or e-mz"
        )
    return _search_by(settings, emcts.mean_backup, noise=noise)


def _ube_at_root(settings: AnySettings) -> Planner:
    planner = _search_without_uncertainty(settings, noise=False)
    if not isinstance(planner, Puct | Gumbel):
        raise ValueError(f"search.policy {settings.search.policy} has no root scores: take puct or gumbel")
    return UbeAtRoot(planner)


def _no_exploration(task: Task, settings: AnySettings) -> ExplorationSchedule:
    num_envs = settings.schedule.num_envs
    return ExplorationSchedule((0.0,) * num_envs, (False,) * num_envs)


def _exploration(task: Task, settings: AnySettings) -> ExplorationSchedule:
    exploiting, num_envs = settings.exploration.num_exploiting, settings.schedule.num_envs
    if not 0 <= exploiting <= num_envs:
        raise ValueError(
            f"exploration.num_exploiting is {exploiting}: give 0 to {num_envs}, the number of parallel episodes"
        )
    schedules = {"constant": _constant_betas, "spaced": _spaced_betas}
    make = lookup(schedules, settings.exploration.betas, "exploration.betas")
    return make(_beta(task, settings), num_envs - exploiting, exploiting)


def _constant_betas(beta: float, exploring: int, exploiting: int) -> ExplorationSchedule:
    """Exploring episodes come first, with the same beta."""
    return ExplorationSchedule(
        (beta,) * exploring + (0.0,) * exploiting, (True,) * exploring + (False,) * exploiting
    )


def _spaced_betas(beta: float, exploring: int, exploiting: int) -> ExplorationSchedule:
    """Betas rise from 0; episodes that exploit come first."""
    betas = tuple(float(one) for one in np.linspace(0, beta, exploring + 1)[1:])
    return ExplorationSchedule((0.0,) * exploiting + betas, (False,) * exploiting + (True,) * exploring)


def _reanalyse(task: Task, settings: AnySettings) -> Reanalyse:
    targets, simulations = settings.targets, settings.search.simulations
    uniform = targets.uniform_fraction
    planners: dict[str, Planner] = {
        "gumbel": Gumbel(simulations, uniform_fraction=uniform),
        "puct": Puct(simulations, temperature=0.0, uniform_fraction=uniform),
    }
    ube, value_steps = _ube_rule(settings), targets.value_steps
    if isinstance(ube, PathUbe) and not task.is_deterministic:
        raise ValueError(
            "targets.ube path takes the state that was drawn for all that could be: take lookahead, or an environment "
            "that declares itself deterministic"
        )
    if value_steps is None:
        raise ValueError(
            "targets.value_steps is open: give a number, or fill the settings by `presets.default.fill_open`"
        )
    return Reanalyse(
        planner=lookup(planners, targets.search, "targets.search"),
        value=NStep(value_steps) if value_steps else value_rule(deterministic=task.is_deterministic),
        ube=ube,
        exploring=Puct(simulations, temperature=0.0),
        num_steps=max(value_steps, targets.ube_steps, 1),
        beta=targets.beta,
        fraction=targets.fraction,
        exploration_beta=_beta(task, settings),
        exploration_temperature=settings.exploration.temperature,
        uses_novelty=targets.beta != 0 or settings.exploration.policy_head or ube.uses_search,
        lookahead_depth=_lookahead_depth(settings),
    )


def _lookahead_depth(settings: AnySettings) -> int:
    depth = settings.targets.ube_depth or 1
    if depth > 1 and settings.targets.ube != "lookahead":
        raise ValueError(
            f"targets.ube_depth {depth} is that of lookahead, got targets.ube {settings.targets.ube}: "
            "take lookahead, or a depth of 1"
        )
    if depth > 1 and isinstance(settings.model, LearnedModelSettings):
        raise ValueError(
            f"targets.ube_depth is {depth}, and a learned model is searched, not stepped from every state: "
            "give 1, or take --agent az-ube or e-az"
        )
    return depth


def _ube_rule(settings: AnySettings) -> UbeRule:
    steps = settings.targets.ube_steps
    rules: dict[str, Callable[[], UbeRule]] = {
        "lookahead": lambda: NStepUbe(steps, LOOKAHEAD),
        "root": lambda: NStepUbe(steps, ROOT),
        "edge": lambda: NStepUbe(steps, EDGE),
        "path": lambda: PathUbe(steps),
        "search-edge": SearchedEdgeUbe,
    }
    if settings.targets.ube == "search-edge" and steps:
        raise ValueError(
            f"targets.ube search-edge takes no steps of the replay, got targets.ube_steps {steps}: take edge, or give 0"
        )
    return lookup(rules, settings.targets.ube, "targets.ube")()


PLAIN = Acting(
    lambda settings: _search_without_uncertainty(settings, noise=True), _no_exploration, uncertainty=False
)
UBE = Acting(_ube_at_root, _exploration, uncertainty=True)
EPISTEMIC = Acting(_search, _exploration, uncertainty=True, searches_by_it=True)

VARIANTS: dict[str, Variant] = {
    "e-az": Variant(
        "Epistemic AlphaZero: its search propagates uncertainty, and explores by it", simulator, EPISTEMIC
    ),
    "az-ube": Variant("AlphaZero that explores by the uncertainty of one-step lookahead", simulator, UBE),
    "az": Variant("AlphaZero, without uncertainty", simulator, PLAIN),
    "e-mz": Variant("Epistemic MuZero: the same with a learned model", learned, EPISTEMIC),
    "mz-ube": Variant("MuZero that explores by the uncertainty of one-step lookahead", learned, UBE),
    "mz": Variant("MuZero, without uncertainty", learned, PLAIN),
}
