"""Variances relative to those of unseen inputs, for estimators whose own scale depends on their random networks."""

import dataclasses
from collections.abc import Callable
from typing import Generic

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Shaped

from emcts.novelty.base import Novelty, State, check_scale, fit_to_targets, init_from
from emcts.types import Key, Replaceable, record


@record
class NormalisedState(Replaceable, Generic[State]):
    """The wrapped state, and the mean variance of the probes before anything was seen."""

    inner: State
    unit: Float[Array, ""]


@dataclasses.dataclass(frozen=True)
class Normalised(Generic[State]):
    """The variance of `novelty`, scaled so that it starts at about `scale`.

    `probes` draws a batch of inputs like those to come; all variances are divided by their mean variance at the start.
    The scale of `novelty` itself cancels. Every input with at least a share `new_from` of that variance has the full
    one; else a planner is drawn to inputs on which a random network happens to be large. A `power` above 1 lowers the
    variance of inputs that are partly learned: many steps through them then no longer add up to that of a new one.
    """

    novelty: Novelty[State]
    probes: Callable[[Key], Shaped[Array, "P ..."]]
    scale: float = 1.0
    power: float = 1.0
    new_from: float | None = None

    def __post_init__(self) -> None:
        check_scale(self.scale)
        if not self.power > 0:
            raise ValueError(
                f"power is {self.power}: give a positive number, 1 to leave variances as they are"
            )
        if self.new_from is not None and not self.new_from > 0:
            raise ValueError(f"new_from is {self.new_from}: give a positive share, or None for no ceiling")

    def init(self, key: Key) -> NormalisedState[State]:
        novelty_key, probe_key = jax.random.split(key)
        sample = self.probes(probe_key)
        inner = init_from(self.novelty, novelty_key, sample)
        variances = jax.vmap(self.novelty.variance, (None, 0))(inner, sample)
        # The variance of an estimator that is never uncertain stays 0 instead of becoming 0 / 0.
        return NormalisedState(inner, jnp.maximum(jnp.mean(variances), jnp.finfo(variances.dtype).tiny))

    def variance(self, state: NormalisedState[State], x: Shaped[Array, "..."]) -> Float[Array, ""]:
        share = self.novelty.variance(state.inner, x) / state.unit
        if self.new_from is not None:
            share = jnp.minimum(share / self.new_from, 1)
        return self.scale * share**self.power

    def update(
        self, state: NormalisedState[State], xs: Shaped[Array, "B ..."], mask: Bool[Array, "B"]
    ) -> NormalisedState[State]:
        return state.replace(inner=self.novelty.update(state.inner, xs, mask))

    def fit(
        self,
        state: NormalisedState[State],
        xs: Shaped[Array, "B ..."],
        targets: Float[Array, "B D"],
        mask: Bool[Array, "B"],
    ) -> NormalisedState[State]:
        """The state once `novelty` was fitted to the targets, if it can be."""
        return state.replace(inner=fit_to_targets(self.novelty, state.inner, xs, targets, mask))
