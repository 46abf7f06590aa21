from benchmarks import subleq as benchmark


def test_a_tiny_measurement_runs():
    assert benchmark.programs_per_second(4, seconds=0.0) > 0
