"""Random network distillation: an input is new if a predictor does not reproduce a random target network on it."""

import dataclasses
import functools
from typing import Generic

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, PyTree, Shaped

from emcts.distinct import distinct, saves_work
from emcts.novelty.base import check_scale
from emcts.novelty.network import (
    NetworkFactory,
    NetworkT,
    draw_arrays,
    gradient_step,
    parameters,
    squared_error,
    with_functions,
    zero_masked,
)
from emcts.types import Key, Replaceable, record


@record
class RndState(Replaceable, Generic[NetworkT]):
    """The arrays of the predictor, which is trained, and of the random target, which never changes."""

    predictor: NetworkT
    target: NetworkT
    optimiser_state: PyTree


@dataclasses.dataclass(frozen=True)
class Rnd(Generic[NetworkT]):
    """eta = scale times the squared distance of the predictor's output from the target's.

    `predictor` and `target` draw a network from a key, such as an `eqx.nn.MLP`, that maps `x` to a vector.
    """

    predictor: NetworkFactory[NetworkT]
    target: NetworkFactory[NetworkT]
    optimiser: optax.GradientTransformation
    scale: float = 1.0

    def __post_init__(self) -> None:
        check_scale(self.scale)

    def init(self, key: Key) -> RndState[NetworkT]:
        predictor_key, target_key = jax.random.split(key)
        predictor = draw_arrays(self.predictor, predictor_key)
        target = draw_arrays(self.target, target_key)
        return RndState(predictor, target, self.optimiser.init(parameters(predictor)))

    def variance(self, state: RndState[NetworkT], x: Shaped[Array, "..."]) -> Float[Array, ""]:
        return self.scale * self._error(state.predictor, state.target, x)

    def update(
        self, state: RndState[NetworkT], xs: Shaped[Array, "B ..."], mask: Bool[Array, "B"]
    ) -> RndState[NetworkT]:
        """One step of the optimiser on the mean squared distance. Equal indices are computed once."""

        def error(predictor: NetworkT, x: Shaped[Array, "..."]) -> Float[Array, ""]:
            return self._error(predictor, state.target, x)

        step = functools.partial(gradient_step, self.optimiser, error, state.predictor, state.optimiser_state)
        if xs.ndim == 1 and jnp.issubdtype(xs.dtype, jnp.integer) and saves_work():
            found = distinct(xs, mask)
            predictor, optimiser_state = step(found.indices, found.counts, found.number)
        else:
            predictor, optimiser_state = step(zero_masked(xs, mask), mask)
        return state.replace(predictor=predictor, optimiser_state=optimiser_state)

    def _error(self, predictor: NetworkT, target: NetworkT, x: Shaped[Array, "..."]) -> Float[Array, ""]:
        return squared_error(
            with_functions(self.predictor, predictor)(x), with_functions(self.target, target)(x)
        )
