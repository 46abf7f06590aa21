"""Novelty estimators in a loop of one's own: a search that explores a grid, with nothing of `emcts` but these two.

python examples/novelty_alone.py
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

import emcts
from emcts.novelty import Ensemble, HashCounts, Normalised, Novelty, RandomFeatures, Rnd, Whitened

SIZE, STEPS, BATCH, DISCOUNT = 16, 400, 32, 0.95
MOVES = jnp.array([[-1, 0], [1, 0], [0, -1], [0, 1]])


def move(cell, action):
    """The model of this example: the true moves on a grid. Nothing is known of rewards."""
    return jnp.clip(cell + MOVES[action], 0, SIZE - 1)


def observe(cell):
    """One-hot rows and columns: what novelty is estimated of."""
    return jnp.concatenate([jax.nn.one_hot(cell[0], SIZE), jax.nn.one_hot(cell[1], SIZE)])


# 1. A hash: how often was exactly this observation seen?
counts = HashCounts(bits=16, epsilon=1.0)


# 2. Random network distillation, with networks of your own. A sample of observations comes from random cells.
def sample(key):
    return jax.vmap(observe)(jax.random.randint(key, (256, 2), 0, SIZE))


def predictor(key):
    return eqx.nn.MLP(in_size=64, out_size=32, width_size=64, depth=1, key=key)


rnd = Normalised(
    Whitened(RandomFeatures(Rnd(predictor, predictor, optax.adam(1e-2)), 2 * SIZE, 64), sample),
    sample,
    new_from=0.4,
)


# 3. The disagreement of an ensemble, of the same networks.
def member(key):
    return eqx.nn.MLP(in_size=64, out_size=4, width_size=32, depth=1, key=key)


ensemble = Normalised(
    Whitened(RandomFeatures(Ensemble(member, optax.adam(1e-2), size=4), 2 * SIZE, 64), sample),
    sample,
    new_from=0.4,
)

ESTIMATORS: dict[str, Novelty] = {"hash": counts, "rnd": rnd, "ensemble": ensemble}


def search(novelty, state, key, cell, beta):
    """One search from a batch of cells. The state of the estimator is `params`, as weights would be."""

    def recurrent_fn(params, key, action, cell):
        cell = jax.vmap(move)(cell, action)
        eta = jax.vmap(novelty.variance, (None, 0))(params, jax.vmap(observe)(cell))
        step = emcts.RecurrentFnOutput(
            reward=jnp.zeros(action.shape),
            discount=jnp.full(action.shape, DISCOUNT),
            prior_logits=jnp.zeros((*action.shape, 4)),
            value=jnp.zeros(action.shape),
            reward_variance=eta,
            # What is behind an unseen cell is as unknown as the cell, at every step to come.
            value_variance=eta / (1 - DISCOUNT**2),
        )
        return step, cell

    root = emcts.RootFnOutput(
        prior_logits=jnp.zeros((cell.shape[0], 4)), value=jnp.zeros(cell.shape[0]), embedding=cell
    )
    return emcts.gumbel_muzero_policy(state, key, root, recurrent_fn, num_simulations=32, beta=beta)


def explore(novelty, key, beta, steps=STEPS):
    """The fraction of the cells that were visited: act, step, update, all under one `scan`."""
    init_key, loop_key = jax.random.split(key)

    def step(carry, inputs):
        state, cell, memory = carry
        time, key = inputs
        search_key, batch_key = jax.random.split(key)
        action = search(novelty, state, search_key, cell, beta).action
        cell = jax.vmap(move)(cell, action)
        memory = memory.at[time].set(cell[0])
        # Networks forget what they are not shown again: the new cell comes with others that were seen before. A table
        # counts each visit once: of the batch, the mask leaves it the new cell.
        batch = memory[jax.random.randint(batch_key, (BATCH,), 0, time + 1).at[0].set(time)]
        mask = (jnp.arange(BATCH) == 0) | (not isinstance(novelty, HashCounts))
        state = novelty.update(state, jax.vmap(observe)(batch), mask)
        return (state, cell, memory), None

    start = (novelty.init(init_key), jnp.zeros((1, 2), jnp.int32), jnp.zeros((steps, 2), jnp.int32))
    inputs = (jnp.arange(steps), jax.random.split(loop_key, steps))
    memory = jax.lax.scan(step, start, inputs)[0][2]
    return jnp.mean(jnp.zeros((SIZE, SIZE)).at[memory[:, 0], memory[:, 1]].set(1))


def main() -> None:
    for name, novelty in ESTIMATORS.items():
        for beta in (0.0, 1.0):
            visited = jax.jit(lambda key, novelty=novelty, beta=beta: explore(novelty, key, beta))(
                jax.random.key(0)
            )
            print(f"{name}, beta {beta:g}: {float(visited):.0%} of the cells after {STEPS} steps")


if __name__ == "__main__":
    main()
