"""Tasks for programs: functions from inputs to outputs, by name.

A task is defined on one group of inputs (a value, a pair, a list that ends with 0), and a program computes it for
group after group. Numbers are plain integers here; a machine reads them modulo N.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from emcts.registry import lookup

Group = Sequence[int]
Accepts = Callable[[Group], bool]
LIST = 0  # the size of a group that ends with its first 0


def _anything(group: Group) -> bool:
    return True


@dataclass(frozen=True)
class SubleqTask:
    """`function` gives the outputs for one group of `group_size` inputs; `accepts` is True where it is defined."""

    name: str  # as in `Subleq(name)`
    summary: str  # one line for people
    group_size: int  # inputs of a group; a list has `LIST`
    function: Callable[[Group], list[int]]  # the outputs of a group
    accepts: Accepts = _anything  # the groups for which it is defined

    def groups(self, inputs: Sequence[int]) -> list[Group]:
        """The inputs, group by group. An unfinished last group is left out."""
        if self.group_size != LIST:
            whole = len(inputs) - len(inputs) % self.group_size
            return [inputs[i : i + self.group_size] for i in range(0, whole, self.group_size)]
        ends = [i for i, value in enumerate(inputs) if value == 0]
        starts = [0, *(end + 1 for end in ends)]
        return [inputs[start:end] for start, end in zip(starts, ends, strict=False)]

    def outputs(self, inputs: Sequence[int]) -> list[int]:
        """The outputs that a program should write for these inputs."""
        return [output for group in self.groups(inputs) for output in self.function(group)]


def task(name: str) -> SubleqTask:
    """The task of this name. An unknown name raises a ValueError."""
    return lookup(TASKS, name, "task")


def _sign(value: int) -> int:
    return (value > 0) - (value < 0)


def _divides(pair: Group) -> bool:
    return pair[1] != 0 and pair[0] % pair[1] == 0


def _each(
    name: str, summary: str, function: Callable[[int], int], accepts: Accepts = _anything
) -> SubleqTask:
    return SubleqTask(name, summary, 1, lambda group: [function(group[0])], accepts)


def _pair(
    name: str, summary: str, function: Callable[[int, int], int], accepts: Accepts = _anything
) -> SubleqTask:
    return SubleqTask(name, summary, 2, lambda group: [function(*group)], accepts)


def _sort(size: int) -> SubleqTask:
    return SubleqTask(f"sort-{size}", f"{size} values, smallest first", size, sorted)


_ALL = (
    _each("negate-positives", "-a, for a > 0", lambda a: -a, accepts=lambda group: group[0] > 0),
    _each("negate", "-a", lambda a: -a),
    _each("identity", "a", lambda a: a),
    _pair("add", "a + b", lambda a, b: a + b),
    _pair("subtract", "a - b", lambda a, b: a - b),
    _pair("maximum", "the larger of a and b", max),
    _pair("minimum", "the smaller of a and b", min),
    _pair("compare", "the sign of a - b: -1, 0 or 1", lambda a, b: _sign(a - b)),
    _each("sign", "-1, 0 or 1", _sign),
    _each("absolute", "a without its sign", abs),
    _each("double", "2a", lambda a: 2 * a),
    _each("halve", "a / 2, for even a", lambda a: a // 2, accepts=lambda group: group[0] % 2 == 0),
    _pair("multiply", "a * b", lambda a, b: a * b),
    _pair("divide", "a / b, where the quotient is whole", lambda a, b: a // b, accepts=_divides),
    SubleqTask("sum", "the sum of a list that ends with 0", LIST, lambda group: [sum(group)]),
    SubleqTask(
        "reverse", "a list that ends with 0, last value first, without the 0", LIST, lambda g: list(g[::-1])
    ),
    _sort(2),
    _sort(3),
    _sort(4),
    SubleqTask("copy", "a list up to its first 0, without the 0", LIST, list),
)

TASKS: dict[str, SubleqTask] = {each.name: each for each in _ALL}  # every task, by its name
