"""Ensemble disagreement with random priors: members disagree where there were no data."""

import dataclasses
from typing import Generic

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, PyTree, Shaped, UInt32

from emcts.counter import Counter
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

_BOOTSTRAP = 0.5  # the probability that a member is trained on a row


@record
class EnsembleState(Replaceable, Generic[NetworkT]):
    """The arrays of members and fixed priors, stacked, and the seed and count that bootstrap masks are drawn from."""

    members: NetworkT
    priors: NetworkT
    optimiser_states: PyTree
    seed: UInt32[Array, ""]
    num_updates: Counter


@dataclasses.dataclass(frozen=True)
class Ensemble(Generic[NetworkT]):
    """eta = scale times the variance of the predictions of `size` members, summed over the outputs.

    A prediction is the output of a member plus `prior_scale` times that of a random network that never changes. All
    members are trained on the same targets (zero, unless `fit` is given others), each on its own half of the rows,
    drawn anew for each update. `member` draws a network from a key, such as an `eqx.nn.MLP`, that maps `x` to a vector.
    """

    member: NetworkFactory[NetworkT]
    optimiser: optax.GradientTransformation
    size: int
    scale: float = 1.0
    prior_scale: float = 1.0

    def __post_init__(self) -> None:
        if self.size < 2:
            raise ValueError(f"an ensemble of {self.size} has no disagreement: give a size of at least 2")
        if not 0 <= self.prior_scale < float("inf"):
            raise ValueError(f"prior_scale must be a finite number of at least 0, got {self.prior_scale}")
        check_scale(self.scale)

    def init(self, key: Key) -> EnsembleState[NetworkT]:
        member_key, prior_key, seed_key = jax.random.split(key, 3)
        members = jax.vmap(lambda key: draw_arrays(self.member, key))(jax.random.split(member_key, self.size))
        priors = jax.vmap(lambda key: draw_arrays(self.member, key))(jax.random.split(prior_key, self.size))
        return EnsembleState(
            members=members,
            priors=priors,
            optimiser_states=jax.vmap(self.optimiser.init)(parameters(members)),
            seed=jax.random.bits(seed_key, (), jnp.uint32),
            num_updates=Counter.of(0),
        )

    def variance(self, state: EnsembleState[NetworkT], x: Shaped[Array, "..."]) -> Float[Array, ""]:
        return self.scale * jnp.sum(jnp.var(self.predictions(state, x), axis=0))

    def predictions(self, state: EnsembleState[NetworkT], x: Shaped[Array, "..."]) -> Float[Array, "K D"]:
        """The prediction of each member for `x`, its prior included."""
        return jax.vmap(self._predict, (0, 0, None))(state.members, state.priors, x)

    def update(
        self, state: EnsembleState[NetworkT], xs: Shaped[Array, "B ..."], mask: Bool[Array, "B"]
    ) -> EnsembleState[NetworkT]:
        """One step of the optimiser of every member on targets of zero."""
        outputs = jax.eval_shape(jax.vmap(self.predictions, (None, 0)), state, xs)
        batch, _, width = outputs.shape
        return self.fit(state, xs, jnp.zeros((batch, width), outputs.dtype), mask)

    def fit(
        self,
        state: EnsembleState[NetworkT],
        xs: Shaped[Array, "B ..."],
        targets: Float[Array, "B D"],
        mask: Bool[Array, "B"],
    ) -> EnsembleState[NetworkT]:
        """One step of the optimiser of every member on the mean squared distance from the targets."""
        key = state.num_updates.fold_into(jax.random.key(state.seed))
        chosen = mask[None] & jax.random.bernoulli(key, _BOOTSTRAP, (self.size, len(mask)))
        rows = zero_masked(xs, mask), zero_masked(targets, mask)

        def train(member, prior, optimiser_state, mask):
            def error(member, row):
                x, target = row
                return squared_error(self._predict(member, prior, x), target)

            return gradient_step(self.optimiser, error, member, optimiser_state, rows, mask)

        members, optimiser_states = jax.vmap(train)(
            state.members, state.priors, state.optimiser_states, chosen
        )
        return state.replace(
            members=members,
            optimiser_states=optimiser_states,
            num_updates=state.num_updates.add(mask.any()),
        )

    def _predict(self, member: NetworkT, prior: NetworkT, x: Shaped[Array, "..."]) -> Float[Array, "D"]:
        whole, random = (with_functions(self.member, arrays) for arrays in (member, prior))
        return whole(x) + self.prior_scale * random(x)
