from benchmarks.subleq_inputs import distinct_values


def test_each_input_tells_more_programs_apart_than_the_one_before_it():
    rows = distinct_values("negate", 2, ("io", "examples", "trace", "full"))
    assert [row["full"] for row in rows] == [1, 17, 273]
    assert all(row["io"] <= row["examples"] for row in rows)
    assert rows[-1]["io"] < rows[-1]["trace"] < rows[-1]["full"]
