"""Layers and networks: what they start as, and that a look-up is the layer that it stands for."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from emcts.models.codecs import Categorical
from emcts.models.layers import ConvTorso, Lookup, mlp
from emcts.models.networks import Networks, image_networks, indexed_networks, vector_networks

KEY = jax.random.key(0)


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
    hidden = np.maximum(first.weight @ x + first.bias, 0)
    np.testing.assert_allclose(net(jnp.asarray(x)), last.weight @ hidden + last.bias, rtol=1e-5)
    assert [layer.weight.shape for layer in net.layers] == [(3, 4), (2, 3)]


def test_a_convolution_sees_each_plane() -> None:
    torso = ConvTorso((5, 4, 3), channels=2, width=6, key=KEY)
    image = jax.random.bernoulli(KEY, 0.5, (5, 4, 3))
    out = torso(image)
    assert out.shape == (6,)
    for plane in range(3):
        other = torso(image.at[..., plane].set(~image[..., plane]))
        assert not np.allclose(out, other)


def image() -> Networks:
    return image_networks((5, 4, 3), 3, channels=2, width=6, values=Categorical(10), uncertain=True, key=KEY)


@pytest.mark.parametrize(
    ("networks", "x"),
    [
        (indexed_networks(6, 3, widths=(4, 4), values=Categorical(10), ube=True, key=KEY), jnp.int32(2)),
        (image(), jnp.ones((5, 4, 3), bool)),
    ],
    ids=["finite", "image"],
)
def test_categorical_networks_say_nothing_at_first(networks: Networks, x: jax.Array) -> None:
    raw = networks.state(x)
    assert networks.ube is not None
    assert float(networks.value.codec.decode(raw.value)) == 0.0
    assert float(networks.ube.codec.decode(raw.ube)) == 0.0
    np.testing.assert_array_equal(raw.policy, np.zeros(3))


def test_bounded_networks_have_the_paper_ranges() -> None:
    networks = vector_networks(6, 3, widths=(4, 4), uncertain=True, key=KEY)
    raw = networks.state(jnp.ones(6))
    assert networks.ube is not None
    assert -1 < float(networks.value.codec.decode(raw.value)) < 1
    assert 0 < float(networks.ube.codec.decode(raw.ube)) < 1


def test_heads_start_apart_and_keys_matter() -> None:
    one, two = (vector_networks(6, 3, widths=(4,), uncertain=True, key=jax.random.key(k)) for k in (0, 1))
    x = jnp.ones(6)
    raw = one.state(x)
    assert not np.allclose(raw.policy, raw.exploration)
    assert not np.allclose(raw.policy, two.state(x).policy)


def test_networks_hold_nothing_but_arrays() -> None:
    """So that optimisers, `vmap` over seeds and checkpoints apply to them as they are."""
    assert all(eqx.is_array(leaf) for leaf in jax.tree.leaves(image()))
