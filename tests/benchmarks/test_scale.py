"""Speed against seeds and devices, and the count of communication."""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest
from benchmarks.traffic import traffic
from jax.sharding import PartitionSpec as P

from benchmarks import scale


@pytest.mark.long
def test_a_tiny_measurement(tmp_path: Path) -> None:
    scale.main(smoke=True, out=tmp_path / "scale.json")
    (row,) = json.loads((tmp_path / "scale.json").read_text())["rows"]
    assert (row["case"], row["seeds"], row["layout"]) == ("deep-sea 4 x 4", 2, "1x1")
    assert row["steps_per_second"] > 0
    assert row["communication_kib_per_iteration"] == {}, "a single device communicates with no other"


def test_cases_can_be_composed() -> None:
    for case in (*scale.CPU, *scale.GPU):
        assert case.trainer().seeds == tuple(range(case.seeds))


def test_traffic_counts_loops_and_the_larger_branch() -> None:
    mesh = jax.make_mesh((1,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))

    def step(carry: jax.Array, _: None) -> tuple[jax.Array, None]:
        carry = jax.lax.psum(carry, "data")  # 12 bytes, four times
        return jax.lax.cond(carry[0] > 0, lambda x: jax.lax.pmax(x, "data"), lambda x: x, carry), None

    def program(x: jax.Array) -> jax.Array:
        x, _ = jax.lax.scan(step, x, None, length=4)
        return jax.lax.all_gather(x, "data", tiled=True)

    data_parallel = jax.shard_map(program, mesh=mesh, in_specs=P(), out_specs=P(), check_vma=False)
    assert traffic(data_parallel, jnp.ones(3)) == {"psum": 48, "pmax": 48, "all_gather": 12}
