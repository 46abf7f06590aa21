"""The resources of a run, as Ray and JAX take them."""

import pytest

from emcts.experiments.executors.resources import Resources


def test_resources_of_a_run() -> None:
    cpu, gpu = {"CPU": 8.0}, {"CPU": 4.0, "GPU": 1.0}
    assert Resources().ray_options([cpu], gpus=False) == {"num_cpus": 1, "num_gpus": 0}
    assert Resources(cpus_per_run=8).ray_options([cpu, {"CPU": 2.0}], gpus=False)["num_cpus"] == 8
    for runs in range(1, 60):
        share = Resources(runs_per_gpu=runs).ray_options([gpu], gpus=True)["num_gpus"]
        assert runs * round(share * 10_000) <= 10_000 < (runs + 1) * round(share * 10_000 + 1)
    assert Resources(cpus_per_run=3).env_vars() == {"NPROC": "3"}
    shared = Resources(runs_per_gpu=4).env_vars()
    assert 4 * float(shared["XLA_CLIENT_MEM_FRACTION"]) == pytest.approx(0.9)
    with pytest.raises(ValueError, match="takes 8 CPUs, but no machine has more than 4 to give"):
        Resources(cpus_per_run=8).ray_options([cpu, gpu], gpus=True)
    with pytest.raises(ValueError, match="--runs-per-gpu 2: Ray sees no GPU"):
        Resources(runs_per_gpu=2).ray_options([cpu], gpus=False)
    with pytest.raises(ValueError, match="--cpus-per-run 0: give at least 1"):
        Resources(cpus_per_run=0)
