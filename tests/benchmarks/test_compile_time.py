"""The benchmark of compile time: what it times, and what it makes of several processes."""

from pathlib import Path

import pytest
from benchmarks.compile_time import pairs, summary

from benchmarks import compile_time


def test_every_policy_is_timed_beside_mctx_where_it_has_it() -> None:
    assert pairs()[:2] == [("mctx", "PUCT"), ("emcts", "PUCT")]
    assert ("emcts", "UCT") in pairs()
    assert ("mctx", "UCT") not in pairs()


def test_medians_are_of_stages_and_of_whole_processes() -> None:
    walls = [[1.0, 1.0, 5.0, 0.0], [3.0, 1.0, 1.0, 0.0], [2.0, 1.0, 1.5, 0.0]]
    found = summary([{"wall": wall, "cpu": [1.0] * 4, "operations": 7} for wall in walls])
    assert found["operations"] == 7
    assert (found["wall"]["imports"], found["wall"]["compiling"]) == (2.0, 1.5)
    assert found["wall"]["all"] == 5.0
    assert found["wall"]["of_each_process"] == [7.0, 5.0, 4.5]


def test_the_module_imports_no_jax() -> None:
    """What a process imports is timed: only the library under test may bring JAX."""
    assert not {"jax", "emcts", "mctx"} & set(vars(compile_time))


def test_a_process_that_fails_says_why() -> None:
    with pytest.raises(RuntimeError, match=r"UCT of mctx ended with 1:(.|\n)*uct_policy"):
        compile_time.spawn("mctx", "UCT")


@pytest.mark.long
def test_it_runs(tmp_path: Path) -> None:
    compile_time.main(smoke=True, out=tmp_path / "compile.json")
    assert '"UCT emcts"' in (tmp_path / "compile.json").read_text()
