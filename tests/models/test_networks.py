"""Layers and networks: their outputs before training, and the equality of a look-up and a linear layer."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from emcts.models.codecs import Categorical, Tanh
from emcts.models.layers import ConvTorso, Lookup, mlp
from emcts.models.networks import (
    ENCODERS,
    TORSOS,
    HeadSpec,
    Identity,
    InputSpec,
    Networks,
    encoded_networks,
    image_networks,
    indexed_networks,
    vector_networks,
)

KEY = jax.random.key(0)
HEADS = HeadSpec(3, Categorical(10), bounded=False, ube=True, exploration=True)
BOUNDED = HeadSpec(3, Categorical(10), bounded=True, ube=True, exploration=True)
PLAIN = HeadSpec(3, Categorical(10), bounded=False, ube=False, exploration=False)


def test_a_lookup_is_a_linear_layer_of_one_hot_inputs() -> None:
    layer = Lookup(5, 3, key=KEY)
    for index in range(5):
        np.testing.assert_allclose(
            layer(jnp.int32(index)), jax.nn.one_hot(index, 5) @ layer.weight, rtol=1e-6
        )


def test_an_mlp_by_hand() -> None:
    net = mlp(4, (3, 2), key=KEY, indexed=False)
    x = np.array([1.0, -2.0, 0.5, 3.0], np.float32)
    first, last = net.layers
    assert isinstance(first, eqx.nn.Linear)
    assert isinstance(last, eqx.nn.Linear)
    assert first.bias is not None
    assert last.bias is not None
    hidden = np.maximum(first.weight @ x + first.bias, 0)
    np.testing.assert_allclose(net(jnp.asarray(x)), last.weight @ hidden + last.bias, rtol=1e-5)
    assert [layer.weight.shape for layer in net.layers] == [(3, 4), (2, 3)]


def test_a_convolution_reads_each_plane() -> None:
    torso = ConvTorso((5, 4, 3), channels=2, width=6, key=KEY)
    image = jax.random.bernoulli(KEY, 0.5, (5, 4, 3))
    out = torso(image)
    assert out.shape == (6,)
    for plane in range(3):
        other = torso(image.at[..., plane].set(~image[..., plane]))
        assert not np.allclose(out, other)


def test_a_torso_is_a_convolution_and_a_layer() -> None:
    torso = ConvTorso((5, 4, 3), channels=2, width=6, key=KEY)
    image = jax.random.bernoulli(KEY, 0.5, (5, 4, 3))
    planes = jnp.moveaxis(image.astype(jnp.float32), -1, 0)
    hidden = jax.nn.relu(torso.conv(planes)).reshape(-1)
    np.testing.assert_allclose(torso(image), jax.nn.relu(torso.linear(hidden)), rtol=1e-5, atol=1e-6)


def of_images() -> Networks:
    return image_networks((5, 4, 3), HEADS, channels=2, width=6, key=KEY)


@pytest.mark.parametrize(
    ("networks", "x"),
    [
        (indexed_networks(6, HEADS, widths=(4, 4), key=KEY), jnp.int32(2)),
        (of_images(), jnp.ones((5, 4, 3), bool)),
    ],
    ids=["indexed", "image"],
)
def test_categorical_networks_predict_zero_at_first(networks: Networks, x: jax.Array) -> None:
    raw = networks.outputs(x)
    assert networks.ube is not None
    assert raw.ube is not None
    assert float(networks.value.codec.decode(raw.value)) == 0.0
    assert float(networks.ube.codec.decode(raw.ube)) == 0.0
    np.testing.assert_array_equal(raw.policy, np.zeros(3))


def test_bounded_networks_have_the_paper_ranges() -> None:
    networks = vector_networks(6, BOUNDED, widths=(4, 4), key=KEY)
    raw = networks.outputs(jnp.ones(6))
    assert networks.ube is not None
    assert raw.ube is not None
    assert -1 < float(networks.value.codec.decode(raw.value)) < 1
    assert 0 < float(networks.ube.codec.decode(raw.ube)) < 1


def test_heads_differ_from_each_other_and_between_keys() -> None:
    one, two = (vector_networks(6, BOUNDED, widths=(4,), key=jax.random.key(k)) for k in (0, 1))
    x = jnp.ones(6)
    raw = one.outputs(x)
    assert raw.exploration is not None
    assert not np.allclose(raw.policy, raw.exploration)
    assert not np.allclose(raw.policy, two.outputs(x).policy)


def test_networks_hold_nothing_but_arrays() -> None:
    """So that optimisers, `vmap` over seeds and checkpoints apply to them as they are."""
    assert all(eqx.is_array(leaf) for leaf in jax.tree.leaves(of_images()))


@pytest.mark.parametrize(
    ("spec", "x"),
    [
        (InputSpec(num_indices=6), jnp.int32(2)),
        (InputSpec((6,)), jnp.ones(6)),
        (InputSpec((5, 4, 3)), jnp.ones((5, 4, 3), bool)),
    ],
    ids=["indexed", "vector", "image"],
)
def test_networks_are_chosen_from_the_input(spec: InputSpec, x: jax.Array) -> None:
    for make in TORSOS.values():
        raw = jax.eval_shape(make(spec, PLAIN, widths=(4, 4), channels=2, key=KEY).outputs, x)
        assert (raw.value.shape, raw.policy.shape) == ((21,), (3,))
        assert raw.exploration is None
        assert raw.ube is None
    for encoder in ENCODERS.values():
        encode = encoder(spec, (4,), 7, channels=2, key=KEY)
        assert jax.eval_shape(encode, x).shape == (7,)


def test_vectors_with_unbounded_returns_have_categorical_values() -> None:
    assert isinstance(vector_networks(6, HEADS, widths=(4,), key=KEY).value.codec, Categorical)
    assert isinstance(vector_networks(6, BOUNDED, widths=(4,), key=KEY).value.codec, Tanh)


def test_heads_over_an_encoder_start_at_zero_and_learn_rewards_of_pairs() -> None:
    networks = encoded_networks(Identity(), 6, HEADS, width=4, key=KEY, num_pairs=8)
    raw = networks.outputs(jnp.ones(6))
    assert networks.reward is not None
    assert not any(leaf.any() for leaf in jax.tree.leaves((raw, networks.reward(jnp.int32(7)))))
