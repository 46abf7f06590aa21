"""What a program does: its instructions in words, as they are executed, and a check on examples drawn anew."""

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from emcts.envs.subleq.dialect import Dialect
from emcts.envs.subleq.examples import examples, further_examples
from emcts.envs.subleq.execution import MAX_CYCLES, Step, trace


@dataclass(frozen=True)
class Instruction:
    """An instruction as it was executed, how often, and what it does in words.

    A program may change its own words: an address then has several instructions.
    """

    address: int  # of its first word
    operands: tuple[int, int, int]  # a, b and c
    times: int  # that it was executed so
    effect: str  # in words


@dataclass(frozen=True)
class Check:
    """How many of some tests a program passes, and the inputs of the first that it fails."""

    passed: int  # tests that pass
    tests: int  # all of them
    first_failed: tuple[int, ...] | None  # inputs


def instructions(steps: Iterable[Step], *, word_size: int = 16) -> list[Instruction]:
    """The instructions of a trace, in the order in which each is executed first."""
    dialect = Dialect(word_size)
    counts = Counter((step.address, step.operands) for step in steps)
    return [
        Instruction(address, operands, times, _effect(dialect, address, operands))
        for (address, operands), times in counts.items()
    ]


def changed_words(program: Sequence[int], steps: Iterable[Step]) -> tuple[int, ...]:
    """The addresses of the program's own words that differ from what was written at some time of a trace."""
    changed = {
        address
        for step in steps
        for address, (word, now) in enumerate(zip(program, step.memory, strict=False))
        if word != now
    }
    return tuple(sorted(changed))


def _effect(dialect: Dialect, address: int, operands: tuple[int, int, int]) -> str:
    """What an instruction does in words: what it computes, where the result goes, and where the program goes on."""
    a, b, target = operands
    named = f"word {a}" if a < dialect.in_address else None
    if a == b:
        result = "0"
    else:
        minuend, subtrahend = (_value(dialect, operand) for operand in (a, b))
        result = f"-{subtrahend}" if minuend == "0" else minuend
        if subtrahend != "0" and minuend != "0":
            result = f"{minuend} - {subtrahend}"
        result = "0" if result == "-0" else result
    reads = "read an input; " if a == b == dialect.in_address else ""
    if named is not None:
        what = f"{named} = {result}"
    else:
        what = f"write {result}" if a == dialect.out_address else f"compute {result}"
    return f"{reads}{what}{_continuation(dialect, address, target, always=result == '0')}"


def _value(dialect: Dialect, operand: int) -> str:
    if operand == dialect.in_address:
        return "input"
    return f"word {operand}" if operand < dialect.in_address else "0"


def _continuation(dialect: Dialect, address: int, target: int, *, always: bool) -> str:
    following = min(address + 3, dialect.in_address)
    if min(target, dialect.in_address) == following:
        return "" if following <= dialect.last_start else "; end"
    where = f"go to {target}" if target <= dialect.last_start else "end"
    return f"; {where}" if always else f"; {where} if the result is at most 0"


def trace_test(
    program: Iterable[object],
    inputs: Sequence[int],
    outputs: Sequence[int],
    *,
    word_size: int = 16,
    signed: bool = False,
) -> Iterator[Step]:
    """The instructions of a test: up to the last wanted output, the first wrong one, the end or 200 instructions."""
    wanted = deque(Dialect(word_size, signed).values(outputs))
    for step in trace(program, inputs, word_size=word_size, max_cycles=MAX_CYCLES, signed=signed):
        yield step
        if step.output is not None and (step.output != wanted.popleft() or not wanted):
            return


def passes(
    program: Iterable[object],
    inputs: Sequence[int],
    outputs: Sequence[int],
    *,
    word_size: int = 16,
    signed: bool = False,
) -> bool:
    """Whether a program writes the wanted outputs before any other, within 200 instructions."""
    steps = trace_test(program, inputs, outputs, word_size=word_size, signed=signed)
    written = [step.output for step in steps if step.output is not None]
    return tuple(written) == Dialect(word_size, signed).values(outputs)


def check(
    program: Sequence[int],
    task: str,
    *,
    further: int | None = None,
    seed: int = 0,
    word_size: int = 16,
    signed: bool = False,
) -> Check:
    """Runs a program on the tests of a task, or on so many `further` ones, drawn from the same distribution.

    Another `seed` draws others. None of them is part of the task.
    """
    tests = examples(task, word_size) if further is None else further_examples(task, word_size, further, seed)
    failed = [
        inputs
        for inputs, outputs in tests
        if not passes(program, inputs, outputs, word_size=word_size, signed=signed)
    ]
    return Check(len(tests) - len(failed), len(tests), failed[0] if failed else None)
