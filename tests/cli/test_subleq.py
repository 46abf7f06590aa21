import io

import pytest

from emcts.cli import main

IDENTITY = "@start:\nsubleq @x:@x @IN\nsubleq @OUT @x\nsubleq @x @x @start\n"


def printed(capsys, *arguments):
    main(["subleq", *arguments])
    return capsys.readouterr().out


def test_run_prints_what_a_program_writes(capsys):
    out = printed(capsys, "run", "14 13 15", "--inputs", "3")
    assert out == "inputs  3\noutputs 13\nhalted after 1 instructions, 1 inputs read\n"


@pytest.mark.parametrize("inputs", [["5 6 7"], ["5,6,7"], ["5", "6", "7"]])
def test_inputs_are_one_word_or_several(capsys: pytest.CaptureFixture[str], inputs: list[str]) -> None:
    assert printed(capsys, "run", "14 13", "--inputs", *inputs).startswith("inputs  5 6 7\n")


def test_run_takes_assembly_from_a_file(capsys, tmp_path):
    file = tmp_path / "identity.asm"
    file.write_text(IDENTITY)
    out = printed(capsys, "run", str(file), "--inputs", "5", "-3", "--max-cycles", "6", "--word-size", "32")
    assert "outputs 5 29\n" in out
    assert "still running after 6 instructions" in out


def test_trace_shows_each_instruction_with_memory_and_output(capsys):
    lines = printed(capsys, "run", "0,13,3,14,0,15", "--inputs", "5", "--trace").splitlines()
    assert " ".join(lines[0].split()) == "0: 0 13 3 read 5 -> 3 | 11 13 3 14 0 15" + " 0" * 10
    assert lines[1].split()[4:8] == ["write", "5", "->", "15"]
    assert len(lines) == 5


def test_run_says_whether_a_task_is_solved(capsys):
    assert "\nsolves negate\n" in printed(capsys, "run", "14 13", "--task", "negate")
    assert "\ndoes not solve identity\n" in printed(capsys, "run", "14 13", "--task", "identity")


def test_assemble_and_disassemble_undo_each_other(capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO(IDENTITY))
    words = printed(capsys, "assemble", "-")
    assert words == "0 13 3 14 0 6 0 0 0\n"
    monkeypatch.setattr("sys.stdin", io.StringIO(printed(capsys, "disassemble", words)))
    assert printed(capsys, "assemble", "-") == words


def test_enumerate_lists_every_solution(capsys):
    main(["subleq", "enumerate", "negate-positives", "--words", "2"])
    captured = capsys.readouterr()
    lines = captured.out.splitlines()
    assert lines == ["14 13"]
    assert "1 solutions" in captured.err


def test_tasks_lists_them_all(capsys):
    out = printed(capsys, "tasks")
    assert "identity" in out
    assert "0 13 3 14 0 6" in out
    assert "none known" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "14 16"], "word 1 is 16: the words of SUBLEQ-16 are 0 to 15"),
        (["run", "14 13", "--inputs", "20"], "input 0 is 20"),
        (["run", "14 13", "--inputs", "5 x"], "'5 x' is no list of inputs"),
        (["run", "no-such-file"], "'no-such-file' is neither a file nor a list of words"),
        (["run", "14 13", "--task", "negat"], "did you mean 'negate'"),
        (["run", "14 13", "--inputs", "5", "--task", "negat"], "did you mean 'negate'"),
        (["run", "14", "--word-size", "8"], "word_size 8 is out of range"),
        (["disassemble", "0 " * 14], "14 words is too long"),
        (["assemble", "no-such-file"], "No such file"),
        (["enumerate", "identiti", "--words", "2"], "did you mean 'identity'"),
        (["enumerate", "identity", "--words", "1000000000"], "cannot enumerate programs of 1000000000 words"),
        (["tasks", "--word-size", "500"], "word_size 500 is out of range"),
    ],
)
def test_bad_input_exits_2_with_one_line(capsys, arguments, message):
    with pytest.raises(SystemExit) as caught:
        main(["subleq", *arguments])
    captured = capsys.readouterr()
    assert caught.value.code == 2
    assert message in captured.err
    assert len(captured.err.strip().splitlines()) == 1
    assert captured.out == ""


def test_malformed_assembly_exits_2_and_says_where(capsys, tmp_path):
    file = tmp_path / "bad.asm"
    file.write_text("subleq @x:@x @IN\n  subleq @OUT\n")
    with pytest.raises(SystemExit) as caught:
        main(["subleq", "assemble", str(file)])
    assert caught.value.code == 2
    assert capsys.readouterr().err == "emcts: line 2, column 3: subleq takes 2 or 3 operands, not 1\n"
