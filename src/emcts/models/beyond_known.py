"""Maximal uncertainty behind the first unknown transition of a plan (appendix B), for learned transitions."""

import dataclasses

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from emcts.models.evaluators import StateEstimate
from emcts.models.world_model import PlanningModel, Prior
from emcts.types import (
    Action,
    Key,
    Params,
    RecurrentFn,
    RecurrentFnOutput,
    RecurrentState,
    Replaceable,
    RootFnOutput,
    Scalar,
    record,
)


@record
class BeyondKnown(Replaceable):
    """A model's embedding, and whether the path to it has crossed an unknown transition."""

    embedding: RecurrentState
    past_unknown: Bool[Array, "*B"]


class BeyondKnownModel:
    """Wraps a model so that its variances follow appendix B (`eq:mz_variance_unobserved`).

    A transition is unknown if its reward variance reaches `unknown_at`. From there on reward variances are `r_max^2`
    and value variances `(r_max / (1 - gamma))^2`, up to the end of the episode. Means are the model's own. Search with
    `root(...)` and `recurrent_fn` in place of the model's.
    """

    def __init__(
        self, recurrent_fn: RecurrentFn, *, r_max: Scalar, gamma: float, unknown_at: Scalar | None = None
    ):
        if isinstance(r_max, int | float) and not r_max > 0:
            raise ValueError(f"r_max bounds the reward's size: it must be positive, got {r_max}")
        if not 0 <= gamma < 1:
            raise ValueError(f"gamma must be in [0, 1) for values to be bounded, got {gamma}")
        self._recurrent_fn = recurrent_fn
        self._reward_variance = r_max**2
        self._value_variance = (r_max / (1 - gamma)) ** 2
        self._unknown_at = self._reward_variance if unknown_at is None else unknown_at

    def root(self, root: RootFnOutput) -> RootFnOutput:
        """Wraps the embedding of the root, whose state is known."""
        return RootFnOutput(
            prior_logits=root.prior_logits,
            value=root.value,
            embedding=BeyondKnown(root.embedding, jnp.zeros(root.value.shape, bool)),
            value_variance=getattr(root, "value_variance", None),
        )

    def recurrent_fn(
        self, params: Params, rng_key: Key, action: Action, state: BeyondKnown
    ) -> tuple[RecurrentFnOutput, BeyondKnown]:
        step, embedding = self._recurrent_fn(params, rng_key, action, state.embedding)
        step, past_unknown = self.rule(step, state.past_unknown)
        return step, BeyondKnown(embedding, past_unknown)

    def rule(
        self, step: RecurrentFnOutput, past_unknown: Bool[Array, "*B"]
    ) -> tuple[RecurrentFnOutput, Bool[Array, "*B"]]:
        """Returns a step with the variances of appendix B, and whether its path has crossed an unknown transition."""
        reward_variance = _or_zero(step, "reward_variance")
        past_unknown = past_unknown | (reward_variance >= self._unknown_at)
        out = RecurrentFnOutput(
            reward=step.reward,
            discount=step.discount,
            prior_logits=step.prior_logits,
            value=step.value,
            reward_variance=jnp.where(past_unknown, self._reward_variance, reward_variance),
            value_variance=jnp.where(past_unknown, self._value_variance, _or_zero(step, "value_variance")),
        )
        return out, past_unknown


@dataclasses.dataclass(frozen=True)
class BeyondKnownPlanning:
    """A planning model with the rule applied to its searches and to single steps."""

    model: PlanningModel[PyTree]
    r_max: Scalar
    gamma: float
    unknown_at: Scalar

    @property
    def return_range(self) -> Scalar:
        return self.model.return_range

    def root(self, states: PyTree, prior: Prior) -> RootFnOutput:
        return self._wrapped(prior).root(self.model.root(states, prior))

    def recurrent_fn(self, prior: Prior) -> RecurrentFn:
        return self._wrapped(prior).recurrent_fn

    def invalid_actions(self, states: PyTree) -> Bool[Array, "B A"]:
        return self.model.invalid_actions(states)

    def estimate(self, states: PyTree) -> StateEstimate:
        return self.model.estimate(states)

    def stands_for(self, embeddings: BeyondKnown, states: PyTree) -> Bool[Array, "B"]:
        """Returns also whether the path to the node was known: below an unknown step variances are the largest."""
        return ~embeddings.past_unknown & self.model.stands_for(embeddings.embedding, states)

    def step(self, states: PyTree, actions: Int[Array, "B"], key: Key) -> RecurrentFnOutput:
        step = self.model.step(states, actions, key)
        return self._wrapped(lambda estimate: estimate.policy).rule(step, jnp.zeros(actions.shape, bool))[0]

    def _wrapped(self, prior: Prior) -> BeyondKnownModel:
        step = self.model.recurrent_fn(prior)
        return BeyondKnownModel(step, r_max=self.r_max, gamma=self.gamma, unknown_at=self.unknown_at)


def _or_zero(step: RecurrentFnOutput, field: str) -> Float[Array, "*B"]:
    value = getattr(step, field, None)
    return jnp.zeros_like(step.value) if value is None else jnp.asarray(value)
