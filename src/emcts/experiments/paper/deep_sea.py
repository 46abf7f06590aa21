"""The paper's agents in Deep Sea, as specs of runs: three models, each with three kinds of exploration."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from emcts.experiments import setting_paths as paths
from emcts.experiments.analysis.first_times import Claim
from emcts.experiments.sweeps.run_spec import RunSpec

STEPS = {10: 5_000, 20: 15_000, 30: 30_000, 40: 45_000, 50: 75_000}
ABSTRACTED_STEPS = 35_000  # at 40 x 40, as in the paper
EXPLORATION = ("e", "ube", "plain")  # epistemic search, UBE at the root, none
SEARCHES = {"true": "AZ", "abstracted": "MZ", "anchored": "MZ"}


def deep_sea_specs(size: int, seeds: int, changes: Mapping[str, Any] | None = None) -> dict[str, RunSpec]:
    """Returns the specs by model and exploration, such as `true-e`: E-AZ with the true model."""
    return {
        f"{model}-{exploration}": _spec(model, exploration, size, seeds, changes or {})
        for model in SEARCHES
        for exploration in EXPLORATION
    }


def e_az_with_counts(size: int, seeds: int) -> RunSpec:
    """Returns E-AZ with exact counts, which the paper has for a learned model alone."""
    spec = _spec("true", "e", size, seeds, {paths.NOVELTY: "counts", paths.BETA: 1.0})
    return replace(spec, name=f"deep-sea-{size}-e-az-counts", label="E-AZ, counts")


def bdqn(size: int, seeds: int, changes: Mapping[str, Any] | None = None) -> RunSpec:
    return RunSpec(
        name=f"deep-sea-{size}-bdqn",
        label="BDQN",
        environment="deep-sea",
        agent="bdqn",
        seeds=seeds,
        paper_preset="paper-deep-sea",
        changes={paths.SIZE: size, paths.STEPS: STEPS[size], **(changes or {})},
    )


def pair(specs: Mapping[str, RunSpec], model: str) -> tuple[str, str]:
    """Returns the names of the specs with epistemic search and with UBE at the root."""
    return specs[f"{model}-e"].name, specs[f"{model}-ube"].name


def claim(size: int, model: str) -> Claim:
    """Returns the paper's claim that epistemic search reaches the goal sooner than UBE at the root."""
    return Claim(*pair(deep_sea_specs(size, 1), model))


def _spec(model: str, exploration: str, size: int, seeds: int, changes: Mapping[str, Any]) -> RunSpec:
    search = SEARCHES[model].lower()
    agent = {"e": f"e-{search}", "ube": f"{search}-ube", "plain": search}[exploration]
    novelty = {"true": "rnd", "abstracted": "counts", "anchored": "rnd"}[model]
    settings: dict[str, Any] = {
        paths.SIZE: size,
        paths.STEPS: ABSTRACTED_STEPS if (model, size) == ("abstracted", 40) else STEPS[size],
        paths.EVALUATION_INTERVAL: 500 if size >= 40 else 200,
    }
    if model != "true":
        settings[paths.MODEL] = model
    if exploration != "plain":
        settings[paths.NOVELTY] = novelty
        if model == "true":
            settings[paths.BETA] = 10.0
    suffix = "" if model == "true" else f"-{model}"
    return RunSpec(
        name=f"deep-sea-{size}-{agent}{suffix}",
        label=_label(model, exploration, novelty),
        environment="deep-sea",
        agent=agent,
        seeds=seeds,
        paper_preset={"true": "paper-deep-sea"}.get(model, f"paper-deep-sea-{model}"),
        preset="anchored" if model == "anchored" else None,
        changes={**settings, **changes},
    )


def _label(model: str, exploration: str, novelty: str) -> str:
    search = SEARCHES[model]
    name = {"e": f"E-{search}", "ube": f"{search}+UBE", "plain": search}[exploration]
    estimator = "" if exploration == "plain" else f", {'RND' if novelty == 'rnd' else novelty}"
    return ("anchored " if model == "anchored" else "") + name + estimator
