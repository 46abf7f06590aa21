import pytest

from emcts.envs import subleq
from emcts.envs.subleq.examples import NUM_EXAMPLES
from emcts.envs.subleq.tasks import task

KNOWN = {
    "negate-positives": ([3, 1], [-3, -1]),
    "negate": ([3, 0, -1], [-3, 0, 1]),
    "identity": ([3, -1], [3, -1]),
    "add": ([3, -1, 2, 2], [2, 4]),
    "subtract": ([3, -1, 2, 2], [4, 0]),
    "maximum": ([3, -1, 2, 4], [3, 4]),
    "minimum": ([3, -1, 2, 4], [-1, 2]),
    "compare": ([3, -1, 2, 4, 5, 5], [1, -1, 0]),
    "sign": ([3, 0, -4], [1, 0, -1]),
    "absolute": ([3, 0, -4], [3, 0, 4]),
    "double": ([3, -2], [6, -4]),
    "halve": ([4, -6], [2, -3]),
    "multiply": ([2, -3, 0, 5], [-6, 0]),
    "divide": ([6, -3, 0, 5], [-2, 0]),
    "sum": ([1, 2, 0, 5, 0], [3, 5]),
    "reverse": ([1, 2, 3, 0, 4, 5, 0], [3, 2, 1, 5, 4]),
    "sort-2": ([4, 1, 2, 3], [1, 4, 2, 3]),
    "sort-3": ([4, -1, 2], [-1, 2, 4]),
    "sort-4": ([4, -1, 2, 0], [-1, 0, 2, 4]),
    "copy": ([4, 3, 0, 1, 0], [4, 3, 1]),
}


def test_every_task_has_a_known_answer_here():
    assert set(KNOWN) == set(subleq.TASKS)


@pytest.mark.parametrize("name", KNOWN)
def test_known_answers(name):
    inputs, outputs = KNOWN[name]
    assert subleq.TASKS[name].outputs(inputs) == outputs


@pytest.mark.parametrize("n", [16, 17, 256])
@pytest.mark.parametrize("name", KNOWN)
def test_examples_are_valid_for_every_word_size(name, n):
    shown = subleq.examples(name, n)
    assert len(shown) == NUM_EXAMPLES
    for inputs, outputs in shown:
        assert 5 <= len(inputs) <= 8
        assert 1 <= len(outputs) <= 8
        assert list(outputs) == subleq.TASKS[name].outputs(inputs)
        assert all(-(n // 4) <= value <= (n - 1) // 2 for value in inputs)
        assert all(-(n // 2) <= value <= (n - 1) // 2 for value in outputs)
        assert len(set(outputs)) > 1, "a constant would pass"


def test_examples_never_change():
    """Results are compared across machines and versions, so the examples are part of what a task means."""
    assert subleq.examples("negate", 16)[0] == ((2, 1, 3, 7, -1, 7, -1, 6), (-2, -1, -3, -7, 1, -7, 1, -6))
    assert subleq.examples("sort-2", 256)[1] == subleq.examples.__wrapped__("sort-2", 256)[1]


@pytest.mark.parametrize("n", [16, 256])
@pytest.mark.parametrize("name", KNOWN)
def test_shortcuts_fail_some_example(name, n):
    """Plausible wrong functions: constants, off by one, right for positive inputs only, one of a pair."""
    right = subleq.TASKS[name]

    def answers(wrong):
        return [wrong(list(inputs), list(outputs)) for inputs, outputs in subleq.examples(name, n)]

    wanted = [list(outputs) for _, outputs in subleq.examples(name, n)]
    shortcuts = {
        "off by one": lambda i, o: [value + 1 for value in o],
        "first answer for ever": lambda i, o: [o[0]] * len(o),
        "first group only": lambda i, o: right.outputs(right.groups(i)[0]) + [0] * 8,
        "one late": lambda i, o: [0, *o[:-1]],
        "zero": lambda i, o: [0] * len(o),
    }
    if name != "identity":
        shortcuts["identity"] = lambda i, o: i[: len(o)]
    if name not in ("negate", "negate-positives"):
        shortcuts["negate"] = lambda i, o: [-value for value in i][: len(o)]
    if name not in ("negate-positives", "absolute"):
        shortcuts["no sign"] = lambda i, o: right.outputs([abs(value) for value in i])
    if name in ("maximum", "minimum", "sort-2", "subtract", "divide", "compare"):
        shortcuts["first of the pair"] = lambda i, o: i[::2]
        shortcuts["second of the pair"] = lambda i, o: i[1::2]
    if name in ("sum", "copy", "reverse"):
        shortcuts["ignores the end"] = lambda i, o: (i if name == "copy" else i[::-1])[: len(o)]
    for what, wrong in shortcuts.items():
        assert answers(wrong) != wanted, f"{what} passes {name}"


def test_plausible_wrong_programs_are_rejected():
    assert not subleq.solves([14, 13], "identity")
    assert not subleq.solves([14, 13, 15], "negate"), "one output, then halts"
    assert not subleq.solves([14, 13], "negate", signed=True), "right for positive inputs only"
    assert subleq.solves([14, 13], "negate-positives", signed=True)
    assert not subleq.solves([0, 13, 3, 14, 0, 3], "identity"), "writes the first input for ever"
    # x is not cleared: writes running sums.
    assert not subleq.solves([9, 13, 3, 14, 9, 0], "identity")
    assert not subleq.solves([0, 13, 3, 14, 0, 6], "copy"), "copies the zeros too"
    assert not subleq.solves([0, 13, 3, 14, 0, 6], "absolute")


def test_unknown_task_suggests_the_nearest():
    with pytest.raises(ValueError, match="unknown task 'maximun': did you mean 'maximum'"):
        task("maximun")
    with pytest.raises(ValueError, match="unknown task ''"):
        subleq.solves([0], "")
