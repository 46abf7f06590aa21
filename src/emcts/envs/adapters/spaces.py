"""Observations of Gymnasium's spaces as arrays: one array, or several by name for a space of spaces.

`Box` and `MultiBinary` observations keep their shape. `Discrete` and `MultiDiscrete` ones become one-hot vectors.
`Dict` and `Tuple` ones become a dictionary of arrays; nested names are joined by `/`, and positions in a tuple are
names too.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol, SupportsInt, TypeGuard, runtime_checkable

import jax
import numpy as np
from jaxtyping import PyTree

NARROWER = {"float64": "float32", "int64": "int32", "uint64": "uint32"}  # JAX has no 64 bits by default
Write = Callable[[np.ndarray, int, Any], None]  # writes an observation to a row of an array


@runtime_checkable
class Space(Protocol):
    """A space of Gymnasium."""

    @property
    def shape(self) -> tuple[int, ...] | None: ...

    @property
    def dtype(self) -> np.dtype | type | None: ...


@runtime_checkable
class Discrete(Space, Protocol):
    """A space of `n` numbers; some have another `start` than 0."""

    @property
    def n(self) -> SupportsInt: ...


def is_discrete(space: Space) -> TypeGuard[Discrete]:
    return hasattr(space, "n") and space.shape == ()


def _first(space: Discrete) -> int:
    return int(getattr(space, "start", 0))


class ResultError(ValueError):
    """A simulator returned what its interface does not allow."""


@dataclasses.dataclass(frozen=True)
class Part:
    """One array of an observation: its name, the keys that lead to it, its type, and how it is written."""

    path: tuple[str | int, ...]
    shape: tuple[int, ...]
    dtype: np.dtype
    write: Write

    @property
    def name(self) -> str:
        return "/".join(map(str, self.path))

    def of(self, observation: Any) -> Any:
        """The part of an observation."""
        value = observation
        for key in self.path:
            try:
                value = value[key]
            except (LookupError, TypeError):
                raise ResultError(f"is missing: there is no {key!r} in {described(value)}") from None
        return value

    @property
    def is_copied(self) -> bool:
        """Whether the array is the observation itself, and not a one-hot vector."""
        return self.write in (_copy, _copy_number)


@dataclasses.dataclass(frozen=True)
class Encoder:
    """Writes observations of a space to rows of arrays."""

    parts: tuple[Part, ...]  # in the order in which JAX flattens them

    def empty(self, rows: int) -> list[np.ndarray]:
        """Zeros for a number of observations."""
        return [np.zeros((rows, *part.shape), part.dtype) for part in self.parts]

    def write(self, arrays: Sequence[np.ndarray], row: int, observation: Any) -> None:
        for part, array in zip(self.parts, arrays, strict=True):
            try:
                part.write(array, row, part.of(observation))
            except ResultError as error:
                where = f"part {part.name!r} of the observation" if part.path else "the observation"
                raise ResultError(f"{where} {error}") from None

    def tree(self, arrays: Sequence[Any]) -> PyTree:
        """The arrays as an observation: one, or a dictionary."""
        if not self.parts[0].path:
            return arrays[0]
        return {part.name: array for part, array in zip(self.parts, arrays, strict=True)}

    @property
    def types(self) -> PyTree:
        """The type of an observation."""
        return self.tree([jax.ShapeDtypeStruct(part.shape, part.dtype) for part in self.parts])


@dataclasses.dataclass(frozen=True)
class Interface:
    """The actions of a simulator, which are numbered from `first_action` on, and its observations."""

    name: str
    num_actions: int
    first_action: int
    encoder: Encoder


def interface(name: str, actions: Space, observed: Space) -> Interface:
    """Returns the interface of a simulator with these spaces; raises if it is none that can be searched."""
    if not is_discrete(actions):
        raise ValueError(f"{actions} is not a Discrete action space: only discrete actions can be searched")
    return Interface(name, int(actions.n), _first(actions), encoder(observed))


def encoder(space: Space) -> Encoder:
    """Returns how observations of a space become arrays; raises if they do not."""
    parts = sorted(_parts(space, ()), key=lambda part: part.name)
    names = [part.name for part in parts]
    if len(set(names)) < len(names) or not parts:
        raise ValueError(
            f"{space} has no parts, or two of one name: wrap the environment to observe an array"
        )
    return Encoder(tuple(parts))


def _parts(space: Space, path: tuple[str | int, ...]) -> Iterator[Part]:
    inner = getattr(space, "spaces", None)
    if inner is not None:
        items = inner.items() if isinstance(inner, Mapping) else enumerate(inner)
        for key, part in items:
            yield from _parts(part, (*path, key))
    elif is_discrete(space):
        yield Part(path, (int(space.n),), np.dtype(np.float32), _one_hot((), [int(space.n)], [_first(space)]))
    elif (sizes := getattr(space, "nvec", None)) is not None:
        counts = [int(size) for size in np.ravel(sizes)]
        starts = np.broadcast_to(getattr(space, "start", 0), np.shape(sizes)).ravel().tolist()
        write = _one_hot(np.shape(sizes), counts, starts)
        yield Part(path, (sum(counts),), np.dtype(np.float32), write)
    elif space.shape is None or space.dtype is None or np.dtype(space.dtype).kind not in "fiub":
        where = f" (part {'/'.join(map(str, path))!r} of the observation)" if path else ""
        raise ValueError(f"{space}{where} is no array of numbers: wrap the environment to observe one")
    else:
        dtype = np.dtype(space.dtype)
        write = _copy if space.shape else _copy_number
        yield Part(path, space.shape or (1,), np.dtype(NARROWER.get(dtype.name, dtype)), write)


def described(value: object) -> str:
    """What a value is, in a message."""
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape}"
    if isinstance(value, tuple | list):
        return f"a {type(value).__name__} of {len(value)}"
    return f"{'an' if type(value).__name__[0] in 'aeiou' else 'a'} {type(value).__name__}"


def _copy(array: np.ndarray, row: int, value: Any) -> None:
    _check_shape(value, array.shape[1:])
    array[row] = value


def _copy_number(array: np.ndarray, row: int, value: Any) -> None:
    _check_shape(value, ())
    array[row] = value


def _check_shape(value: Any, wanted: tuple[int, ...]) -> None:
    """An array of another shape would be broadcast without an error, if it can be."""
    given = np.shape(value)
    if given != wanted:
        raise ResultError(f"has the shape {given}, and observation_space has {wanted}")


def _one_hot(shape: tuple[int, ...], sizes: Sequence[int], starts: Sequence[int]) -> Write:
    """One-hot vectors of several numbers, one after the other."""
    offsets, first = np.cumsum([0, *sizes[:-1]]), np.asarray(starts)

    def write(array: np.ndarray, row: int, value: Any) -> None:
        _check_shape(value, shape)
        places = np.ravel(value) - first
        if (places < 0).any() or (places >= sizes).any():
            raise ResultError(f"is {value}, which is not in observation_space")
        array[row] = 0
        array[row, places + offsets] = 1

    return write
