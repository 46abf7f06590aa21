import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emcts.envs.subleq.assembly import AssemblyError, assemble, disassemble

NEGATE_POSITIVES = """
@start:
subleq @OUT @IN @start
"""

IDENTITY = """
@start:
subleq @x @IN          ; (9, N-3, 3)
subleq @OUT @x         ; (N-2, 9, 6)
subleq @x @x @start    ; (9, 9, )
@x: .data 0            ; (, ...)
"""

SHORTEST_IDENTITY = """
@start:
subleq @x:@x @IN       ; (0, N-3, 3)
subleq @OUT @x         ; (N-2, 0, 6)
subleq @x @x @start    ; (, , )
"""


@pytest.mark.parametrize("n", [16, 100, 256])
def test_programs_of_the_paper(n):
    assert assemble(NEGATE_POSITIVES, n) == [n - 2, n - 3, 0]
    assert assemble(IDENTITY, n) == [9, n - 3, 3, n - 2, 9, 6, 9, 9, 0, 0]
    assert assemble(SHORTEST_IDENTITY, n) == [0, n - 3, 3, n - 2, 0, 6, 0, 0, 0]


def test_operands_may_be_numbers_offsets_and_negative():
    assert assemble("subleq 3, -1, @x+1\n@x: .data @x-1 -8 15 @HALT", 16) == [3, 15, 4, 2, 8, 15, 15]


def test_labels_may_share_a_line_or_an_address():
    assert assemble("@a: @b: subleq @a @c:@b @c\n@d:\n.data @d", 16) == [0, 0, 1, 3]


def test_nothing_is_an_empty_program():
    assert assemble("\n  ; only a comment\n", 16) == []


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        ("subleq 1", 1, 1, "subleq takes 2 or 3 operands, not 1"),
        ("\nsubleq 1 2 3 4", 2, 1, "not 4"),
        ("subleq 1 2\n  subleq @x 2", 2, 10, "@x is not defined"),
        ("@x: .data 1\n@x: .data 2", 2, 1, "@x is defined already"),
        ("@IN: .data 1", 1, 1, "@IN is defined already"),
        ("move 1 2", 1, 1, "'move' is no statement"),
        ("subleq 1 2\n.size", 2, 1, ".size takes one number"),
        ("subleq 1 2\n.size 1 2", 2, 1, ".size takes one number"),
        ("subleq 1 2\n.size @x", 2, 1, ".size takes one number"),
        ("subleq 1 0 0\n.size 4", 2, 7, "the program has 3 words"),
        ("subleq 1 0 0\n.size 0", 2, 7, "only zeros at its end"),
        ("subleq 1 0 0\n.size -1", 2, 7, "only zeros at its end"),
        (".data 0\n.size 1\n.size 1", 3, 7, "twice"),
        (".data", 1, 1, ".data needs"),
        (".data 1 16", 1, 9, "16 is out of range"),
        (".data -9", 1, 7, "expected -8 to 15"),
        (".data " + "9" * 10000, 1, 7, "out of range"),
        ("subleq 1 $2", 1, 10, "unexpected '\\$'"),
        ("subleq 1 x", 1, 10, "'x' is no operand"),
        ("subleq 1 :", 1, 10, "':' is no operand"),
        ("subleq 1 2 @x:", 1, 1, "followed by nothing"),
        (".data " + "0 " * 14, 1, 33, "too long: SUBLEQ-16 has room for 13"),
        (".data " + "0 " * 11 + "\nsubleq 0 0", 2, 1, "too long"),
        ("@", 1, 1, "unexpected '@'"),
    ],
)
def test_errors_say_where(text, line, column, message):
    with pytest.raises(AssemblyError, match=message) as caught:
        assemble(text, 16)
    assert (caught.value.line, caught.value.column) == (line, column)
    assert str(caught.value).startswith(f"line {line}, column {column}: ")


@settings(derandomize=True, max_examples=300, deadline=None)
@given(st.integers(16, 256), st.data())
def test_words_survive_the_round_trip(n, data):
    words = data.draw(st.lists(st.integers(0, n - 1), max_size=min(n - 3, 30)))
    assert assemble(disassemble(words, n), n) == words


def test_disassembly_names_what_it_can():
    assert disassemble([0, 13, 3, 14, 0, 0, 1], 16) == (
        "@at0:\nsubleq 0 @IN                ; 0: 0 13 3\nsubleq @OUT 0 @at0          ; 3: 14 0 0\n"
        "subleq 1 0 @at0             ; 6: 1\n.size 7\n"
    )


@pytest.mark.parametrize(
    ("words", "last"),
    [
        ([14, 13], "subleq @OUT @IN @at0        ; 0: 14 13\n.size 2\n"),
        ([13], "subleq @IN 0 @at0           ; 0: 13\n.size 1\n"),
        ([9, 13, 3, 14, 9, 6, 9, 9, 0, 0], ".data 0\n"),  # after a jump that is always taken
        ([14, 13, 0, 5], "subleq 5 0 @at0             ; 3: 5\n.size 4\n"),
        ([0, 0, 3] * 4 + [5], ".data 5\n"),  # has no room for an instruction
    ],
)
def test_the_end_of_a_program_is_an_instruction_where_it_gets_there(words, last):
    text = disassemble(words, 16)
    assert text.endswith(last)
    assert assemble(text, 16) == words


def test_disassemble_refuses_what_is_no_program():
    with pytest.raises(ValueError, match="word 0 is 16"):
        disassemble([16], 16)


PIECES = [
    "subleq",
    ".data",
    ".size",
    "@x",
    "@IN",
    "@OUT",
    ":",
    " ",
    "\n",
    ",",
    ";",
    "+1",
    "-",
    "7",
    "300",
    "@",
    "\t",
    "é",
]


@settings(derandomize=True, max_examples=1500, deadline=None)
@given(st.one_of(st.text(max_size=60), st.lists(st.sampled_from(PIECES), max_size=25).map("".join)))
def test_fuzzed_text_is_a_program_or_a_clear_error(text):
    try:
        words = assemble(text, 16)
    except AssemblyError as error:
        place = (error.line, error.column)
        words = []
    else:
        place = (1, 1)
    lines = text.splitlines() or [""]
    assert 1 <= place[0] <= len(lines)
    assert 1 <= place[1] <= len(lines[place[0] - 1]) + 1
    assert len(words) <= 13
    assert assemble(disassemble(words, 16), 16) == words
