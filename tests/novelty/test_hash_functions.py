import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xxhash

from emcts.novelty import SimHash, Xxh32Hash, as_bytes, xxh32

KEY = jax.random.key(0)
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


def test_xxh32_hash_reads_the_bytes():
    x = np.array([1.5, -2.0, 0.25], np.float32)
    assert int(jax.jit(Xxh32Hash(9))(jnp.asarray(x))) == xxhash.xxh32_intdigest(x.tobytes(), 9)
    assert Xxh32Hash(9) == Xxh32Hash(9) != Xxh32Hash(8)


def test_sim_hash_keeps_near_vectors_together():
    """Each bit separates two vectors with probability angle / pi."""
    angles = jnp.array([0.0, 0.2, np.pi / 2, np.pi])
    vectors = jnp.stack([jnp.cos(angles), jnp.sin(angles)], axis=1)

    @jax.jit
    def distances():
        codes = jnp.stack([jax.vmap(SimHash(32, seed))(vectors) for seed in range(40)])
        return jnp.mean(jax.lax.population_count(codes ^ codes[:, :1]) / 32, axis=0)

    np.testing.assert_allclose(distances(), angles / np.pi, atol=0.03)


def test_sim_hash_is_the_same_alone_in_a_batch_and_without_jit():
    vectors = jax.random.normal(KEY, (64, 20))
    together = jax.jit(jax.vmap(SimHash(24, 3)))(vectors)
    assert together[0] == SimHash(24, 3)(vectors[0]) == jax.jit(SimHash(24, 3))(vectors[0])
    assert len(set(together.tolist())) > 60
    assert together.max() < 2**24
    assert not (together == jax.jit(jax.vmap(SimHash(24, 4)))(vectors)).any()


def test_sim_hash_reads_bools_and_bytes():
    x = jnp.array([1, 0, 1, 1, 0, 1, 0, 0])
    codes = [jax.jit(SimHash(30))(x.astype(dtype)) for dtype in (bool, jnp.uint8, jnp.float32)]
    assert codes[0] == codes[1] == codes[2]


def test_hash_settings_are_checked():
    with pytest.raises(ValueError, match="1 to 32, got 33"):
        SimHash(33)
    with pytest.raises(ValueError, match="hash it with Xxh32Hash"):
        SimHash(8)(jnp.int32(3))
    with pytest.raises(ValueError, match="got -1"):
        Xxh32Hash(-1)
