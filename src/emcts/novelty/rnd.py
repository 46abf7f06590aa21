"""Random network distillation: what a network has not learned to copy from a random one is new."""

import dataclasses

import jax
import optax
from jaxtyping import Array, Bool, Float, PyTree, Shaped

from emcts.novelty.base import check_scale
from emcts.novelty.network import Network, NetworkFactory, blank, build, descend, squared_error
from emcts.types import Key, Replaceable, record


@record
class RndState(Replaceable):
    """The predictor as it is trained, and the random target that never changes."""

    predictor: Network
    target: Network
    optimiser_state: PyTree


@dataclasses.dataclass(frozen=True)
class Rnd:
    """eta = scale times the squared distance of the predictor's output from the target's.

    `predictor` and `target` draw a network from a key: a callable pytree of arrays, from `x` to a vector.
    """

    predictor: NetworkFactory
    target: NetworkFactory
    optimiser: optax.GradientTransformation
    scale: float = 1.0

    def __post_init__(self) -> None:
        check_scale(self.scale)

    def init(self, key: Key) -> RndState:
        predictor_key, target_key = jax.random.split(key)
        predictor = build(self.predictor, predictor_key)
        target = build(self.target, target_key)
        return RndState(predictor, target, self.optimiser.init(predictor))

    def variance(self, state: RndState, x: Shaped[Array, "..."]) -> Float[Array, ""]:
        return self.scale * squared_error(state.predictor(x), state.target(x))

    def update(self, state: RndState, xs: Shaped[Array, "B ..."], mask: Bool[Array, "B"]) -> RndState:
        """One step of the optimiser, on the mean of the squared distances."""

        def error(predictor: Network, x: Shaped[Array, "..."]) -> Float[Array, ""]:
            return squared_error(predictor(x), state.target(x))

        predictor, optimiser_state = descend(
            self.optimiser, error, state.predictor, state.optimiser_state, blank(xs, mask), mask
        )
        return state.replace(predictor=predictor, optimiser_state=optimiser_state)
