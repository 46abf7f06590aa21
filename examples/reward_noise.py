"""Which estimator knows how uncertain a mean of noisy rewards is.

A world like stochastic Deep Sea, as a table: most transitions pay the same at every visit, two pay N(0, 1), and one,
the goal, pays N(1, 1). Half of the first kind, and the two, were visited often, the others and the goal n times. Each
estimator says how uncertain the mean rewards are. An agent leaves the goal for ever if the mean of its draws, plus
one standard deviation of what is uncertain, falls below 0.

python examples/reward_noise.py                                        # some seconds
python examples/reward_noise.py --out docs/results/reward-noise.csv
"""

import csv
import sys
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from emcts.novelty import Counts, RewardMoments
from emcts.runs.provenance import commit

WORLDS, QUIET, KNOWN = 400, 200, 2
VISITS, OFTEN = (1, 2, 4, 8, 16, 64), 100
UNSEEN, EPSILON = 3.0, 0.01  # as E-AZ has them in Deep Sea
MEMBERS, PRIOR_WEIGHT = 10, 0.1
GOAL, RARE = QUIET + KNOWN, QUIET // 2

Draws = list[Float[np.ndarray, "n"]]  # of each transition, in a world
Estimator = Callable[[Draws, np.random.Generator], Float[np.ndarray, "transitions"]]


def world(visits: int, rng: np.random.Generator) -> Draws:
    cost = [0.0 if index % 2 else -0.0002 for index in range(QUIET)]
    quiet = [np.full(visits if index < RARE else OFTEN, cost[index]) for index in range(QUIET)]
    return [*quiet, *rng.normal(size=(KNOWN, OFTEN)), 1 + rng.normal(size=visits)]


def seen_or_not(draws: Draws, rng: np.random.Generator) -> Float[np.ndarray, "transitions"]:
    """Counts as they are without noise."""
    counts = Counts(1, EPSILON, UNSEEN * EPSILON)
    return np.array([counts.scale / (len(one) + counts.epsilon) for one in draws])


def own_variance(draws: Draws, rng: np.random.Generator) -> Float[np.ndarray, "transitions"]:
    """A learned noise head in its limit: the mean squared residual of each transition, over its visits."""
    return np.array([one.var() / len(one) for one in draws])


def reward_ensemble(draws: Draws, rng: np.random.Generator) -> Float[np.ndarray, "transitions"]:
    """Reward heads with random priors in their limit, each of which learns from half of the draws, twice as much."""
    variances = []
    for one in draws:
        weights = 2.0 * rng.integers(2, size=(MEMBERS, len(one)))
        priors = np.sqrt(UNSEEN) * rng.normal(size=MEMBERS)
        means = (weights @ one + PRIOR_WEIGHT * priors) / (weights.sum(axis=1) + PRIOR_WEIGHT)
        variances.append(means.var())
    return np.array(variances)


_MOMENTS = RewardMoments(GOAL + 1)
_update, _variances = jax.jit(_MOMENTS.update), jax.jit(_MOMENTS.variances)


def pooled_moments(draws: Draws, rng: np.random.Generator) -> Float[np.ndarray, "transitions"]:
    """What E-AZ uses: moments of each transition, and noise that is learned from all of them."""
    rows = np.concatenate([np.full(len(one), index) for index, one in enumerate(draws)])
    rewards, order = np.concatenate(draws), rng.permutation(len(rows))
    state = _MOMENTS.init(jax.random.key(0))
    state = _update(
        state, jnp.asarray(rows[order]), jnp.asarray(rewards[order], jnp.float32), jnp.ones(len(rows), bool)
    )
    return np.asarray(_variances(state), np.float64)


ESTIMATORS: dict[str, Estimator] = {
    "counts, seen or not": seen_or_not,
    "noise of each transition alone": own_variance,
    f"ensemble of {MEMBERS} reward heads": reward_ensemble,
    "moments, pooled noise": pooled_moments,
}


def measure(name: str, visits: int, env_factory: int = WORLDS) -> dict[str, float | str]:
    """Of the goal over many worlds: its error, what is said of it, and how often it is left for ever."""
    rng = np.random.default_rng(visits)
    means, goal, quiet = [], [], []
    for _ in range(env_factory):
        draws = world(visits, rng)
        said = ESTIMATORS[name](draws, rng)
        means.append(draws[GOAL].mean())
        goal.append(said[GOAL])
        quiet.append(said[:RARE].mean())
    left = np.mean(np.array(means) + np.sqrt(goal) < 0)
    return {
        "estimator": name,
        "visits": visits,
        "error": float(np.sqrt(np.mean((np.array(means) - 1) ** 2))),
        "said": float(np.sqrt(np.mean(goal))),
        "left_for_ever": float(left),
        "said_without_noise": float(np.sqrt(np.mean(quiet))),
    }


def main(out: Path | None) -> None:
    lines = [measure(name, visits) for name in ESTIMATORS for visits in VISITS]
    print(f"{'':32}{'visits':>8}{'error':>8}{'said':>8}{'left for ever':>15}{'said without noise':>20}")
    for line in lines:
        numbers = f"{line['error']:8.2f}{line['said']:8.2f}{line['left_for_ever']:15.1%}"
        print(f"{line['estimator']:32}{line['visits']:8}{numbers}{line['said_without_noise']:20.4f}")
    if out is not None:
        made = {
            "worlds": WORLDS,
            "commit": commit() or "",
            "command": f"python examples/reward_noise.py --out {out}",
        }
        with out.open("w", newline="") as file:
            writer = csv.DictWriter(file, [*lines[0], *made])
            writer.writeheader()
            writer.writerows({**line, **made} for line in lines)


if __name__ == "__main__":
    main(Path(sys.argv[2]) if sys.argv[1:2] == ["--out"] else None)
