"""Small records that pass between a model, the search and its caller.

Letters in every shape: `B` batch, `N` nodes of a tree, `A` actions, `C` chance outcomes.
A variance is always epistemic: uncertainty of the model, not randomness of the environment.
"""

import dataclasses
import html
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar, dataclass_transform

import jax
from jax.typing import ArrayLike
from jaxtyping import Array, Int, PRNGKeyArray, PyTree

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
SelfT = TypeVar("SelfT")
RecordT = TypeVar("RecordT", bound=type)

Params = PyTree
Key = PRNGKeyArray | Array
RecurrentState = PyTree  # the model's state at a node: any pytree, each leaf with a batch axis first
Scalar = int | float | Array  # one number
Number = ArrayLike  # one number, or an array of them
JSON = bool | int | float | str | Sequence[object] | Mapping[str, object] | None
MaybeArray = Any  # an array or None: callers know which


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
def record(cls: RecordT) -> RecordT:
    """Makes a class a frozen dataclass and a pytree, with its fields as children.

    A field with `metadata={"static": True}` belongs to the tree's structure instead. Rebuilding a record from leaves
    skips `__init__`: JAX puts placeholders and batches into the fields, to which the declared shapes do not apply.
    """
    dataclasses.dataclass(frozen=True)(cls)
    fields = dataclasses.fields(cls)
    static = [field.name for field in fields if field.metadata.get("static", False)]
    names = [field.name for field in fields if field.name not in static]
    keys = [jax.tree_util.GetAttrKey(name) for name in names]

    def structure(value: object) -> tuple[object, ...]:
        return tuple(getattr(value, name) for name in static)

    def flatten(value: object) -> tuple[list[object], tuple[object, ...]]:
        return [getattr(value, name) for name in names], structure(value)

    def flatten_with_keys(value: object) -> tuple[list[tuple[object, object]], tuple[object, ...]]:
        children = [(key, getattr(value, name)) for key, name in zip(keys, names, strict=True)]
        return children, structure(value)

    def unflatten(structure: tuple[object, ...], children: Iterable[object]) -> object:
        value: object = object.__new__(cls)
        for name, child in zip(names, children, strict=True):
            object.__setattr__(value, name, child)
        for name, constant in zip(static, structure, strict=True):
            object.__setattr__(value, name, constant)
        return value

    jax.tree_util.register_pytree_with_keys(cls, flatten_with_keys, unflatten, flatten)
    return cls


class Replaceable:
    """Gives a record `replace(field=new)`, which returns a changed copy."""

    def replace(self: SelfT, **changes: object) -> SelfT:
        return dataclasses.replace(self, **changes)  # type: ignore[type-var]


@record
class RootFnOutput(Replaceable):
    """The model's output for the root. `value_variance` None means that the value is known."""

    prior_logits: Array  # [B, A]: logits of the prior policy
    value: Array  # [B]: the estimated return from the root on
    embedding: RecurrentState  # [B, ...]: the state of the root, as `recurrent_fn` takes it
    value_variance: MaybeArray = None  # [B]: the epistemic variance of `value`


@record
class RecurrentFnOutput(Replaceable):
    """The model's output for one transition and for the state it leads to.

    `discount` applies to `value`; 0 ends the episode, and cuts off value and variance alike.
    """

    reward: Array  # [B]: the reward of the transition
    discount: Array  # [B]: the factor of `value`; 0 ends the episode, -1 is a move of the other player
    prior_logits: Array | None  # [B, A]: logits of the prior policy; a search needs them
    value: Array  # [B]: the estimated return from the new state on
    reward_variance: MaybeArray = None  # [B]: the epistemic variance of `reward`
    value_variance: MaybeArray = None  # [B]: the epistemic variance of `value`


@record
class DecisionRecurrentFnOutput(Replaceable):
    """The model's output for an afterstate: after an action, before the chance outcome."""

    chance_logits: Array  # [B, C]: logits of the chance outcomes
    afterstate_value: Array  # [B]: the estimated return from the afterstate on
    afterstate_value_variance: MaybeArray = None  # [B]: its epistemic variance


@record
class ChanceRecurrentFnOutput(Replaceable):
    """The model's output for the state that a chance outcome leads to."""

    action_logits: Array  # [B, A]: logits of the prior policy
    value: Array  # [B]: the estimated return from the new state on
    reward: Array  # [B]: the reward of the action and its outcome
    discount: Array  # [B]: the factor of `value`; 0 ends the episode
    reward_variance: MaybeArray = None  # [B]: the epistemic variance of `reward`
    value_variance: MaybeArray = None  # [B]: the epistemic variance of `value`


@record
class PolicyOutput(Replaceable, Generic[T_co]):
    """The action that a search policy selects, and the tree it comes from.

    `action_weights` sum to one: the targets of a policy network.
    """

    action: Array  # [B]: the selected action
    action_weights: Array  # [B, A]: a policy over actions; NaN in rows whose numbers a search cannot use
    search_tree: T_co  # the `Tree` of the search

    def _repr_html_(self) -> str | None:
        """What a notebook shows: the actions, and the first tree of the batch. None leaves it to `repr`."""
        show_tree = getattr(self.search_tree, "_repr_html_", None)
        if show_tree is None or any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(self)):
            return None
        return f"<div>action {html.escape(str(self.action))}</div>{show_tree()}"


Action = Int[Array, "..."]
# The model: from parameters, a random key, actions [B] and states to its output and the next states.
RecurrentFn = Callable[[Params, Key, Action, RecurrentState], tuple[Any, RecurrentState]]
DecisionRecurrentFn = Callable[[Params, Key, Action, RecurrentState], tuple[Any, RecurrentState]]
ChanceRecurrentFn = Callable[[Params, Key, Action, RecurrentState], tuple[Any, RecurrentState]]
# The loop over simulations: `jax.lax.fori_loop`, or a function with its signature.
LoopFn = Callable[[int, int, Callable[[Any, Any], Any], Any], Any]

State = TypeVar("State")
Step = TypeVar("Step")


@dataclasses.dataclass(frozen=True)
class SampledOutcomes(Generic[State, Step]):
    """A stochastic simulator, for a search to use as its `recurrent_fn`: each edge keeps `num_outcomes` draws.

    `draw(params, key, action, state)` takes one step from one state, and returns what happened (any pytree) and the
    state after it. `evaluate(params, action, before, happened, after)` returns the `RecurrentFnOutput` of a batch of
    steps. Draws that lead to equal states are one outcome: what happened is then that of one of them, but numbers in
    floating point (a reward) are means over all of them.
    """

    draw: Callable[[Params, Key, Action, State], tuple[Step, State]]  # a step of the simulator, of one state
    evaluate: Callable[[Params, Action, State, Step, State], Any]  # the model's output for a batch of steps
    num_outcomes: int  # how many outcomes of each action are kept

    def __post_init__(self) -> None:
        if self.num_outcomes < 1:
            raise ValueError(f"an edge with {self.num_outcomes} outcomes: give num_outcomes of at least 1")

    def __call__(self, params: Params, rng_key: Key, action: Action, before: State) -> tuple[Any, State]:
        """Draws one outcome of each action, as any `recurrent_fn` does."""
        keys = jax.random.split(rng_key, action.shape[0])
        happened, after = jax.vmap(self.draw, in_axes=(None, 0, 0, 0))(params, keys, action, before)
        return self.evaluate(params, action, before, happened, after), after
