"""Sentences say what the numbers of the root say."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from emcts.inspect import Growth
from emcts.inspect.sentences import choices, first_difference, why


def record(q: list[float | None], std: list[float | None], visits: list[int], beta: float = 0.0) -> Any:
    labels = ["left", "right", "up"][: len(q)]
    prior = [1 / len(q)] * len(q)
    root = {"labels": labels, "legal": [True] * len(q), "prior": prior, "visits": visits, "q": q, "std": std}
    return {"beta": beta, "root": root, "growth": {"root": {"action": [0, 1, 1]}}}


@pytest.mark.parametrize(
    ("q", "std", "visits", "beta", "action", "reason"),
    [
        ([0.5, 0.2], [0.1, 0.1], [8, 2], 0.0, 0, "its value decides"),
        ([0.5, 0.2], [0.1, 0.1], [8, 2], 1.0, 0, "its value decides"),
        ([0.2, 0.5], [0.9, 0.1], [8, 2], 1.0, 0, "it is more uncertain, and that decides"),
        ([0.2, 0.5], [0.1, 0.9], [8, 2], -1.0, 0, "it is less uncertain, and that decides"),
        ([0.2, 0.5], [0.0, 0.0], [8, 2], 0.0, 0, "the visits decide"),
        ([0.2, 0.5], [0.0, 0.0], [5, 5], 0.0, 0, "a random draw of the search decides"),
        ([0.2, 0.2], [0.0, 0.0], [5, 5], 0.0, 0, "both score the same"),
        ([0.2, None], [0.0, None], [5, 0], 0.0, 0, "no other action was visited"),
        ([0.2], [0.0], [5], 0.0, 0, "the only legal action"),
        ([0.2, None], [0.0, None], [5, 0], 0.0, 1, "did not visit"),
    ],
)
def test_why(q: Any, std: Any, visits: Any, beta: float, action: int, reason: str) -> None:
    sentence = why(record(q, std, visits, beta), action)
    assert sentence.startswith(f"Takes {['left', 'right'][action]}")
    assert reason in sentence


def test_why_says_when_the_prior_decides() -> None:
    one = record([0.2, 0.5], [0.0, 0.0], [5, 5])
    one["root"]["prior"] = [0.75, 0.25]
    assert "the prior decides (0.75 against 0.25)" in why(one, 0)


def test_why_names_the_best_other_action_by_its_score() -> None:
    sentence = why(record([0.5, 0.2, 0.1], [0.0, 0.1, 0.5], [6, 2, 2], beta=2.0), 1)
    assert "The best other action, up, has q 0.1 ± 0.5, score 1.1 with beta 2" in sentence


def test_searches_part_where_their_visits_first_differ() -> None:
    visits = np.array([[[1, 0, 0], [2, 1, 0], [3, 2, 0]], [[1, 0, 0], [2, 1, 0], [3, 1, 1]]])
    growth = Growth(*(jnp.asarray(visits, dtype) for dtype in (jnp.int32, jnp.float32, jnp.float32)))
    assert first_difference(growth, 0, 1) == 2
    assert first_difference(growth, 1, 1) is None
    one, other = (record([0.5, 0.2], [0.1, 0.1], [8, 2], beta) for beta in (0.0, 1.0))
    other["growth"]["root"]["action"] = [0, 0, 0]
    assert choices([one, other], [0, 1], growth) == (
        "It takes left with beta 0 and right with beta 1. "
        "Beta 0 and 1 first differ at simulation 2: right against left."
    )
    assert choices([one, other], [0, 0], growth).startswith("With beta 0 and 1 alike it takes left.")
    assert choices([one], [0], growth) == ""
