import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xxhash

from emcts.novelty import as_bytes, xxh32

SEEDS = [0, 1, 0x9E3779B1, 2**31, 2**32 - 1]


def random_bytes(*shape):
    return np.random.default_rng(sum(shape)).integers(0, 256, shape, dtype=np.uint8)


def oracle(rows, seed):
    return np.array([xxhash.xxh32_intdigest(row.tobytes(), seed) for row in rows], np.uint32)


def test_every_short_length_under_one_jit():
    """All tails: 0 to 4 stripes, 0 to 3 words, 0 to 3 bytes."""
    data = [random_bytes(3, length) for length in range(71)]

    @jax.jit
    def hash_all(seed):
        return jnp.stack([xxh32(jnp.asarray(rows), seed) for rows in data])

    for seed in SEEDS:
        np.testing.assert_array_equal(hash_all(jnp.uint32(seed)), [oracle(rows, seed) for rows in data])


@pytest.mark.parametrize("length", [511, 512, 513, 528, 1024 + 13, 4096, 10_007])
def test_long_inputs_take_a_loop(length):
    rows = random_bytes(2, length)
    hashed = jax.jit(xxh32, static_argnums=1)(jnp.asarray(rows), 7)
    np.testing.assert_array_equal(hashed, oracle(rows, 7))


def test_the_program_for_a_long_input_stays_small():
    def size(length):
        return len(jax.jit(xxh32).lower(jax.ShapeDtypeStruct((length,), jnp.uint8)).as_text())

    assert size(1_000_000) < 2 * size(1024)


@pytest.mark.parametrize("batch", [(), (5,), (2, 3), (0,), (1, 1, 2)])
def test_leading_axes(batch):
    rows = random_bytes(*batch, 37)
    hashed = jax.jit(xxh32)(jnp.asarray(rows))
    assert hashed.shape == batch
    np.testing.assert_array_equal(hashed.reshape(-1), oracle(rows.reshape(-1, 37), 0))


def test_vmap_over_rows_and_seeds():
    rows, seeds = random_bytes(4, 21), np.array([3, 5, 8, 2**32 - 5], np.uint32)
    hashed = jax.jit(jax.vmap(xxh32))(jnp.asarray(rows), jnp.asarray(seeds))
    expected = [oracle(rows[i : i + 1], int(seed))[0] for i, seed in enumerate(seeds)]
    np.testing.assert_array_equal(hashed, expected)


def test_without_jit():
    rows = random_bytes(2, 21)
    np.testing.assert_array_equal(xxh32(jnp.asarray(rows), 2**32 - 1), oracle(rows, 2**32 - 1))


@pytest.mark.parametrize("seed", [-1, 2**32])
def test_a_seed_has_32_bits(seed):
    with pytest.raises(ValueError, match=f"got {seed}"):
        xxh32(jnp.zeros(3, jnp.uint8), seed)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "uint32", "int32", "float16", "float32"])
def test_bytes_are_little_endian(dtype):
    x = np.array([[1, 2, 3], [100, 0, 57]]).astype(dtype)
    found = jax.jit(as_bytes)(jnp.asarray(x))
    assert found.tolist() == list(x.astype(np.dtype(dtype).newbyteorder("<")).tobytes())


def test_bytes_of_one_index():
    assert jax.jit(as_bytes)(jnp.int32(-2)).tolist() == [254, 255, 255, 255]


@pytest.mark.parametrize("length", [0, 1, 8, 9, 30])
def test_bools_go_eight_to_a_byte(length):
    x = random_bytes(length) % 2 == 1
    found = jax.jit(as_bytes)(jnp.asarray(x))
    assert found.tolist() == np.packbits(x, bitorder="little").tolist()


def test_both_zeros_hash_alike():
    hashes = jax.jit(lambda x: jax.vmap(lambda row: xxh32(as_bytes(row)))(x))
    plus, minus, other = hashes(jnp.array([[0.0, 1.5], [-0.0, 1.5], [0.0, -1.5]]))
    assert plus == minus
    assert plus != other


def test_bytes_of_what_has_none():
    with pytest.raises(ValueError, match="complex64: convert it"):
        as_bytes(jnp.zeros(2, jnp.complex64))
