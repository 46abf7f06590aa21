"""First times in tables, with seeds that stopped before the event."""

import math
from typing import Any

from emcts.experiments.analysis.first_times import Claim, claims_table, summary_table, survival_table


def seeds_of(row: str, *steps: float) -> list[dict[str, Any]]:
    """First times; below 0 is a seed that was followed so far without."""
    return [
        {
            "row": row,
            "label": row.upper(),
            "seed": seed,
            "env_steps": abs(step),
            "first": step if step > 0 else None,
        }
        for seed, step in enumerate(steps)
    ]


def test_first_times_with_unfinished_seeds() -> None:
    seeds = [*seeds_of("a", 10, 20, 30, 40), *seeds_of("b", 30, -50, -50, 40), *seeds_of("c", -60, -60)]
    a, b, c = summary_table(seeds, "first", {"b": {"paper_mean": 99.0}})
    assert (a["seeds"], a["found"], a["mean_of_found"], a["median"]) == (4, 4, 25, 25)
    assert (b["seeds"], b["found"], b["mean_of_found"], b["median"]) == (4, 2, 35, math.inf)
    assert b["paper_mean"] == 99
    assert [line["horizon"] for line in (a, b, c)] == [50] * 3, "what all were followed to"
    assert (a["restricted_mean"], b["restricted_mean"], c["restricted_mean"]) == (25, 42.5, 50)
    assert (c["found"], c["median"]) == (0, math.inf)

    (claim,) = claims_table(seeds, "first", [Claim("a", "b"), Claim("a", "absent")])
    assert claim["difference_of_restricted_means"] == 25 - 42.5
    assert claim["seeds"] == "4 and 4"
    assert isinstance(claim["log_rank_p"], float)
    assert 0.01 < claim["log_rank_p"] < 0.1
    assert isinstance(claim["permutation_p"], float)
    assert 0.01 < claim["permutation_p"] < 0.2

    of_b = [
        (line["env_steps"], line["not_yet"]) for line in survival_table(seeds, "first") if line["row"] == "b"
    ]
    assert of_b == [(0, 1), (30, 0.75), (40, 0.5), (50, 0.5)]


def test_a_claim_does_not_rest_on_seeds_that_were_stopped_early() -> None:
    seeds = [*seeds_of("slow", -10, -10, -10, 100), *seeds_of("fast", 40, 40, 40, -100)]
    slow, fast = summary_table(seeds, "first")
    (claim,) = claims_table(seeds, "first", [Claim("slow", "fast")])
    assert (slow["restricted_mean"], fast["restricted_mean"]) == (100, 55)
    assert claim["difference_of_restricted_means"] == 100 - 55, (
        "the same as in the summary, and of the same sign"
    )
