"""A SUBLEQ machine written a second time, slowly and straight from the rules, to hold the others against."""


class Outcome:
    """`verdict` is "solved", "failed", "halted" or "running"."""

    def __init__(self) -> None:
        self.outputs: list[int] = []
        self.reads = 0
        self.cycles = 0
        self.verdict = "running"


def run(
    n: int, signed: bool, program: list[int], inputs: list[int], wanted: list[int] | None, cap: int = 200
) -> Outcome:
    memory = dict(enumerate(program))
    outcome = Outcome()
    pc = 0
    while outcome.cycles < cap:
        if pc >= n - 3:
            outcome.verdict = "halted"
            return outcome
        outcome.cycles += 1
        first, second, third = (memory.get(pc + k, 0) for k in (0, 1, 2))
        fresh = None
        if first == n - 3 or second == n - 3:
            fresh = inputs[outcome.reads] if outcome.reads < len(inputs) else 0
            outcome.reads += 1

        def look(address: int, fresh: int | None = fresh) -> int:
            if address == n - 3:
                assert fresh is not None
                return fresh
            return 0 if address in (n - 2, n - 1) else memory.get(address, 0)

        difference = look(first) - look(second)
        remainder = difference
        while remainder < 0:
            remainder += n
        if signed:
            as_number = remainder if remainder < n / 2 else remainder - n
            leap = as_number <= 0
        else:
            leap = difference <= 0
        if first == n - 2:
            outcome.outputs.append(remainder)
            if wanted is not None and outcome.outputs != wanted[: len(outcome.outputs)]:
                outcome.verdict = "failed"
                return outcome
            if wanted is not None and outcome.outputs == wanted:
                outcome.verdict = "solved"
                return outcome
        elif first < n - 3:
            memory[first] = remainder
        pc = third if leap else pc + 3
    if pc >= n - 3:
        outcome.verdict = "halted"
    return outcome
