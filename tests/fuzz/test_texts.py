"""SUBLEQ programs and inputs, as assembly and as words, given to `emcts subleq`."""

from pathlib import Path
from random import Random

import pytest

from tests.fuzz import FEW_TEXTS, TEXTS
from tests.fuzz.cases import command, pick, run_cases
from tests.fuzz.mutations import ODD_TEXTS, mutated_bytes, mutated_text

PROGRAMS = (
    "@start:\nsubleq @x:@x @IN\nsubleq @OUT @x\nsubleq @x @x @start\n",
    "@start: subleq @OUT @IN @start ; negates\n",
    "subleq 3, -1, @x+1\n@x: .data @x-1 -8 15 @HALT\n",
    "\n ; nothing\n",
)
PIECES = (
    *(
        "subleq",
        ".data",
        "@x",
        "@x:",
        "@IN",
        "@OUT",
        "@HALT",
        ":",
        " ",
        "\n",
        "\r",
        ",",
        ";",
        "+1",
        "-",
        "-1",
    ),
    *(
        "7",
        "300",
        "9" * 5000,
        "@",
        "\t",
        "é",
        "\x00",
        "\u2028",
        "\x85",
        "@x+@x",
        "subleq 1 2\n",
        ".data 0 " * 5,
    ),
)
WORDS = ("14 13", "0 13 3 14 0 6 0 0 0", "9,13,3,14,9,6,9,9,0", "")
NUMBERS = (
    *map(str, range(17)),
    "-1",
    " ",
    ",",
    "x",
    "1.5",
    "\u0663",
    "1_0",
    "99999999999999999999",
    "é",
    "\n",
    "\x00",
)
INPUTS = ("5 6 7", "5,6,7", "-3")
FLAGS = (
    *(["--word-size", size] for size in ("16", "32", "100", "256", "8", "257", "0", "-1", "x", "")),
    *(["--max-cycles", cycles] for cycles in ("0", "1", "50", "-1", "x")),
    *(["--task", task] for task in ("negate", "identity", "negat", "")),
    *(["--trace"], ["--signed"], ["--no-signed"], ["--nothing"], ["--inputs"], ["--help"]),
)


def case(draw: Random) -> None:
    action = pick(draw, {"assemble": 3, "run": 4, "run words": 3, "disassemble": 2})
    if action in ("assemble", "run"):
        text = mutated_text(draw.choice(PROGRAMS), draw, PIECES).encode(errors="surrogatepass")
        text = mutated_bytes(text, draw) if draw.random() < 0.2 else text
        where = draw.choice(("-", "program.asm"))
        Path("program.asm").write_bytes(text)
        arguments = [action, where]
    else:
        text = b""
        arguments = [action.partition(" ")[0], mutated_text(draw.choice(WORDS), draw, NUMBERS)]
    if action.startswith("run") and draw.random() < 0.7:
        inputs = [mutated_text(draw.choice(INPUTS), draw, NUMBERS) for _ in range(draw.randrange(1, 3))]
        arguments += ["--inputs", *inputs]
    for _ in range(draw.choice((0, 0, 1, 2))):
        arguments += draw.choice(FLAGS)
    if draw.random() < 0.05:
        arguments.insert(draw.randrange(1, len(arguments) + 1), draw.choice(ODD_TEXTS))
    code, out, _ = command("subleq", *arguments, text=text)
    if code == 0 and action == "assemble" and out.strip() and "usage" not in out:
        size = [arguments[at + 1] for at, one in enumerate(arguments[:-1]) if one == "--word-size"]
        flags = ["--word-size", size[-1]] if size else []
        assert command("subleq", "disassemble", out, *flags)[0] == 0, (text, out)


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_few_mutated_texts_are_no_traceback() -> None:
    run_cases(case, FEW_TEXTS, "texts")


@pytest.mark.long
def test_no_mutated_text_is_a_traceback() -> None:
    run_cases(case, TEXTS, "many texts")
