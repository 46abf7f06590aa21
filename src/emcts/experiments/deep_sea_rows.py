"""The agents of the paper in Deep Sea, as rows of a sweep: three models, each with three ways to explore."""

from dataclasses import replace
from typing import Any

from emcts.experiments.first_times import Claim
from emcts.experiments.sweep import Row

STEPS = {10: 5_000, 20: 15_000, 30: 30_000, 40: 45_000, 50: 75_000}
ABSTRACTED_STEPS = 35_000  # at 40 x 40, as in the paper
WAYS = ("e", "ube", "plain")
SEARCHES = {"true": "AZ", "abstracted": "MZ", "anchored": "MZ"}


def sea_rows(size: int, seeds: int, **changes: Any) -> dict[str, Row]:
    """By model and way, such as `true-e`: E-AZ with the true model."""
    rows = {}
    for model in SEARCHES:
        for way in WAYS:
            rows[f"{model}-{way}"] = _row(model, way, size, seeds, changes)
    return rows


def counting(size: int, seeds: int, **changes: Any) -> Row:
    """E-AZ with exact counts, which the paper has for a learned model alone."""
    row = _row("true", "e", size, seeds, {**changes, "novelty": "counts", "beta": 1.0})
    return replace(row, name=f"deep-sea-{size}-e-az-counts", label="E-AZ, counts")


def bootstrapped(size: int, seeds: int, **changes: Any) -> Row:
    return Row(
        name=f"deep-sea-{size}-bdqn",
        label="BDQN",
        environment="deep-sea",
        agent="bdqn",
        seeds=seeds,
        paper_preset="paper-deep-sea",
        changes={"size": size, "total_env_steps": STEPS[size], **changes},
    )


def sooner(size: int, model: str) -> Claim:
    """What the paper claims of a model: that searching with uncertainty is sooner than looking one step ahead."""
    rows = sea_rows(size, 1)
    return Claim(rows[f"{model}-e"].name, rows[f"{model}-ube"].name)


def _row(model: str, way: str, size: int, seeds: int, changes: dict[str, Any]) -> Row:
    search = SEARCHES[model].lower()
    agent = {"e": f"e-{search}", "ube": f"{search}-ube", "plain": search}[way]
    novelty = {"true": "rnd", "abstracted": "counts", "anchored": "rnd"}[model]
    what: dict[str, Any] = {"size": size, "total_env_steps": _steps(model, size), **_looks(size)}
    if model != "true":
        what["model"] = model
    if way != "plain":
        what["novelty"] = novelty
        if model == "true":
            what["beta"] = 10.0
    of_model = "" if model == "true" else f"-{model}"
    return Row(
        name=f"deep-sea-{size}-{agent}{of_model}",
        label=_label(model, way, novelty),
        environment="deep-sea",
        agent=agent,
        seeds=seeds,
        paper_preset={"true": "paper-deep-sea"}.get(model, f"paper-deep-sea-{model}"),
        preset="anchored" if model == "anchored" else None,
        changes={**what, **changes},
    )


def _label(model: str, way: str, novelty: str) -> str:
    search = SEARCHES[model]
    name = {"e": f"E-{search}", "ube": f"{search}+UBE", "plain": search}[way]
    of_model = "anchored " if model == "anchored" else ""
    return of_model + (name if way == "plain" else f"{name}, {novelty if novelty == 'counts' else 'RND'}")


def _steps(model: str, size: int) -> int:
    return ABSTRACTED_STEPS if (model, size) == ("abstracted", 40) else STEPS[size]


def _looks(size: int) -> dict[str, Any]:
    return {"steps_between_evaluations": 500 if size >= 40 else 200}
