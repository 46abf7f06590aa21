"""The benchmark of tree reuse: how many simulations take the same time, and what its file keeps."""

from pathlib import Path
from typing import Any

import pytest
from benchmarks.reuse import Result, lines, simulations_of_equal_time

from benchmarks import reuse
from emcts.agents.mcts.planners import Gumbel, UbeAtRoot


def test_equal_time_is_found_on_the_line_through_two_measurements() -> None:
    # With reuse 8 simulations take 5 ms and 16 take 9: half a millisecond each, and 1 for the cut.
    assert simulations_of_equal_time((7.0, 5.0, 9.0), (16, 8, 16)) == 12
    assert simulations_of_equal_time((20.0, 5.0, 9.0), (16, 8, 16)) == 16
    assert simulations_of_equal_time((0.5, 5.0, 9.0), (16, 8, 16)) == 1


def test_only_acting_has_other_simulations() -> None:
    assert reuse.with_simulations(UbeAtRoot(Gumbel(16)), 3) == UbeAtRoot(Gumbel(3))
    settings: Any = reuse.Registered().settings("deep-sea", "e-az")
    trainer: Any = reuse.Registered().trainer("deep-sea", "e-az", settings, (0,))
    changed: Any = reuse.acting(trainer, 7, reuse=True).learner
    assert (changed.planner.num_simulations, changed.reuse_tree) == (7, True)
    assert changed.reanalyse == trainer.learner.reanalyse


def test_a_row_that_is_measured_again_replaces_its_lines(tmp_path: Path) -> None:
    file = tmp_path / "reuse.csv"
    for name, times in (("a", (1.0, 2.0)), ("b", (3.0,)), ("a", (4.0,))):
        rows = [Result(name, "az", "afresh", 16, time, 10, [None, 5.0]) for time in times]
        reuse._write(file, name, lines(rows, "emcts bench reuse"))
    written = file.read_text().splitlines()
    assert [line.split(",")[:5] for line in written[1:]] == [
        ["b", "az", "afresh", "16", "3.0"],
        ["a", "az", "afresh", "16", "4.0"],
    ]
    assert "never 5" in written[1]


def test_an_unknown_row_is_refused() -> None:
    with pytest.raises(ValueError, match="no row 'chess': give any of deep-sea-10"):
        reuse.main(rows=("chess",))


@pytest.mark.long
def test_it_runs(tmp_path: Path) -> None:
    reuse.main(rows=("deep-sea-10",), smoke=True, out=tmp_path / "reuse.csv")
    assert len((tmp_path / "reuse.csv").read_text().splitlines()) == 4
