"""Programs executed in plain Python, for people: no limit on the length of input and output."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from emcts.envs.subleq.dialect import Dialect

MAX_CYCLES = 200


@dataclass(frozen=True)
class Step:
    """One instruction as it was executed, and the memory after it."""

    address: int
    operands: tuple[int, int, int]
    word: int  # the result modulo N
    read: int | None  # the input taken, None if IN was not named
    output: int | None  # the word sent to OUT, if any
    next_address: int
    memory: tuple[int, ...]


@dataclass(frozen=True)
class Execution:
    """The result of a program: `halted` is False if it was still running after `max_cycles` instructions."""

    outputs: list[int]  # the words that were written to OUT
    inputs_read: int  # how many inputs were read
    cycles: int  # instructions that were executed
    halted: bool  # whether the program ended by itself


def execute(
    program: Iterable[object],
    inputs: Iterable[object],
    *,
    word_size: int = 16,
    max_cycles: int = MAX_CYCLES,
    signed: bool = False,
) -> Execution:
    """Runs a program until it halts or has executed `max_cycles` instructions. Outputs are words."""
    dialect = Dialect(word_size, signed)
    program, inputs = dialect.program(program), dialect.values(inputs)
    outputs: list[int] = []
    cycles, reads, halted = 0, 0, False
    for step in trace(program, inputs, word_size=word_size, max_cycles=max_cycles, signed=signed):
        if step.output is not None:
            outputs.append(step.output)
        cycles, reads = cycles + 1, reads + (step.read is not None)
        halted = step.next_address > dialect.last_start
    return Execution(outputs, min(reads, len(inputs)), cycles, halted)


def trace(
    program: Iterable[object],
    inputs: Iterable[object],
    *,
    word_size: int = 16,
    max_cycles: int = MAX_CYCLES,
    signed: bool = False,
) -> Iterator[Step]:
    """The instructions that a program executes, one by one."""
    dialect = Dialect(word_size, signed)
    if max_cycles < 0:
        raise ValueError(f"max_cycles is {max_cycles}: expected 0 or more")
    written = dialect.program(program)
    memory = [*written, *[0] * (word_size - len(written))]
    waiting = list(dialect.values(inputs))
    address = 0
    for _ in range(max_cycles):
        if address > dialect.last_start:
            return
        step = _step(dialect, memory, waiting, address)
        yield step
        address = step.next_address


def _step(dialect: Dialect, memory: list[int], waiting: list[int], address: int) -> Step:
    """Executes one instruction in place. The words at IN, OUT and HALT stay 0, as OUT and HALT read."""
    a, b, c = memory[address : address + 3]
    read = None
    if dialect.in_address in (a, b):
        read = waiting.pop(0) if waiting else 0
    minuend = memory[a] if a != dialect.in_address or read is None else read
    subtrahend = memory[b] if b != dialect.in_address or read is None else read
    result = minuend - subtrahend
    word = result % dialect.word_size
    if a < dialect.in_address:
        memory[a] = word
    return Step(
        address=address,
        operands=(a, b, c),
        word=word,
        read=read,
        output=word if a == dialect.out_address else None,
        next_address=c if dialect.jumps(result) else address + 3,
        memory=tuple(memory),
    )
