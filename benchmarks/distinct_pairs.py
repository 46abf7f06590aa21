"""How many different states and pairs of state and action the batches of E-AZ have in Deep Sea, as training goes on.

`python -m benchmarks.distinct_pairs FILE.csv` trains one seed with a small network of RND, which visits states much as
a large one does.
"""

import csv
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

import jax
import numpy as np

from benchmarks.machine import provenance
from benchmarks.train import Case, parts
from emcts.agents.mcts.learner import MctsLearner
from emcts.envs.base import FiniteEnvironment
from emcts.training import replay as replays

CHANGES = {"env.size": 40, "novelty.kind": "rnd", "novelty.rnd_width": 64}
EVERY, STEPS = 400, 5200


def main(
    path: Path, *, every: int = EVERY, steps: int = STEPS, changes: Mapping[str, object] = CHANGES
) -> None:
    """Writes a row for every few steps of the training."""
    per_chunk = every // 10
    trainer = Case("deep-sea", "default", 1, changes, iterations_per_chunk=per_chunk).trainer()
    learner = trainer.learner
    assert isinstance(learner, MctsLearner)
    env, reanalyse = learner.env_factory.example, parts(learner).reanalyse
    assert isinstance(env, FiniteEnvironment)
    index = jax.vmap(env.index)
    state, rows, done = trainer.init(), [], 0
    while done < steps:
        state, progress = trainer.advance(state)
        done = progress.env_steps
        trajectories = jax.tree.map(lambda leaf: leaf[0], reanalyse(state).trajectories)
        first = jax.tree.map(lambda leaf: leaf[:, :, 0, 0], trajectories.states)
        of_states = np.asarray(jax.vmap(index)(first))
        of_pairs = of_states * env.num_actions + np.asarray(trajectories.actions)[:, :, 0, 0]
        replay = jax.tree.map(lambda leaf: leaf[0], state.replay)
        stored, valid = replays.latest(replay, learner.replay.recent)
        flat = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), stored)
        recent = (np.asarray(index(flat.state)) * env.num_actions + np.asarray(flat.action))[
            np.asarray(valid).reshape(-1)
        ]
        rows.append(
            {
                "env_steps": done,
                "visited_states": int((np.asarray(state.log.visits[0]) > 0).sum()),
                "states_of_an_iteration": len(np.unique(of_states)),
                "states_of_a_batch": round(_distinct(of_states), 1),
                "pairs_of_a_batch": round(_distinct(of_pairs), 1),
                "pairs_with_recent": round(_distinct([np.concatenate([one, recent]) for one in of_pairs]), 1),
                "rows_with_recent": of_pairs.shape[1] + learner.replay.recent * learner.num_envs,
                **provenance("python -m benchmarks.distinct_pairs"),
            }
        )
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def _distinct(batches: Iterable[np.ndarray]) -> float:
    return float(np.mean([len(np.unique(one)) for one in batches]))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
