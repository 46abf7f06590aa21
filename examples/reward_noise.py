"""Compares estimators of the epistemic variance of a mean of noisy rewards.

A table of transitions like those of stochastic Deep Sea: most have the same reward at every visit, two draw it from
N(0, 1), and one, the goal, from N(1, 1). Half of the first kind, and the two, were visited often, the others and the
goal n times. Each estimator gives the variance of every mean reward. An agent abandons the goal if the mean of its
rewards plus one standard deviation is below 0.

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

TABLES, NOISELESS, NOISY = 400, 200, 2
VISITS, OFTEN = (1, 2, 4, 8, 16, 64), 100
UNSEEN, EPSILON = 3.0, 0.01  # as in the settings of E-AZ on Deep Sea
MEMBERS, PRIOR_WEIGHT = 10, 0.1
GOAL, RARE = NOISELESS + NOISY, NOISELESS // 2

Rewards = list[Float[np.ndarray, "n"]]  # of each transition of a table
Variances = Float[np.ndarray, "transitions"]
Estimator = Callable[[Rewards, np.random.Generator], Variances]


def sample_table(visits: int, rng: np.random.Generator) -> Rewards:
    """Samples the rewards of all transitions, with this many visits of the goal and of the rare ones."""
    cost = [0.0 if index % 2 else -0.0002 for index in range(NOISELESS)]
    noiseless = [np.full(visits if index < RARE else OFTEN, cost[index]) for index in range(NOISELESS)]
    return [*noiseless, *rng.normal(size=(NOISY, OFTEN)), 1 + rng.normal(size=visits)]


def visit_counts(rewards: Rewards, rng: np.random.Generator) -> Variances:
    """Counts, as they are used without noise."""
    counts = Counts(1, EPSILON, UNSEEN * EPSILON)
    return np.array([counts.scale / (len(one) + counts.epsilon) for one in rewards])


def own_variance(rewards: Rewards, rng: np.random.Generator) -> Variances:
    """A learned noise head in its limit: the mean squared residual of each transition, divided by its visits."""
    return np.array([one.var() / len(one) for one in rewards])


def reward_ensemble(rewards: Rewards, rng: np.random.Generator) -> Variances:
    """Reward heads with random priors in their limit: each learns from half of the rewards, with twice the weight."""
    variances = []
    for one in rewards:
        weights = 2.0 * rng.integers(2, size=(MEMBERS, len(one)))
        priors = np.sqrt(UNSEEN) * rng.normal(size=MEMBERS)
        means = (weights @ one + PRIOR_WEIGHT * priors) / (weights.sum(axis=1) + PRIOR_WEIGHT)
        variances.append(means.var())
    return np.array(variances)


_MOMENTS = RewardMoments(GOAL + 1)
_update, _variances = jax.jit(_MOMENTS.update), jax.jit(_MOMENTS.variances)


def pooled_moments(rewards: Rewards, rng: np.random.Generator) -> Variances:
    """The estimator of E-AZ: moments of each transition, and noise that is estimated from all of them."""
    rows = np.concatenate([np.full(len(one), index) for index, one in enumerate(rewards)])
    values, order = np.concatenate(rewards), rng.permutation(len(rows))
    state = _MOMENTS.init(jax.random.key(0))
    state = _update(
        state, jnp.asarray(rows[order]), jnp.asarray(values[order], jnp.float32), jnp.ones(len(rows), bool)
    )
    return np.asarray(_variances(state), np.float64)


ESTIMATORS: dict[str, Estimator] = {
    "counts": visit_counts,
    "noise of each transition alone": own_variance,
    f"ensemble of {MEMBERS} reward heads": reward_ensemble,
    "moments, pooled noise": pooled_moments,
}


def measure(name: str, visits: int, num_tables: int = TABLES) -> dict[str, float | str]:
    """Returns the error of the goal's mean reward over many tables, its estimate, and how often it is abandoned."""
    rng = np.random.default_rng(visits)
    means, goal, noiseless = [], [], []
    for _ in range(num_tables):
        rewards = sample_table(visits, rng)
        variances = ESTIMATORS[name](rewards, rng)
        means.append(rewards[GOAL].mean())
        goal.append(variances[GOAL])
        noiseless.append(variances[:RARE].mean())
    abandoned = np.mean(np.array(means) + np.sqrt(goal) < 0)
    return {
        "estimator": name,
        "visits": visits,
        "error": float(np.sqrt(np.mean((np.array(means) - 1) ** 2))),
        "estimated_std": float(np.sqrt(np.mean(goal))),
        "abandoned": float(abandoned),
        "estimated_std_without_noise": float(np.sqrt(np.mean(noiseless))),
    }


def main(out: Path | None) -> None:
    lines = [measure(name, visits) for name in ESTIMATORS for visits in VISITS]
    print(f"{'':32}{'visits':>8}{'error':>8}{'std':>8}{'abandoned':>12}{'std without noise':>20}")
    for line in lines:
        numbers = f"{line['error']:8.2f}{line['estimated_std']:8.2f}{line['abandoned']:12.1%}"
        print(f"{line['estimator']:32}{line['visits']:8}{numbers}{line['estimated_std_without_noise']:20.4f}")
    if out is not None:
        provenance = {
            "tables": TABLES,
            "commit": commit() or "",
            "command": f"python examples/reward_noise.py --out {out}",
        }
        with out.open("w", newline="") as file:
            writer = csv.DictWriter(file, [*lines[0], *provenance])
            writer.writeheader()
            writer.writerows({**line, **provenance} for line in lines)


if __name__ == "__main__":
    main(Path(sys.argv[2]) if sys.argv[1:2] == ["--out"] else None)
