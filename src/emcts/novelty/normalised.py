"""Variances in units of what is unseen, for estimators whose own scale is an accident of their networks."""

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree, Shaped

from emcts.novelty.base import Fitted, Novelty, check_scale
from emcts.types import Key, Replaceable, record


@record
class NormalisedState(Replaceable):
    """The state inside, and the mean variance of the probes before anything was seen."""

    inner: PyTree
    unit: Float[Array, ""]


@dataclasses.dataclass(frozen=True)
class Normalised:
    """The variance of `novelty`, scaled so that it starts at about `scale`.

    `probes` draws a batch of inputs like those to come, by whose mean variance at the start all are divided.
    The scale of `novelty` itself cancels. Whatever keeps a share `new_from` of that variance is wholly new, and all
    of it alike; else a planner chases the accidents of a random network. A `power` above 1 draws what is new and what
    is half learned further apart: many steps through the latter then no longer add up to the former.
    """

    novelty: Novelty
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

    def init(self, key: Key) -> NormalisedState:
        novelty_key, probe_key = jax.random.split(key)
        inner = self.novelty.init(novelty_key)
        variances = jax.vmap(self.novelty.variance, (None, 0))(inner, self.probes(probe_key))
        # Of an estimator that is never uncertain, the variance stays 0 instead of becoming 0 / 0.
        return NormalisedState(inner, jnp.maximum(jnp.mean(variances), jnp.finfo(variances.dtype).tiny))

    def variance(self, state: NormalisedState, x: Shaped[Array, "..."]) -> Float[Array, ""]:
        share = self.novelty.variance(state.inner, x) / state.unit
        if self.new_from is not None:
            share = jnp.minimum(share / self.new_from, 1)
        return self.scale * share**self.power

    def update(
        self, state: NormalisedState, xs: Shaped[Array, "B ..."], mask: Bool[Array, "B"]
    ) -> NormalisedState:
        return state.replace(inner=self.novelty.update(state.inner, xs, mask))

    def fit(
        self,
        state: NormalisedState,
        xs: Shaped[Array, "B ..."],
        targets: Float[Array, "B D"],
        mask: Bool[Array, "B"],
    ) -> NormalisedState:
        """Where `novelty` learns to predict targets."""
        if not isinstance(self.novelty, Fitted):
            raise ValueError(
                f"{type(self.novelty).__name__} learns no targets: give one that does (Ensemble)"
            )
        return state.replace(inner=self.novelty.fit(state.inner, xs, targets, mask))
