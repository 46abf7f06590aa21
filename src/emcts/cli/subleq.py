"""`emcts subleq`: run, write, read and enumerate SUBLEQ programs."""

import sys
import time
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table
from tyro.conf import Positional

from emcts.envs import subleq
from emcts.envs.subleq.execution import MAX_CYCLES, Step
from emcts.registry import lookup


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
    "assemble": assemble,
    "disassemble": disassemble,
    "enumerate": enumerate_programs,
    "tasks": tasks,
}
