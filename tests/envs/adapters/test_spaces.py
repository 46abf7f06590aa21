"""Observations of every space that becomes arrays, by hand and by Gymnasium's own spaces."""

import types

import numpy as np
import pytest

from emcts.envs.adapters.spaces import encoder
from tests.envs.adapters.simulators import box, discrete


def group(**spaces):
    return types.SimpleNamespace(spaces=spaces, shape=None, dtype=None)


def encoded(space, *observations):
    encodes = encoder(space)
    arrays = encodes.empty(len(observations))
    for row, observation in enumerate(observations):
        encodes.write(arrays, row, observation)
    return encodes.tree(arrays)


def test_arrays_keep_their_shape_and_lose_only_what_jax_has_not():
    for given, kept in [("float64", "float32"), ("int64", "int32"), ("uint8", "uint8"), ("bool", "bool")]:
        image = np.arange(12).reshape(2, 3, 2) % 2
        seen = encoded(box(2, 3, 2, dtype=given), image.astype(given), (1 - image).astype(given))
        assert seen.dtype == kept
        np.testing.assert_array_equal(seen, [image, 1 - image])


def test_numbers_become_vectors():
    np.testing.assert_array_equal(encoded(discrete(4, start=2), 2, 5), [[1, 0, 0, 0], [0, 0, 0, 1]])
    several = types.SimpleNamespace(nvec=np.array([2, 3]), shape=(2,), dtype=np.int64)
    np.testing.assert_array_equal(encoded(several, [0, 2], [1, 0]), [[1, 0, 0, 0, 1], [0, 1, 1, 0, 0]])
    np.testing.assert_array_equal(encoded(box(), 3.0), [[3.0]])


def test_rows_are_overwritten():
    encodes = encoder(discrete(3))
    (array,) = encodes.empty(1)
    encodes.write([array], 0, 0)
    encodes.write([array], 0, 2)
    np.testing.assert_array_equal(array, [[0, 0, 1]])


def test_parts_have_names():
    space = group(position=box(2), inner=group(b=discrete(2), a=box(1)))
    seen = encoded(space, {"position": [1, 2], "inner": {"a": [3], "b": 1}})
    assert list(seen) == ["inner/a", "inner/b", "position"], "the order in which JAX flattens"
    np.testing.assert_array_equal(seen["inner/b"], [[0, 1]])
    np.testing.assert_array_equal(seen["position"], [[1, 2]])
    pair = types.SimpleNamespace(spaces=(discrete(2), box(1)), shape=None, dtype=None)
    assert {name: array.tolist() for name, array in encoded(pair, (1, [4])).items()} == {
        "0": [[0, 1]],
        "1": [[4]],
    }


def test_types_are_those_of_the_arrays():
    encodes = encoder(group(a=box(2, 2, dtype=np.uint8), b=discrete(3)))
    assert {name: (one.shape, one.dtype) for name, one in encodes.types.items()} == {
        "a": ((2, 2), np.uint8),
        "b": ((3,), np.float32),
    }


def test_spaces_without_arrays_are_refused():
    text = types.SimpleNamespace(shape=None, dtype=str)
    with pytest.raises(ValueError, match="is no array of numbers"):
        encoder(text)
    with pytest.raises(ValueError, match="part 'a/b' of the observation"):
        encoder(group(a=group(b=text)))
    with pytest.raises(ValueError, match="two of one name"):
        encoder(group(**{"a/b": box(1), "a": group(b=box(1))}))
    with pytest.raises(ValueError, match="no parts"):
        encoder(group())


@pytest.mark.parametrize(
    ("space", "observation", "message"),
    [
        (box(2), [1.0], r"the observation has the shape \(1,\), and observation_space has \(2,\)"),
        (box(2), 1.0, r"has the shape \(\)"),
        (box(2), [[1.0, 2.0]], r"has the shape \(1, 2\)"),
        (box(), [1.0], r"has the shape \(1,\), and observation_space has \(\)"),
        (discrete(3), [0, 1], r"has the shape \(2,\), and observation_space has \(\)"),
        (discrete(3), -1, "the observation is -1, which is not in observation_space"),
        (discrete(3, start=1), 4, "the observation is 4"),
        (group(a=group(b=box(2))), {"a": {"b": 0.0}}, r"part 'a/b' of the observation has the shape \(\)"),
        (group(a=box(1)), {"b": [0.0]}, "there is no 'a' in a dict"),
        (group(a=box(1)), np.zeros(1), r"there is no 'a' in an array of shape \(1,\)"),
    ],
)
def test_an_observation_that_is_not_of_the_space_is_refused(space, observation, message):
    with pytest.raises(ValueError, match=message):
        encoded(space, observation)


def test_the_spaces_of_gymnasium():
    spaces = pytest.importorskip("gymnasium").spaces
    space = spaces.Dict(
        grid=spaces.Box(0, 255, (4, 4, 3), np.uint8),
        flags=spaces.MultiBinary(3),
        levels=spaces.MultiDiscrete([2, 4]),
        pair=spaces.Tuple((spaces.Discrete(5, start=-2), spaces.Box(-1, 1, (2,)))),
    )
    space.seed(0)
    samples = [space.sample() for _ in range(5)]
    seen = encoded(space, *samples)
    assert {name: array.shape[1:] for name, array in seen.items()} == {
        "flags": (3,),
        "grid": (4, 4, 3),
        "levels": (6,),
        "pair/0": (5,),
        "pair/1": (2,),
    }
    for row, sample in enumerate(samples):
        np.testing.assert_array_equal(seen["grid"][row], sample["grid"])
        np.testing.assert_array_equal(seen["flags"][row], sample["flags"])
        assert np.flatnonzero(seen["levels"][row]).tolist() == [sample["levels"][0], 2 + sample["levels"][1]]
        assert np.flatnonzero(seen["pair/0"][row]) == [sample["pair"][0] + 2]
