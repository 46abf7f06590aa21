"""Checkpoints: what comes back, what is kept, and what damage and a full disk do."""

import contextlib
import errno
import json
import os
import resource
import shutil
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from emcts.runs import checkpoints as module
from emcts.runs.checkpoints import Checkpoints
from emcts.runs.files import DiskFull
from emcts.types import record
from tests.runs.toy import ToySettings, ToyTrainer


@record
class Mixed:
    """One of every kind of leaf."""

    threefry: jax.Array
    rbg: jax.Array
    nested: dict
    empty: jax.Array


def mixed(seed: int = 0) -> Mixed:
    draw = np.random.default_rng(seed)
    return Mixed(
        jax.random.split(jax.random.key(seed), 3),
        jax.random.key(seed, impl="rbg"),
        {
            "floats": (jnp.asarray(draw.normal(size=(3, 5)), jnp.float32), jnp.float32(np.nan)),
            "halves": jnp.asarray(draw.normal(size=4), jnp.bfloat16),
            "bits": jnp.asarray(draw.integers(0, 2, 7), bool),
            "words": jnp.asarray(draw.integers(0, 2**32, 6, np.uint32)),
        },
        jnp.zeros((3, 0)),
    )


def numbers(state):
    leaves = jax.tree.leaves(state)
    keys = [jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key) for leaf in leaves]
    return [
        np.asarray(jax.random.key_data(leaf) if key else leaf) for leaf, key in zip(leaves, keys, strict=True)
    ]


def assert_same(one, two):
    assert str(jax.tree.structure(one)) == str(jax.tree.structure(two))
    assert [leaf.dtype for leaf in jax.tree.leaves(one)] == [leaf.dtype for leaf in jax.tree.leaves(two)]
    for here, there in zip(numbers(one), numbers(two), strict=True):
        np.testing.assert_array_equal(here, there)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    checkpoints = Checkpoints(tmp_path_factory.mktemp("checkpoints"), keep=3)
    for step in (1, 2, 3):
        checkpoints.save(mixed(step), step)
    return checkpoints.folder


@pytest.fixture
def three(original: Path, tmp_path: Path) -> Checkpoints:
    """Checkpoints at steps 1, 2 and 3, each of its own state."""
    return Checkpoints(Path(shutil.copytree(original, tmp_path / "checkpoints")), keep=3)


def test_every_kind_of_leaf_comes_back(three: Checkpoints) -> None:
    restored = three.restore(jax.eval_shape(mixed))
    assert restored is not None
    assert (restored.env_steps, restored.damaged) == (3, ())
    assert_same(restored.state, mixed(3))
    np.testing.assert_array_equal(
        jax.random.bits(restored.state.rbg, (4,)), jax.random.bits(mixed(3).rbg, (4,))
    )


def test_a_restored_state_can_be_donated(tmp_path: Path) -> None:
    trainer = ToyTrainer(ToySettings(), (0, 1))
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(trainer.init(), 0)
    for _ in range(2):
        restored = checkpoints.restore(trainer.init())
        assert restored is not None
        state, _ = trainer.advance(restored.state)
        assert_same(state, trainer.advance(trainer.init())[0])


def mostly_zeros(kind: str) -> dict[str, jax.Array]:
    """Arrays as a replay and tables have them: filled from the front, here and there, nowhere, and negative zeros."""
    draw = np.random.default_rng(0)
    ring = np.zeros((2, 5000, 3), kind)
    ring[:, :40] = draw.integers(0, 2, (2, 40, 3)).astype(kind)
    table = np.zeros(100_003, kind)
    table[[5, 50_000, 100_002]] = 1
    signs = np.zeros((40, 1000), np.float32)
    signs[7, 3] = -0.0
    arrays = {"ring": ring, "table": table, "nothing": np.zeros((300, 300), kind), "signs": signs}
    full = {"full": draw.normal(size=(200, 200)).astype(np.float32)}
    return {name: jnp.asarray(array) for name, array in {**arrays, **full}.items()}


@pytest.mark.parametrize("kind", ["float32", "bfloat16", "uint8", "int32", "bool"])
def test_zeros_take_no_space_and_come_back(tmp_path: Path, kind: str) -> None:
    state, checkpoints = mostly_zeros(kind), Checkpoints(tmp_path)
    path = checkpoints.save(state, 1)
    stored = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    assert stored < state["full"].nbytes + 100_000 < sum(array.nbytes for array in state.values())
    restored = checkpoints.restore(state)
    assert restored is not None
    assert_same(restored.state, state)
    assert np.signbit(restored.state["signs"]).sum() == 1


def test_a_checkpoint_with_all_its_zeros_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As versions wrote it that left out none."""
    state, checkpoints = mostly_zeros("float32"), Checkpoints(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(module, "pack", lambda array: None)
        path = checkpoints.save(state, 1)
    assert "blocks" not in (path / "manifest.json").read_text()
    restored = checkpoints.restore(state)
    assert restored is not None
    assert_same(restored.state, state)


def test_nothing_saved_is_nothing_restored(tmp_path: Path) -> None:
    assert Checkpoints(tmp_path / "none").restore(mixed()) is None


def test_the_last_and_the_best_are_kept(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, keep=2)
    for step, score in [(1, 0.0), (2, 5.0), (3, None), (4, 1.0), (5, 5.0), (6, 2.0), (7, 3.0), (8, None)]:
        checkpoints.save(jnp.full(2, step), step, score)
    assert checkpoints.steps() == [5, 7, 8]
    best = checkpoints.restore(jnp.zeros(2, int), best=True)
    assert best is not None
    assert best.env_steps == 5
    np.testing.assert_array_equal(best.state, [5, 5])
    assert {path.name for path in tmp_path.iterdir()} == {f"step-{step:012}" for step in (5, 7, 8)}


def test_a_broken_state_is_not_restored(three: Checkpoints) -> None:
    path = three.save_broken(mixed(4), 4)
    restored = three.restore(mixed())
    assert restored is not None
    assert restored.env_steps == 3
    assert_same(module.read(path, mixed()), mixed(4))


def biggest(folder: Path) -> Path:
    return max((file for file in folder.rglob("*") if file.is_file()), key=lambda file: file.stat().st_size)


def truncate(checkpoint: Path) -> None:
    file = biggest(checkpoint / "arrays")
    os.truncate(file, file.stat().st_size // 2)


def remove(checkpoint: Path) -> None:
    biggest(checkpoint / "arrays").unlink()


def flip_a_bit(checkpoint: Path) -> None:
    file = biggest(checkpoint / "arrays")
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


def fill_with_garbage(checkpoint: Path) -> None:
    for file in checkpoint.rglob("*"):
        if file.is_file():
            file.write_bytes(b"\x80" * file.stat().st_size)


def lose_the_manifest(checkpoint: Path) -> None:
    (checkpoint / "manifest.json").unlink()


def tear_the_manifest(checkpoint: Path) -> None:
    os.truncate(checkpoint / "manifest.json", 40)


def empty_the_manifest(checkpoint: Path) -> None:
    (checkpoint / "manifest.json").write_text("{}")


KINDS = [
    truncate,
    remove,
    flip_a_bit,
    fill_with_garbage,
    lose_the_manifest,
    tear_the_manifest,
    empty_the_manifest,
]


@pytest.mark.parametrize("damage", KINDS)
def test_damage_falls_back_to_the_one_before_and_says_so(three: Checkpoints, damage) -> None:
    damage(three.path(3))
    restored = three.restore(mixed())
    assert restored is not None
    assert restored.env_steps == 2
    assert_same(restored.state, mixed(2))
    assert len(restored.damaged) == 1
    assert "step-000000000003" in restored.damaged[0]


def test_a_readable_file_that_changed_is_noticed(three: Checkpoints) -> None:
    """Orbax reads a checkpoint whose metadata carries more white space; the checksum does not let it pass."""
    file = three.path(3) / "arrays" / "_METADATA"
    file.write_text(file.read_text().replace(":", ": ", 1))
    restored = three.restore(mixed())
    assert restored is not None
    assert restored.env_steps == 2


def test_everything_damaged_is_an_error_that_names_each(three: Checkpoints) -> None:
    for step, damage in [(1, truncate), (2, remove), (3, lose_the_manifest)]:
        damage(three.path(step))
    with pytest.raises(ValueError, match="no checkpoint in .* can be read") as caught:
        three.restore(mixed())
    assert all(f"step-{step:012}" in str(caught.value) for step in (1, 2, 3))


def test_a_save_replaces_a_damaged_future(three: Checkpoints) -> None:
    truncate(three.path(3))
    three.save(mixed(2), 2)
    assert three.steps() == [1, 2]
    three.save(mixed(3), 3)
    restored = three.restore(mixed())
    assert restored is not None
    assert (restored.env_steps, restored.damaged) == (3, ())


@pytest.mark.parametrize(
    ("like", "message"),
    [
        (
            {"a": jnp.zeros(3), "b": jnp.zeros(2)},
            r"state\['a'\] is float32\[2\] in the checkpoint, float32\[3\]",
        ),
        (
            {"a": jnp.zeros(2, int), "b": jnp.zeros(2)},
            r"state\['a'\] is float32\[2\] in .*, int32\[2\] expected",
        ),
        ({"a": jnp.zeros(2)}, r"the checkpoint has state\['b'\]"),
        ({"a": jnp.zeros(2), "b": jnp.zeros(2), "c": jnp.zeros(2)}, r"the checkpoint lacks state\['c'\]"),
        (
            {"a": jax.random.key(0), "b": jnp.zeros(2)},
            r"float32\[2\] in the checkpoint, key<fry>\[\] expected",
        ),
    ],
)
def test_another_trainer_is_refused_by_name(tmp_path: Path, like, message: str) -> None:
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save({"a": jnp.zeros(2), "b": jnp.zeros(2)}, 1)
    with pytest.raises(ValueError, match=message):
        checkpoints.restore(like)


def test_only_arrays_can_be_saved(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"state\['count'\] is a int"):
        Checkpoints(tmp_path).save({"count": 3}, 1)


def full_disk(*_, **__):
    raise OSError(errno.ENOSPC, "No space left on device")


def full_disk_in_orbax(*_, **__):
    raise ValueError("RESOURCE_EXHAUSTED: Failed to write: No space left on device [os_error_code='28']")


@pytest.mark.parametrize(
    ("where", "how"),
    [
        ("_write_arrays", full_disk),
        ("_write_arrays", full_disk_in_orbax),
        ("_sums", full_disk),
        ("write_atomically", full_disk),
    ],
)
def test_a_full_disk_harms_nothing(three: Checkpoints, monkeypatch: pytest.MonkeyPatch, where, how) -> None:
    before = sorted(three.folder.rglob("*"))
    with monkeypatch.context() as patch:
        patch.setattr(f"emcts.runs.checkpoints.{where}", how)
        with pytest.raises(DiskFull, match="no space left"):
            three.save(mixed(4), 4)
    assert sorted(three.folder.rglob("*")) == before
    restored = three.restore(mixed())
    assert restored is not None
    assert restored.env_steps == 3


def test_too_little_space_is_noticed_before_anything_is_written(
    three: Checkpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("emcts.runs.checkpoints.shutil.disk_usage", lambda _: SimpleNamespace(free=2_000_000))
    three.save({"small": jnp.ones(400_000)}, 4)
    monkeypatch.setattr("emcts.runs.checkpoints._write_arrays", None)
    with pytest.raises(DiskFull, match="it takes 4 MB, 2 are free"):
        three.save({"big": jnp.ones(1_000_000)}, 5)
    assert three.steps() == [2, 3, 4]


def test_a_real_limit_inside_orbax_is_understood(
    three: Checkpoints, capfd: pytest.CaptureFixture[str]
) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    noise = {"noise": np.random.default_rng(0).random(500_000)}
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, hard))
    try:
        with pytest.raises(DiskFull, match="no space left"):
            three.save(noise, 4)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert sorted(path.name for path in three.folder.iterdir()) == [f"step-{step:012}" for step in (1, 2, 3)]
    assert "Traceback" not in capfd.readouterr().err


def test_what_a_killed_save_left_is_ignored_then_cleared(three: Checkpoints) -> None:
    left = three.folder / ".partial-step-000000000004" / "arrays"
    left.mkdir(parents=True)
    (left / "half").write_bytes(b"half")
    restored = three.restore(mixed())
    assert restored is not None
    assert restored.env_steps == 3
    three.save(mixed(4), 4)
    assert not left.parent.exists()
    assert three.steps() == [2, 3, 4]


def test_any_flipped_bit_of_the_manifest_costs_one_checkpoint_at_most(three: Checkpoints) -> None:
    """Read without its arrays, which takes long: a manifest that passes is the one that was written."""
    manifest = three.path(3) / "manifest.json"
    written, draw = manifest.read_bytes(), np.random.default_rng(0)
    wanted = module._manifest(three.path(3))
    for bit in draw.choice(8 * len(written), 1_000, replace=False):
        changed = bytearray(written)
        changed[bit // 8] ^= 1 << int(bit % 8)
        manifest.write_bytes(changed)
        with contextlib.suppress(module.Damaged):
            assert module._manifest(three.path(3)) == wanted
    assert three._score(3) == -np.inf
    assert three.identity() is None
    restored = three.restore(mixed())
    assert restored is not None
    assert restored.env_steps == 2


def test_an_unexpected_error_is_damage_too(three: Checkpoints, monkeypatch: pytest.MonkeyPatch) -> None:
    intact = module._read_arrays

    def read_arrays(path: Path, leaves):
        if path.parent == three.path(3):
            raise AttributeError("inside of a library")
        return intact(path, leaves)

    monkeypatch.setattr(module, "_read_arrays", read_arrays)
    restored = three.restore(mixed())
    assert restored is not None
    assert (restored.env_steps, restored.damaged) == (
        2,
        ("step-000000000003 cannot be read (AttributeError)",),
    )


def test_a_manifest_without_checksum_is_read(three: Checkpoints) -> None:
    """As versions before wrote it."""
    file = three.path(3) / "manifest.json"
    file.write_text(json.dumps(json.loads(file.read_text())["manifest"]))
    restored = three.restore(mixed())
    assert restored is not None
    assert restored.env_steps == 3


def test_names_that_are_no_checkpoints_are_ignored(three: Checkpoints) -> None:
    for name in ("step-²", "step-4", "step-x", "step-0000000000040", "step-" + 30 * "9"):
        (three.folder / name).mkdir()
    assert three.steps() == [1, 2, 3]


def test_a_manifest_names_no_file_outside(three: Checkpoints, tmp_path: Path) -> None:
    file = three.path(3) / "manifest.json"
    manifest = json.loads(file.read_text())["manifest"]
    manifest["files"]["../../secret"] = [1, 2]
    file.write_text(module._sealed(manifest))
    with pytest.raises(module.Damaged, match="names a file outside of it"):
        module.read(three.path(3), mixed())


def test_removing_checkpoints_follows_no_links(three: Checkpoints, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "thesis.txt").write_text("mine")
    (three.folder / ".partial-x").symlink_to(precious)
    (three.folder / "step-000000000000").symlink_to(precious)
    three.save(mixed(4), 4)
    assert three.steps() == [2, 3, 4]
    assert (precious / "thesis.txt").read_text() == "mine"
    linked = Checkpoints(tmp_path / "linked")
    linked.folder.symlink_to(precious)
    with pytest.raises(ValueError, match="is a symbolic link"):
        linked.save(mixed(4), 4)
    assert [file.name for file in precious.iterdir()] == ["thesis.txt"]


def test_between_chunks_a_checkpoint_is_as_older_versions_wrote_it(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    state = mixed()
    manifest = json.loads((checkpoints.save(state, 100) / "manifest.json").read_text())["manifest"]
    assert len(manifest["leaves"]) == len(jax.tree.leaves(state))
    assert all(leaf["path"].startswith("state") for leaf in manifest["leaves"])

    def never() -> module.Template:
        raise AssertionError("there is no chunk")

    restored = checkpoints.restore(state, chunk=never)
    assert restored is not None
    assert restored.chunk is None


def test_a_chunk_comes_back_and_one_of_other_shapes_is_named(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    state, chunk = mixed(), mixed(3)
    checkpoints.save(state, 100, score=7.0)
    checkpoints.save(state, 130, chunk=chunk)
    restored = checkpoints.restore(state, chunk=lambda: module.Template(chunk))
    assert restored is not None
    assert_same(restored.state, state)
    assert_same(restored.chunk, chunk)
    other = {"empty": jnp.zeros(3)}
    with pytest.raises(ValueError, match="the checkpoint lacks chunk"):
        checkpoints.restore(state, chunk=lambda: module.Template(other))
    alone = checkpoints.restore(state)
    assert alone is not None
    assert alone.chunk is None
    best = checkpoints.restore(state, best=True)
    assert best is not None
    assert best.env_steps == 100
