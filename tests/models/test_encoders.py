"""Encoders of any observation, and modules of a user's own."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Float, PyTree

from emcts.models.encoders import (
    InputSpec,
    SharedEncoder,
    convolution_sizes,
    flat_floats,
    input_spec,
    own_encoder,
)
from emcts.types import Key

KEY = jax.random.key(0)
MIXED = {
    "image": jnp.zeros((6, 5, 3), jnp.uint8),
    "speed": jnp.float32(0),
    "flags": jnp.zeros(4, bool),
    "table": jnp.zeros((2, 3), jnp.int32),
    "inner": {"cube": jnp.zeros((2, 2, 2, 2), jnp.int8)},
}


def spec_of(observation: PyTree) -> PyTree:
    return input_spec(jax.eval_shape(lambda: observation))


def test_a_spec_has_the_shape_and_type_of_each_array() -> None:
    assert spec_of({"a": jnp.zeros((2, 3), jnp.uint8)}) == {"a": InputSpec((2, 3), dtype="uint8")}
    assert spec_of(jnp.zeros(4)) == InputSpec((4,))
    assert (InputSpec((2, 3, 4)).size, InputSpec().size, InputSpec(num_indices=9).size) == (24, 1, 9)
    with pytest.raises(ValueError, match="single number"):
        InputSpec((3,), num_indices=4)


def test_every_array_of_an_observation_counts() -> None:
    encoder = SharedEncoder(spec_of(MIXED), (16, 8), channels=2, key=KEY)
    assert all(eqx.is_array(leaf) for leaf in jax.tree.leaves(encoder))
    encode = jax.jit(lambda x: encoder(x))
    base = encode(MIXED)
    assert base.shape == (8,)
    leaves, structure = jax.tree.flatten(MIXED)
    for number, leaf in enumerate(leaves):
        changed = leaves.copy()
        changed[number] = jnp.full_like(leaf, True if leaf.dtype == bool else 100)
        assert not np.allclose(encode(jax.tree.unflatten(structure, changed)), base), number


def test_an_index_is_read_as_a_one_hot_vector() -> None:
    encode = SharedEncoder(InputSpec(num_indices=5), (16,), channels=2, key=KEY)
    codes = np.stack([encode(jnp.int32(index)) for index in range(5)])
    assert len(np.unique(codes, axis=0)) == 5


@pytest.mark.parametrize(
    ("shape", "strides"),
    [
        ((5, 5), [1]),
        ((12, 12), [1, 2]),
        ((3, 40), [1, 2, 2, 2]),
        ((84, 84), [4, 2, 2]),
        ((210, 160), [4, 2, 2, 2]),
    ],
)
def test_larger_images_are_downsampled(shape: tuple[int, int], strides: list[int]) -> None:
    layers = convolution_sizes(shape, 8)
    assert [stride for _, stride, _ in layers] == strides
    assert max(channels for *_, channels in layers) <= 32
    encoder = SharedEncoder(InputSpec((*shape, 3), dtype="uint8"), (4,), channels=8, key=KEY)
    image = jax.ShapeDtypeStruct((*shape, 3), jnp.uint8)
    assert jax.eval_shape(encoder, image).shape == (4,)
    assert encoder.first[0].linear.in_features <= 8 * 8 * 32  # type: ignore[attr-defined]


def test_a_small_object_anywhere_in_a_grid_is_told_apart() -> None:
    """12 x 12 with six planes, and one object on one of the squares."""
    squares = jnp.arange(144)
    images = jax.vmap(lambda square: jnp.zeros((144, 6), bool).at[square, 2].set(True))(squares)
    encoder = SharedEncoder(InputSpec((12, 12, 6), dtype="bool"), (32, 16), channels=4, key=KEY)
    images = images.reshape(144, 12, 12, 6)
    codes = np.asarray(jax.jit(lambda images: jax.vmap(encoder)(images))(images))
    distances = np.linalg.norm(codes[:, None] - codes[None], axis=-1) + 9 * np.eye(144)
    assert distances.min() > 1e-3 * np.linalg.norm(codes, axis=-1).mean()


def test_pixels_are_shares_of_255_and_other_numbers_stay() -> None:
    flat = flat_floats({"image": jnp.full((1, 1, 1), 255, jnp.uint8), "bytes": jnp.array([255], jnp.uint8)})
    np.testing.assert_array_equal(flat, [255, 1])  # in the order of the names
    assert flat.dtype == jnp.float32


def test_a_module_of_the_user_is_an_encoder() -> None:
    """`eqx.nn.MLP` keeps its activations as leaves: they are neither trained nor stacked over seeds."""

    def make(spec: InputSpec, key: Key) -> eqx.nn.MLP:
        return eqx.nn.MLP(spec.size, 7, 16, 1, activation=lambda x: jnp.tanh(x), key=key)

    encoder = own_encoder(make, InputSpec((3,)))
    assert encoder.size == 7
    module = encoder(KEY)
    assert all(eqx.is_inexact_array(leaf) for leaf in jax.tree.leaves(module))
    x = jnp.arange(3.0)
    np.testing.assert_allclose(module(x), make(InputSpec((3,)), KEY)(x), rtol=1e-6)
    seeds = jax.jit(jax.vmap(encoder))(jax.random.split(KEY, 2))
    jax.tree.map(lambda of_seeds, leaf: of_seeds.shape == (2, *leaf.shape), seeds, module)  # of one structure
    both = jax.vmap(lambda one: one(x))(seeds)
    assert not np.allclose(both[0], both[1])


class Table(eqx.Module):
    """Returns a matrix."""

    weights: Float[Array, "2 3"]

    def __call__(self, x: Float[Array, "3"]) -> Float[Array, "2 3"]:
        return self.weights * x[None]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda spec, key: Table(jnp.ones((2, 3))), r"a vector \[features\], got an array of shape \[2, 3\]"),
        (lambda spec, key: lambda x: x, "no float arrays to train"),
        (lambda spec, key: 3, "got a int"),
    ],
)
def test_a_module_that_is_no_encoder_is_refused(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        own_encoder(make, InputSpec((3,)))
