"""A random deterministic model as tables, for emcts, for mctx and for a plain-Python oracle."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import emcts


@dataclasses.dataclass(frozen=True)
class RandomModel:
    """Tables over `num_states` states; the root of batch element `b` is state `b`."""

    successor: np.ndarray  # [S, A]
    reward: np.ndarray  # [S, A]
    discount: np.ndarray  # [S, A]
    reward_variance: np.ndarray  # [S, A]
    prior_logits: np.ndarray  # [S, A]
    value: np.ndarray  # [S]
    value_variance: np.ndarray  # [S]

    @classmethod
    def make(cls, seed: int, actions: int, *, states: int = 200, terminal: float = 0.0) -> "RandomModel":
        random = np.random.default_rng(seed)
        shape = (states, actions)
        ends = random.random(shape) < terminal
        return cls(
            successor=random.integers(states, size=shape).astype(np.int32),
            reward=random.normal(size=shape).astype(np.float32),
            discount=np.where(ends, 0, random.uniform(0.8, 1, shape)).astype(np.float32),
            reward_variance=random.exponential(size=shape).astype(np.float32),
            prior_logits=random.normal(size=shape).astype(np.float32),
            value=random.normal(size=states).astype(np.float32),
            value_variance=random.exponential(size=states).astype(np.float32),
        )

    def root(self, library: Any, batch: int, *, variance: bool = False) -> Any:
        fields = {"prior_logits": self.prior_logits[:batch], "value": self.value[:batch]}
        if variance:
            fields["value_variance"] = self.value_variance[:batch]
        embedding = jnp.arange(batch, dtype=jnp.int32)
        return library.RootFnOutput(
            **{name: jnp.asarray(x) for name, x in fields.items()}, embedding=embedding
        )

    def recurrent_fn(self, library: Any, *, variance: bool = False) -> Any:
        tables = {field.name: jnp.asarray(getattr(self, field.name)) for field in dataclasses.fields(self)}

        def recurrent_fn(params: Any, key: Any, action: Any, state: Any) -> Any:
            successor = tables["successor"][state, action]
            fields = {
                "reward": tables["reward"][state, action],
                "discount": tables["discount"][state, action],
                "prior_logits": tables["prior_logits"][successor],
                "value": tables["value"][successor],
            }
            if variance:
                fields["reward_variance"] = tables["reward_variance"][state, action]
                fields["value_variance"] = tables["value_variance"][successor]
            return library.RecurrentFnOutput(**fields), successor

        return recurrent_fn


def search(
    model: RandomModel,
    policy: Any,
    batch: int,
    simulations: int,
    mask: Any = None,
    max_depth: int | None = None,
    *,
    beta: Any = 0.0,
    **options: Any,
) -> emcts.PolicyOutput:
    """An emcts policy on a random model. Models of one size, masks and betas share one program."""
    program = _program(policy, batch, simulations, max_depth, tuple(options.items()))
    betas = jnp.broadcast_to(jnp.asarray(beta, jnp.float32), (batch,))
    invalid = jnp.zeros(model.prior_logits[:batch].shape) if mask is None else mask
    return program(jax.random.key(7), vars(model), invalid, betas)


@functools.cache
def _program(
    policy: Any, batch: int, simulations: int, max_depth: int | None, options: tuple[tuple[str, Any], ...]
) -> Callable[..., Any]:
    @jax.jit
    def run(key: Any, tables: Any, mask: Any, beta: Any) -> emcts.PolicyOutput:
        model = RandomModel(**tables)
        root, recurrent_fn = (
            model.root(emcts, batch, variance=True),
            model.recurrent_fn(emcts, variance=True),
        )
        arguments = (root, recurrent_fn, simulations, mask, max_depth)
        return policy(None, key, *arguments, beta=beta, **dict(options))

    return run
