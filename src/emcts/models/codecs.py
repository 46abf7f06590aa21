"""Codecs: how the outputs of a head are decoded to a prediction, and the loss against a target.

A codec holds no parameters. `decode` and `loss` are for one prediction.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Bool, Float

from emcts.registry import lookup

LINEAR_PART = 0.001
ROUNDING = 1e-3  # of a target at the end of a bounded range


@runtime_checkable
class Codec(Protocol):
    """Decodes the raw outputs of a head."""

    @property
    def size(self) -> int: ...

    def decode(self, raw: Float[Array, "outputs"]) -> Array: ...

    def loss(self, raw: Float[Array, "outputs"], target: Array) -> Float[Array, ""]: ...


@runtime_checkable
class ScalarCodec(Codec, Protocol):
    """A codec of numbers, which may be bounded."""

    def represents(self, target: Float[Array, "*B"]) -> Bool[Array, "*B"]:
        """Returns whether a head can predict the target; any other is clipped to the nearest number that it can."""


def squash(x: Float[Array, "*B"]) -> Float[Array, "*B"]:
    """`h(x) = sign(x)(sqrt(|x| + 1) - 1) + 0.001 x`, written so that small x keep their digits."""
    return x / (jnp.sqrt(jnp.abs(x) + 1) + 1) + LINEAR_PART * x


def unsquash(y: Float[Array, "*B"]) -> Float[Array, "*B"]:
    """The inverse of `squash`, as precise for small y. `t = sqrt(|x| + 1) - 1` solves `0.001 t^2 + 1.002 t = |y|`."""
    linear = 1 + 2 * LINEAR_PART
    t = 2 * jnp.abs(y) / (linear + jnp.sqrt(linear**2 + 4 * LINEAR_PART * jnp.abs(y)))
    return jnp.sign(y) * t * (t + 2)


@runtime_checkable
class ValueTransform(Protocol):
    """An odd increasing function and its inverse: atoms of a categorical head are whole numbers of `squash`."""

    def squash(self, x: Float[Array, "*B"]) -> Float[Array, "*B"]: ...

    def unsquash(self, y: Float[Array, "*B"]) -> Float[Array, "*B"]: ...


@dataclasses.dataclass(frozen=True)
class SquareRoot:
    """MuZero's transform, `squash`."""

    def squash(self, x: Float[Array, "*B"]) -> Float[Array, "*B"]:
        return squash(x)

    def unsquash(self, y: Float[Array, "*B"]) -> Float[Array, "*B"]:
        return unsquash(y)


@dataclasses.dataclass(frozen=True)
class Symlog:
    """`sign(x) log(1 + |x| / unit) / spacing`: linear for values below the unit, logarithmic above it."""

    spacing: float
    unit: float = 1.0

    def __post_init__(self) -> None:
        if not (self.spacing > 0 and self.unit > 0):
            raise ValueError(
                f"a spacing of {self.spacing} and a unit of {self.unit}: give positive numbers for both"
            )

    def squash(self, x: Float[Array, "*B"]) -> Float[Array, "*B"]:
        return jnp.sign(x) * jnp.log1p(jnp.abs(x) / self.unit) / self.spacing

    def unsquash(self, y: Float[Array, "*B"]) -> Float[Array, "*B"]:
        return jnp.sign(y) * self.unit * jnp.expm1(jnp.abs(y) * self.spacing)


@dataclasses.dataclass(frozen=True)
class Categorical:
    """A distribution over whole numbers from -`limit` to `limit` of squashed values, trained as two-hot.

    What lies past `unsquash(limit)` (117 for 10 and the square root) is clipped.
    """

    limit: int = 10
    transform: ValueTransform = SquareRoot()

    def __post_init__(self) -> None:
        if self.limit < 1:
            raise ValueError(
                f"a support of -{self.limit} to {self.limit} holds one value: limit must be at least 1"
            )

    @property
    def size(self) -> int:
        return 2 * self.limit + 1

    def decode(self, raw: Float[Array, "outputs"]) -> Float[Array, ""]:
        atoms = jnp.arange(-self.limit, self.limit + 1, dtype=raw.dtype)
        # Atoms apart from the middle cancel in pairs: a flat distribution then means exactly 0.
        probs = jax.nn.softmax(raw)
        ups, downs = probs[self.limit + 1 :], probs[: self.limit][::-1]
        return self.transform.unsquash(jnp.sum((ups - downs) * atoms[self.limit + 1 :]))

    def two_hot(self, target: Float[Array, ""]) -> Float[Array, "outputs"]:
        place = jnp.clip(self.transform.squash(target), -self.limit, self.limit)
        atoms = jnp.arange(-self.limit, self.limit + 1, dtype=place.dtype)
        return jnp.maximum(1 - jnp.abs(atoms - place), 0)

    def loss(self, raw: Float[Array, "outputs"], target: Array) -> Float[Array, ""]:
        return -jnp.sum(self.two_hot(target) * jax.nn.log_softmax(raw))

    def represents(self, target: Float[Array, "*B"]) -> Bool[Array, "*B"]:
        return jnp.abs(target) <= self.transform.unsquash(jnp.asarray(self.limit, target.dtype))


@dataclasses.dataclass(frozen=True)
class MeanCategorical(Categorical):
    """The same support for noisy targets: a head trained on many targets predicts their mean.

    `Categorical` predicts the inverse of their mean squashed value, which is less: 0.896 for N(1, 1). Here atoms are
    values, `unsquash` of whole numbers, and a target lies between two of them in proportion to its value.
    """

    def decode(self, raw: Float[Array, "outputs"]) -> Float[Array, ""]:
        probs = jax.nn.softmax(raw)
        ups, downs = probs[self.limit + 1 :], probs[: self.limit][::-1]
        return jnp.sum((ups - downs) * self._atoms(raw.dtype)[self.limit + 1 :])

    def two_hot(self, target: Float[Array, ""]) -> Float[Array, "outputs"]:
        atoms = self._atoms(target.dtype)
        value = jnp.clip(target, atoms[0], atoms[-1])
        gaps = jnp.diff(atoms)
        rising = jnp.concatenate([jnp.ones(1, atoms.dtype), (value - atoms[:-1]) / gaps])
        falling = jnp.concatenate([(atoms[1:] - value) / gaps, jnp.ones(1, atoms.dtype)])
        return jnp.maximum(jnp.minimum(rising, falling), 0)

    def _atoms(self, dtype: DTypeLike) -> Float[Array, "outputs"]:
        return self.transform.unsquash(jnp.arange(-self.limit, self.limit + 1, dtype=dtype))


def logarithmic(largest: float, limit: int, unit: float = 1.0) -> Categorical:
    """Returns a support of `2 * limit + 1` atoms from `-largest` to `largest`, spaced evenly in symlog."""
    return Categorical(limit, Symlog(math.log1p(largest / unit) / limit, unit))


PAPER = Categorical(10)
SUPPORTS: dict[str, Callable[[float], Categorical]] = {
    "paper": lambda unit: PAPER,
    "wide": lambda unit: logarithmic(1e6 * unit, 127, unit),
}
"""The supports of value, reward and UBE heads by name, given the unit of what they predict.

docs/notes/returns.md has the reasons for the wide one.
"""


def support(name: str, *, deterministic: bool, unit: float = 1.0) -> Categorical:
    """Returns the codec of value and reward heads: one without bias wherever targets may be noisy."""
    codec = lookup(SUPPORTS, name, "model.support")(unit)
    return codec if deterministic else MeanCategorical(codec.limit, codec.transform)


@dataclasses.dataclass(frozen=True)
class Tanh:
    """A number in (-1, 1), trained by squared error."""

    size: int = 1

    def decode(self, raw: Float[Array, "outputs"]) -> Float[Array, ""]:
        return jnp.tanh(raw[0])

    def loss(self, raw: Float[Array, "outputs"], target: Array) -> Float[Array, ""]:
        return (self.decode(raw) - target) ** 2

    def represents(self, target: Float[Array, "*B"]) -> Bool[Array, "*B"]:
        return jnp.abs(target) <= 1 + ROUNDING


@dataclasses.dataclass(frozen=True)
class Unit:
    """A number in (0, 1), `0.5 (tanh(x) + 1)`, trained by squared error."""

    size: int = 1

    def decode(self, raw: Float[Array, "outputs"]) -> Float[Array, ""]:
        return 0.5 * (jnp.tanh(raw[0]) + 1)

    def loss(self, raw: Float[Array, "outputs"], target: Array) -> Float[Array, ""]:
        return (self.decode(raw) - target) ** 2

    def represents(self, target: Float[Array, "*B"]) -> Bool[Array, "*B"]:
        return (target >= -ROUNDING) & (target <= 1 + ROUNDING)


@dataclasses.dataclass(frozen=True)
class Policy:
    """Logits over actions, trained by cross-entropy against probabilities."""

    size: int

    def decode(self, raw: Float[Array, "outputs"]) -> Float[Array, "outputs"]:
        return raw

    def loss(self, raw: Float[Array, "outputs"], target: Array) -> Float[Array, ""]:
        # The entropy of the target is taken off, so that a perfect prediction has loss 0.
        entropy = jnp.sum(jax.scipy.special.entr(target))
        return -jnp.sum(target * jax.nn.log_softmax(raw)) - entropy


@dataclasses.dataclass(frozen=True)
class Continuation:
    """The probability that an episode continues, trained by cross-entropy. `START` makes it begin near 1."""

    START = 3.0
    size: int = 1

    def decode(self, raw: Float[Array, "outputs"]) -> Float[Array, ""]:
        return jax.nn.sigmoid(raw[0] + self.START)

    def loss(self, raw: Float[Array, "outputs"], target: Array) -> Float[Array, ""]:
        logit = raw[0] + self.START
        return -target * jax.nn.log_sigmoid(logit) - (1 - target) * jax.nn.log_sigmoid(-logit)
