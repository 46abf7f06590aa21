"""What an estimator of local epistemic uncertainty implements, to be used by every model and agent.

Required is `Novelty`, three pure functions:

    init(key) -> state                   nothing was seen
    variance(state, x) -> eta            the variance eta >= 0 of one x
    update(state, xs, mask) -> state     a batch of xs was seen

`x` is the novelty input that an agent chose: an int32 index of a finite environment, or a vector of floats, bools or
bytes. A state holds nothing but arrays, of shapes that never change, so that `scan`, `vmap` over seeds and checkpoints
apply. An estimator itself is a frozen dataclass of its settings, and checks them when it is made.

Optional are the protocols below `Novelty`; callers find out by `isinstance`. tests/novelty/test_contract.py checks the
rules on every estimator: add a new one to its tables.
"""

from typing import Protocol, TypeVar, runtime_checkable

from jaxtyping import Array, Bool, Float, Int, Integer, Shaped

from emcts.types import Key, Scalar

State = TypeVar("State")
Readable = TypeVar("Readable", contravariant=True)


@runtime_checkable
class Novelty(Protocol[State]):
    """An estimator of the variance of `x`, which falls as `x` is seen."""

    def init(self, key: Key) -> State:
        """The state in which nothing was seen."""
        ...

    def variance(self, state: State, x: Shaped[Array, "..."]) -> Float[Array, ""]:
        """The variance eta >= 0 of one `x`."""
        ...

    def update(self, state: State, xs: Shaped[Array, "B ..."], mask: Bool[Array, "B"]) -> State:
        """The state once the rows of `xs` were seen, all but those where `mask` is False."""
        ...


@runtime_checkable
class Fitted(Novelty[State], Protocol[State]):
    """An estimator that is fitted to targets, and is uncertain where it predicts them badly."""

    def fit(
        self,
        state: State,
        xs: Shaped[Array, "B ..."],
        targets: Float[Array, "B D"],
        mask: Bool[Array, "B"],
    ) -> State:
        """The state once the rows of `xs` were seen with their targets, all but those where `mask` is False."""
        ...


@runtime_checkable
class FromSample(Novelty[State], Protocol[State]):
    """An estimator that starts from a sample of inputs, if there is one."""

    def init_from(self, key: Key, sample: Shaped[Array, "P ..."]) -> State:
        """The state in which nothing was seen, for inputs like those of the sample."""
        ...


@runtime_checkable
class CountsSeen(Protocol[Readable]):
    """An estimator that reports how many different `x` were seen."""

    def num_seen(self, state: Readable) -> Integer[Array, ""]:
        """The number of different `x` that were seen."""
        ...


@runtime_checkable
class Table(CountsSeen[Readable], Protocol[Readable]):
    """An estimator whose table can fill up."""

    def occupancy(self, state: Readable) -> Float[Array, ""]:
        """The share of the table in use."""
        ...


@runtime_checkable
class NoveltyTable(Novelty[State], Table[State], Protocol[State]):
    """A novelty estimator that is a table."""


@runtime_checkable
class RewardNovelty(Novelty[State], Protocol[State]):
    """An estimator for the indices of a finite environment that also records their rewards, which may have noise."""

    def record_rewards(
        self, state: State, xs: Int[Array, "B"], rewards: Float[Array, "B"], mask: Bool[Array, "B"]
    ) -> State:
        """The state once the transitions in the mask had these rewards."""
        ...

    def reward_variances(self, state: State, variance_unit: Scalar = 1.0) -> Float[Array, "N"]:
        """The variance of the mean reward of every index: its novelty, in terms of `variance_unit`, and its noise."""
        ...


def init_from(novelty: Novelty[State], key: Key, sample: Shaped[Array, "P ..."]) -> State:
    """The first state of an estimator, which starts from the sample if it can."""
    return novelty.init_from(key, sample) if isinstance(novelty, FromSample) else novelty.init(key)


def fit_to_targets(
    novelty: Novelty[State],
    state: State,
    xs: Shaped[Array, "B ..."],
    targets: Float[Array, "B D"],
    mask: Bool[Array, "B"],
) -> State:
    """The state of an estimator that was fitted to targets; raises for one that has none."""
    if not isinstance(novelty, Fitted):
        raise ValueError(
            f"{type(novelty).__name__} cannot be fitted to targets: give an estimator with `fit` (Ensemble)"
        )
    return novelty.fit(state, xs, targets, mask)


def check_scale(scale: float) -> None:
    """Raises unless `scale` is a factor that a variance can have."""
    if not 0 <= scale < float("inf"):
        raise ValueError(f"scale multiplies a variance: give a finite number of at least 0, got {scale}")
