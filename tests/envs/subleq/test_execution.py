import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emcts.envs.subleq.execution import Execution, execute, trace
from tests.envs.subleq import oracle


@st.composite
def programs(draw: st.DrawFn) -> tuple[int, list[int], list[int]]:
    n = draw(st.integers(16, 256))
    # Small words and the three special addresses make programs that do something.
    word = st.one_of(st.integers(0, n - 1), st.integers(0, 12), st.integers(n - 3, n - 1))
    program = draw(st.lists(word, max_size=n - 3 if n < 40 else 40))
    return n, program, draw(st.lists(st.integers(0, n - 1), max_size=12))


@settings(derandomize=True, max_examples=400, deadline=None)
@given(programs(), st.booleans(), st.integers(0, 200))
def test_execute_equals_the_oracle(drawn, signed, cap):
    n, program, inputs = drawn
    expected = oracle.run(n, signed, program, inputs, None, cap)
    got = execute(program, inputs, word_size=n, max_cycles=cap, signed=signed)
    assert got == Execution(
        outputs=expected.outputs,
        inputs_read=min(expected.reads, len(inputs)),
        cycles=expected.cycles,
        halted=expected.verdict == "halted",
    )


def test_negate_of_the_paper():
    assert execute([14, 13], [1, 2, 3], max_cycles=3).outputs == [15, 14, 13]


@pytest.mark.parametrize("n", [16, 64, 256])
def test_identity_of_the_paper(n):
    program = [9, n - 3, 3, n - 2, 9, 6, 9, 9]
    assert execute(program, [5, -3, 0, 7], word_size=n, max_cycles=12).outputs == [5, n - 3, 0, 7]
    short = [0, n - 3, 3, n - 2, 0, 6]
    assert execute(short, [5, -3, 0, 7], word_size=n, max_cycles=12).outputs == [5, n - 3, 0, 7]


def test_input_named_twice_is_read_once_and_missing_input_is_zero():
    execution = execute([13, 13, 3, 14, 13, 6, 14, 13, 9, 0, 0, 15], [4, 5])
    assert execution == Execution(outputs=[11, 0], inputs_read=2, cycles=4, halted=True)


def test_the_two_semantics_differ_on_a_negative_input():
    unsigned = execute([14, 13, 15], [-3])
    signed = execute([14, 13, 15], [-3], signed=True, max_cycles=1)
    assert (unsigned.halted, signed.halted) == (True, False)
    assert unsigned.outputs == signed.outputs == [3]


def test_trace_shows_reads_outputs_and_memory():
    first, second = trace([0, 13, 3, 14, 0, 15], [5])
    assert (first.operands, first.read, first.output, first.memory[0]) == ((0, 13, 3), 5, None, 11)
    assert (second.address, second.read, second.output, second.next_address) == (3, None, 5, 15)


@pytest.mark.parametrize(
    ("program", "inputs", "settings", "message"),
    [
        ([0, 16], [], {}, "word 1 is 16: the words of SUBLEQ-16 are 0 to 15"),
        ([-2], [], {}, "write -2 as 14"),
        ([0] * 14, [], {}, "14 words is too long: SUBLEQ-16 has room for 13"),
        ([0.5], [], {}, "word 0 is 0.5: expected a whole number"),
        ([0], [16], {}, "input 0 is 16"),
        ([0], [-9], {}, "takes -8 to 15"),
        ([0], [], {"word_size": 15}, "word_size 15 is out of range"),
        ([0], [], {"word_size": 257}, "16 <= N <= 256"),
        ([0], [], {"max_cycles": -1}, "max_cycles is -1"),
    ],
)
def test_bad_input_is_said_clearly(program, inputs, settings, message):
    with pytest.raises(ValueError, match=message):
        execute(program, inputs, **settings)
