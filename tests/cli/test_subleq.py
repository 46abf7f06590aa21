import io

import pytest

from emcts.cli import main
from emcts.runs.config import Config
from emcts.runs.folder import Folder

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
        (["explain", "14 13"], "give --task, or --inputs such as 5 6 7"),
        (["explain", "14 13", "--task", "negat"], "did you mean 'negate'"),
        (["explain", "14 13", "--task", "negate", "--further", "0"], "0 further examples: give at least 1"),
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


def test_explain_describes_traces_and_checks_a_program(capsys):
    lines = printed(capsys, "explain", "14 13 0", "--task", "negate", "--further", "50").splitlines()
    assert lines[0] == "program 14 13 0: 3 words of SUBLEQ-16"
    assert any("write -input; go to 0 if the result is at most 0" in line for line in lines)
    assert lines[-3:] == [
        "task negate: -a",
        "shown example and hidden tests: passes 8 of 8",
        "further examples: passes 50 of 50",
    ]


def test_explain_names_the_first_failure(capsys):
    out = printed(capsys, "explain", "14 13", "--task", "identity", "--further", "50")
    assert "; fails on " in out.splitlines()[-1]


def test_explain_traces_given_inputs_without_a_task(capsys):
    out = printed(capsys, "explain", "30 29 31", "--inputs", "3", "--word-size", "32")
    assert out.endswith("outputs 29\n")
    assert "task" not in out


def test_explain_takes_the_shortest_program_of_a_run(capsys, tmp_path):
    env = {"task": "negate", "word_size": 32, "max_words": 5, "signed": False}
    config = Config("subleq", "e-az", None, (0, 1), {"env": env})
    folder = Folder.create(tmp_path / "run", config, {})
    programs = [(0, 10, [30, 29, 0, 1]), (1, 30, [30, 29]), (0, 20, [30, 29])]
    folder.artifacts.append(
        {"seed": seed, "env_steps": step, "data": {"words": words}, "text": "", "suffix": ".asm"}
        for seed, step, words in programs
    )
    out = printed(capsys, "explain", str(folder.path), "--further", "10")
    assert out.startswith(
        "found by seed 0 at step 20, the shortest of 3\nprogram 30 29: 2 words of SUBLEQ-32\n"
    )
    assert out.endswith("further examples: passes 10 of 10\n")


def test_explain_of_a_run_without_programs_says_so(capsys, tmp_path):
    config = Config("subleq", "e-az", None, (0,), {"env": {}})
    Folder.create(tmp_path / "run", config, {})
    with pytest.raises(SystemExit) as caught:
        main(["subleq", "explain", str(tmp_path / "run")])
    assert caught.value.code == 2
    assert "has found no program yet" in capsys.readouterr().err
