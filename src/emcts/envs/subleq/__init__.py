"""SUBLEQ: programs for a machine with one instruction, written one word at a time."""

from emcts.envs.subleq.assembly import AssemblyError, assemble, disassemble
from emcts.envs.subleq.enumeration import enumerate_solutions, solves
from emcts.envs.subleq.env import (
    State,
    Subleq,
    behaviour,
    behaviour_and_program,
    behaviour_on_examples,
    binary,
    first_results,
    length,
    one_hot,
    shortest,
    solved,
)
from emcts.envs.subleq.examples import examples, further_examples
from emcts.envs.subleq.execution import Execution, execute, trace
from emcts.envs.subleq.explanation import (
    Check,
    Instruction,
    changed_words,
    check,
    instructions,
    passes,
    trace_test,
)
from emcts.envs.subleq.solutions import known_solution
from emcts.envs.subleq.tasks import TASKS, SubleqTask

__all__ = [
    "TASKS",
    "AssemblyError",
    "Check",
    "Execution",
    "Instruction",
    "State",
    "Subleq",
    "SubleqTask",
    "assemble",
    "behaviour",
    "behaviour_and_program",
    "behaviour_on_examples",
    "binary",
    "changed_words",
    "check",
    "disassemble",
    "enumerate_solutions",
    "examples",
    "execute",
    "first_results",
    "further_examples",
    "instructions",
    "known_solution",
    "length",
    "one_hot",
    "passes",
    "shortest",
    "solved",
    "solves",
    "trace",
    "trace_test",
]
