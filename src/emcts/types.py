"""Small records that pass between a model, the search and whoever called it.

Letters used in every shape: `B` batch, `N` nodes of a tree, `A` actions, `C` chance outcomes.
A variance is always epistemic: what the model does not know, not what the world randomises.
"""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar, dataclass_transform

import jax
from jax.typing import ArrayLike
from jaxtyping import Array, Int, PRNGKeyArray, PyTree

T = TypeVar("T")
RecordT = TypeVar("RecordT", bound=type)
SelfT = TypeVar("SelfT")

Params = PyTree
Key = PRNGKeyArray | Array
RecurrentState = PyTree
Scalar = Any  # one number, as a Python float or as an array
Number = ArrayLike  # one number, or an array of them
JSON = bool | int | float | str | Sequence[object] | Mapping[str, object] | None


@dataclass_transform(frozen_default=True)
def record(cls: RecordT) -> RecordT:
    """A frozen dataclass whose fields are the children of a pytree.

    Rebuilding one from leaves skips `__init__`: JAX puts placeholders and batches into the fields, to which the
    shapes that the fields declare do not apply.
    """
    dataclasses.dataclass(frozen=True)(cls)
    names = [field.name for field in dataclasses.fields(cls)]
    keys = [jax.tree_util.GetAttrKey(name) for name in names]

    def flatten(value: Any) -> tuple[list[Any], None]:
        return [getattr(value, name) for name in names], None

    def flatten_with_keys(value: Any) -> tuple[list[tuple[Any, Any]], None]:
        return [(key, getattr(value, name)) for key, name in zip(keys, names, strict=True)], None

    def unflatten(_: None, children: Iterable[Any]) -> Any:
        value: Any = object.__new__(cls)
        for name, child in zip(names, children, strict=True):
            object.__setattr__(value, name, child)
        return value

    jax.tree_util.register_pytree_with_keys(cls, flatten_with_keys, unflatten, flatten)
    return cls


class Replaceable:
    """Gives a record `replace(field=new)`, which returns a changed copy."""

    def replace(self: SelfT, **changes: Any) -> SelfT:
        return dataclasses.replace(self, **changes)  # type: ignore[type-var]


@record
class RootFnOutput(Replaceable):
    """What the model says of the root. `value_variance` None means that the value is known."""

    prior_logits: Any  # [B, A]
    value: Any  # [B]
    embedding: RecurrentState  # [B, ...]
    value_variance: Any = None  # [B] or None


@record
class RecurrentFnOutput(Replaceable):
    """What the model says of one transition and of the state it leads to.

    `discount` stands between `reward` and `value`; 0 ends the episode, and cuts value and variance alike.
    """

    reward: Any  # [B]
    discount: Any  # [B]
    prior_logits: Any  # [B, A]
    value: Any  # [B]
    reward_variance: Any = None  # [B] or None
    value_variance: Any = None  # [B] or None


@record
class DecisionRecurrentFnOutput(Replaceable):
    """What the model says of an afterstate: an action was taken, chance has not answered yet."""

    chance_logits: Any  # [B, C]
    afterstate_value: Any  # [B]
    afterstate_value_variance: Any = None  # [B] or None


@record
class ChanceRecurrentFnOutput(Replaceable):
    """What the model says of the state that a chance outcome leads to."""

    action_logits: Any  # [B, A]
    value: Any  # [B]
    reward: Any  # [B]
    discount: Any  # [B]
    reward_variance: Any = None  # [B] or None
    value_variance: Any = None  # [B] or None


@record
class PolicyOutput(Replaceable, Generic[T]):
    """What a search policy proposes, and the tree it comes from.

    `action_weights` sum to one: the targets of a policy network.
    """

    action: Any  # [B]
    action_weights: Any  # [B, A]
    search_tree: T


Action = Int[Array, "..."]
RecurrentFn = Callable[[Params, Key, Action, RecurrentState], tuple[Any, RecurrentState]]
DecisionRecurrentFn = Callable[[Params, Key, Action, RecurrentState], tuple[Any, RecurrentState]]
ChanceRecurrentFn = Callable[[Params, Key, Action, RecurrentState], tuple[Any, RecurrentState]]
LoopFn = Callable[[int, int, Callable[[Any, Any], Any], Any], Any]
