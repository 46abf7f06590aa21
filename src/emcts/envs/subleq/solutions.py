"""Programs that are known to solve a task, as assembly for every word size with room for them.

Most use word 0, the first operand of the first instruction, as their variable: memory after the program is 0,
and `subleq 0 0 0` clears it and starts again.
"""

from dataclasses import dataclass

from emcts.envs.subleq.assembly import assemble
from emcts.envs.subleq.tasks import task as task_named


@dataclass(frozen=True)
class Solution:
    """A program for one or both of the semantics, from some word size on."""

    text: str
    unsigned: bool = True
    signed: bool = True
    smallest_word_size: int = 16


def known_solution(task: str, *, word_size: int = 16, signed: bool = False) -> list[int] | None:
    """The shortest program in this module that solves a task, or None if there is none."""
    for solution in SOLUTIONS.get(task_named(task).name, ()):
        applies = solution.signed if signed else solution.unsigned
        if applies and word_size >= solution.smallest_word_size:
            return assemble(solution.text, word_size)
    return None


NEGATE = "subleq @OUT @IN 0"

NEGATE_SIGNED = """
@start:
subleq @OUT @IN @start   ; jumps for inputs from 0 on
.data 7                  ; for others: subleq 7 0 0, then subleq 0 (an even address that holds 0) 0
"""

IDENTITY = """
subleq @x:0 @IN
subleq @OUT @x
"""

ADD = """
subleq @x:0 @IN
subleq @x @IN
subleq @OUT @x
"""

SUBTRACT = """
subleq @x:0 @IN     ; x = -a
subleq @y @IN       ; y = -b
subleq @x @y        ; x = b - a
subleq @OUT @x
subleq @y @y
@y:
"""

DOUBLE = """
subleq @x:0 @IN     ; x = -a
subleq @y @x        ; y = a
subleq @x @y        ; x = -2a
subleq @OUT @x
subleq @y @y
@y:
"""

ABSOLUTE = """
@start:
subleq @x @IN @positive   ; x = -a
subleq @y @x              ; y = a
subleq @OUT @y
subleq @y @y @clear
@positive:
subleq @OUT @x
@clear:
subleq @x @x @start
@x: .data 0
@y:
"""

SIGN = """
@start:
subleq @x @IN @not_negative
subleq @OUT @one
subleq @x @x @start
@not_negative:
subleq @y @x @is_zero     ; y = a
subleq @OUT @minus_one
subleq @y @y
subleq @x @x @start
@is_zero:
subleq @OUT @x @start
@one: .data 1
@minus_one: .data -1
@x: .data 0
@y:
"""

COPY = """
subleq @x:0 @IN
subleq @x @zero @zero:0   ; goes back to the start if x is 0
subleq @OUT @x
"""

SUM = """
@start:
subleq @x @IN
subleq @x @zero @end
subleq @sum @x
subleq @x @x @start
@end:
subleq @y @sum
subleq @OUT @y
subleq @y @y
subleq @sum @sum @zero:@start
@x: .data 0
@sum: .data 0
@y:
"""

SOLUTIONS: dict[str, tuple[Solution, ...]] = {
    "negate-positives": (Solution(NEGATE),),
    "negate": (Solution(NEGATE, signed=False), Solution(NEGATE_SIGNED, unsigned=False)),
    "identity": (Solution(IDENTITY),),
    "add": (Solution(ADD),),
    "subtract": (Solution(SUBTRACT, smallest_word_size=19),),
    "double": (Solution(DOUBLE, smallest_word_size=19),),
    "absolute": (Solution(ABSOLUTE, unsigned=False, smallest_word_size=23),),
    "sign": (Solution(SIGN, unsigned=False, smallest_word_size=31),),
    "copy": (Solution(COPY, signed=False),),
    "sum": (Solution(SUM, signed=False, smallest_word_size=30),),
}
