"""`emcts subleq`: run, explain, write, read and enumerate SUBLEQ programs."""

import sys
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table
from tyro.conf import Positional

from emcts.envs import subleq
from emcts.envs.subleq.execution import MAX_CYCLES, Step
from emcts.registry import lookup
from emcts.runs.folder import Folder


def run(
    program: Positional[str],
    /,
    *,
    inputs: tuple[str, ...] = (),
    task: str | None = None,
    trace: bool = False,
    max_cycles: int = MAX_CYCLES,
    word_size: int = 16,
    signed: bool = False,
) -> None:
    """Runs a program and prints its output.

    Args:
        program: words such as "14 13", or a file of assembly, or - for assembly on standard input.
        inputs: numbers to read, such as 5 6 7 or "5,6,7"; a negative one stands for itself modulo N.
        task: also print whether the program solves this task; without inputs, run it on the task's example.
        trace: show each instruction with the memory after it.
        max_cycles: stop after so many instructions.
        word_size: N, the number of words of memory.
        signed: jump if the stored word is at most 0 as two's complement, not if the result before modulo is.
    """
    words = _words(program, word_size)
    numbers = tuple(_numbers(" ".join(inputs), "no list of inputs such as '5 6 7'"))
    if task is not None:
        lookup(subleq.TASKS, task, "task")
        numbers = numbers or subleq.examples(task, word_size)[0][0]
    execution = subleq.execute(words, numbers, word_size=word_size, max_cycles=max_cycles, signed=signed)
    if trace:
        steps = subleq.trace(words, numbers, word_size=word_size, max_cycles=max_cycles, signed=signed)
        print(*map(_line, steps), sep="\n")
    print("inputs ", *numbers)
    print("outputs", *execution.outputs)
    if task is not None:
        print("wanted ", *(value % word_size for value in subleq.TASKS[task].outputs(numbers)))
    end = "halted" if execution.halted else "stopped: still running"
    print(f"{end} after {execution.cycles} instructions, {execution.inputs_read} inputs read")
    if task is not None:
        solved = subleq.solves(words, task, word_size=word_size, signed=signed)
        print(f"{'solves' if solved else 'does not solve'} {task}")


def explain(
    program: Positional[str],
    /,
    *,
    task: str | None = None,
    inputs: tuple[str, ...] = (),
    further: int = 1000,
    key: int = 0,
    word_size: int = 16,
    signed: bool = False,
) -> None:
    """Explains a program: its assembly, each instruction in words, a trace, and a check against a task.

    Args:
        program: words such as "14 13", a file of assembly, or a run of subleq: then the shortest program that it found.
        task: the task that the program is checked against; of a run, its own.
        inputs: numbers to read in the trace; left out, those of the task's shown example.
        further: check on so many further examples, which are no part of the task.
        key: another number draws other further examples.
        word_size: N, the number of words of memory; of a run, its own.
        signed: the other semantics, as in `run`; of a run, its own.
    """
    found = _found(Path(program)) if Path(program).is_dir() else None
    if found is not None:
        task, word_size, signed = task or found.task, found.word_size, found.signed
    words = list(found.words) if found is not None else _words(program, word_size)
    numbers = tuple(_numbers(" ".join(inputs), "no list of inputs such as '5 6 7'"))
    if task is not None:
        lookup(subleq.TASKS, task, "task")
        numbers = numbers or subleq.examples(task, word_size)[0][0]
    if not numbers:
        raise ValueError("nothing to trace the program on: give --task, or --inputs such as 5 6 7")
    checks: dict[str, subleq.Check] = {}
    if task is None:
        steps = list(subleq.trace(words, numbers, word_size=word_size, signed=signed))
    else:
        outputs = subleq.TASKS[task].outputs(numbers)
        steps = list(subleq.trace_test(words, numbers, outputs, word_size=word_size, signed=signed))
        tested = partial(subleq.check, words, task, word_size=word_size, signed=signed)
        checks["shown example and hidden tests"] = tested()
        checks["further examples"] = tested(further=further, seed=key)
    if found is not None:
        print(f"found by seed {found.seed} at step {found.env_steps:,}, the shortest of {found.programs:,}")
    print(f"program {_spaced(words)}: {len(words)} words of SUBLEQ-{word_size}{', signed' if signed else ''}")
    print()
    print(subleq.disassemble(words, word_size))
    _print_steps(words, steps, word_size)
    if task is not None:
        print("wanted ", *(value % word_size for value in outputs))
        print()
        print(f"task {task}: {subleq.TASKS[task].summary}")
    for name, one in checks.items():
        failed = "" if one.first_failed is None else f"; fails on {_spaced(one.first_failed)}"
        print(f"{name}: passes {one.passed:,} of {one.tests:,}{failed}")


def _print_steps(words: list[int], steps: list[Step], word_size: int) -> None:
    print("instructions in the order of their first execution:")
    for one in subleq.instructions(steps, word_size=word_size):
        operands = " ".join(f"{word:>3}" for word in one.operands)
        print(f"{one.address:>3}: {operands}  {one.times:>3} times  {one.effect}")
    print("words that change:", _spaced(subleq.changed_words(words, steps)) or "none")
    print()
    print(*map(_line, steps), sep="\n")
    print("outputs", *(step.output for step in steps if step.output is not None))


@dataclass(frozen=True)
class _Found:
    """The shortest program of a run, and among those the first."""

    words: tuple[int, ...]
    seed: int
    env_steps: int
    programs: int
    task: str
    word_size: int
    signed: bool


def _found(path: Path) -> _Found:
    folder = Folder.open(path)
    config = folder.config()
    if config.environment != "subleq":
        raise ValueError(f"{path} is a run of {config.environment}: give a run of subleq")
    artifacts = folder.artifacts.read()
    if not artifacts:
        raise ValueError(f"{path} has found no program yet")
    words: list[tuple[Any, int]] = [(line["data"]["words"], number) for number, line in enumerate(artifacts)]
    program, number = min(words, key=lambda one: (len(one[0]), artifacts[one[1]]["env_steps"]))
    env: Any = config.settings["env"]
    return _Found(
        words=tuple(program),
        seed=artifacts[number]["seed"],
        env_steps=artifacts[number]["env_steps"],
        programs=len(artifacts),
        task=env["task"],
        word_size=env["word_size"],
        signed=env["signed"],
    )


def assemble(file: Positional[str], /, *, word_size: int = 16) -> None:
    """Prints the words of a program.

    Args:
        file: the assembly, or - for standard input.
        word_size: N, the number of words of memory.
    """
    print(*subleq.assemble(_text(file), word_size))


def disassemble(words: Positional[str], /, *, word_size: int = 16) -> None:
    """Prints words as assembly.

    Args:
        words: the program, such as "14 13 0".
        word_size: N, the number of words of memory.
    """
    print(subleq.disassemble(_numbers(words), word_size), end="")


def enumerate_programs(
    task: Positional[str], /, *, words: int, word_size: int = 16, signed: bool = False
) -> None:
    """Lists every program of up to so many words that solves a task, shortest first.

    Args:
        task: the task's name.
        words: the most words a program may have; zeros at the end do not count.
        word_size: N, the number of words of memory.
        signed: the other semantics, as in `run`.
    """
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    started = time.perf_counter()
    with Progress(*columns, console=console, transient=True) as bar:
        row = bar.add_task(f"{word_size}^{words} programs", total=None)

        def show(done: int, total: int) -> None:
            bar.update(row, completed=done, total=total)

        found = subleq.enumerate_solutions(task, words, word_size=word_size, signed=signed, progress=show)
    seconds = time.perf_counter() - started
    for program in found:
        print(*program)
    speed = word_size**words / seconds / 1e6
    console.print(f"{len(found):,} solutions in {seconds:.1f} s, {speed:.1f} million programs a second")


def tasks(*, word_size: int = 16, signed: bool = False) -> None:
    """Lists the tasks, with an example and a program that solves each, where one is known.

    Args:
        word_size: N, the number of words of memory.
        signed: the other semantics, as in `run`.
    """
    table = Table("task", "outputs", "example", f"known program, N = {word_size}")
    for name, task in subleq.TASKS.items():
        inputs, outputs = subleq.examples(name, word_size)[0]
        program = subleq.known_solution(name, word_size=word_size, signed=signed)
        known = "none known" if program is None else _spaced(program)
        table.add_row(name, task.summary, f"{_spaced(inputs)} -> {_spaced(outputs)}", known)
    Console(width=None if sys.stdout.isatty() else 160).print(table)


def _line(step: Step) -> str:
    operands = " ".join(f"{word:>3}" for word in step.operands)
    happened = "" if step.read is None else f"read {step.read:<4}"
    happened += "" if step.output is None else f"write {step.output:<4}"
    return f"{step.address:>3}: {operands}  {happened:<18} -> {step.next_address:<3} | {_spaced(step.memory)}"


def _spaced(numbers: tuple[int, ...] | list[int]) -> str:
    return " ".join(map(str, numbers))


def _words(program: str, word_size: int) -> list[int]:
    """A program given as words, or as assembly in a file."""
    if program == "-" or Path(program).is_file():
        return subleq.assemble(_text(program), word_size)
    return _numbers(program)


def _numbers(text: str, problem: str = "neither a file nor a list of words such as '14 13 0'") -> list[int]:
    parts = text.replace(",", " ").split()
    try:
        return [int(part) for part in parts]
    except ValueError:
        raise ValueError(f"{text!r} is {problem}") from None


def _text(file: str) -> str:
    return sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")


COMMANDS = {
    "run": run,
    "explain": explain,
    "assemble": assemble,
    "disassemble": disassemble,
    "enumerate": enumerate_programs,
    "tasks": tasks,
}
