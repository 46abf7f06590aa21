"""Executors of sweeps, by the names of the option --on."""

from collections.abc import Callable
from contextlib import AbstractContextManager

from emcts.experiments.executors.executor import Executor, ExecutorOptions
from emcts.experiments.executors.local import make_local
from emcts.experiments.executors.ray import make_ray
from emcts.registry import lookup
from emcts.runs.logging.loggers import check_loggers

EXECUTORS: dict[str, Callable[[ExecutorOptions], AbstractContextManager[Executor]]] = {
    "local": make_local,
    "ray": make_ray,
}


def make_executor(options: ExecutorOptions) -> AbstractContextManager[Executor]:
    """Returns the executor that the options name, to use as a context."""
    check_loggers(options.loggers)
    return lookup(EXECUTORS, options.on, "executor for --on")(options)
