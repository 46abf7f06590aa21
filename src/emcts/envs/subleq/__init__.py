"""SUBLEQ: programs for a machine with one instruction, written one word at a time."""

from emcts.envs.subleq.execution import Execution, execute, trace

__all__ = ["Execution", "execute", "trace"]
