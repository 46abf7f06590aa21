"""Small networks for the learned estimators."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np


class Mlp(eqx.Module):
    """One hidden layer; every leaf is an array."""

    hidden: eqx.nn.Linear
    out: eqx.nn.Linear

    def __init__(self, key, inputs, width, outputs):
        self.hidden = eqx.nn.Linear(inputs, width, key=key)
        self.out = eqx.nn.Linear(width, outputs, key=key)

    def __call__(self, x):
        return self.out(jax.nn.relu(self.hidden(x)))


class Row(eqx.Module):
    """The simplest network over indices: a table of vectors."""

    table: jax.Array

    def __call__(self, x):
        return self.table[x]


def mlp(inputs, width, outputs, scale=0.5):
    """A factory, as the estimators take it. One draw fills all leaves: each further one is slow to compile."""

    def draw(key):
        leaves, structure = jax.tree.flatten(eqx.filter_eval_shape(Mlp, key, inputs, width, outputs))
        sizes = [leaf.size for leaf in leaves]
        numbers = jnp.split(scale * jax.random.normal(key, (sum(sizes),)), np.cumsum(sizes)[:-1])
        shaped = [part.reshape(leaf.shape) for part, leaf in zip(numbers, leaves, strict=True)]
        return jax.tree.unflatten(structure, shaped)

    return draw
