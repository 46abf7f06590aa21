"""The protocol that every estimator of local, epistemic uncertainty follows."""

from typing import Protocol, runtime_checkable

from jaxtyping import Array, Bool, Float, PyTree, Shaped

from emcts.types import Key


@runtime_checkable
class Novelty(Protocol):
    """Says how unknown an `x` is, and learns which were seen.

    `x` is what the caller chose to look at: an int32 index of a finite world, or a vector of floats, bools or
    bytes. A state holds nothing but arrays, of shapes that never change, so that `scan`, `vmap` over seeds and
    checkpoints apply.
    """

    def init(self, key: Key) -> PyTree:
        """The state in which nothing was seen."""
        ...

    def variance(self, state: PyTree, x: Shaped[Array, "..."]) -> Float[Array, ""]:
        """The variance eta >= 0 of one `x`."""
        ...

    def update(self, state: PyTree, xs: Shaped[Array, "B ..."], mask: Bool[Array, "B"]) -> PyTree:
        """The state once the rows of `xs` were seen, all but those where `mask` is False."""
        ...


@runtime_checkable
class Fitted(Novelty, Protocol):
    """An estimator that learns to predict something, and knows least where it predicts worst."""

    def fit(
        self,
        state: PyTree,
        xs: Shaped[Array, "B ..."],
        targets: Float[Array, "B D"],
        mask: Bool[Array, "B"],
    ) -> PyTree:
        """The state once the rows of `xs` were seen with their targets, all but those where `mask` is False."""
        ...


def check_scale(scale: float) -> None:
    """Raises unless `scale` is a factor that a variance can have."""
    if not 0 <= scale < float("inf"):
        raise ValueError(f"scale multiplies a variance: give a finite number of at least 0, got {scale}")
