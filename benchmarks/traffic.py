"""What devices tell each other in a program: the bytes of every collective, times the loops around it."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

# By the primitive's name: whether its operands or its results are what travels, before any algorithm's factor.
SENT = {"psum": "invars", "psum_invariant": "invars", "pmax": "invars", "reduce_scatter": "invars"}
RECEIVED = {"all_gather": "outvars", "all_gather_invariant": "outvars"}
COLLECTIVES = SENT | RECEIVED


def traffic(function: Any, *arguments: Any) -> Counter[str]:
    """Bytes that pass through collectives when it runs once, by kind. Of a branch the busier side counts."""
    return _in(jax.make_jaxpr(function)(*arguments).jaxpr)


def _in(jaxpr: Any) -> Counter[str]:
    total: Counter[str] = Counter()
    for equation in jaxpr.eqns:
        name = equation.primitive.name
        if name in COLLECTIVES:
            total[name] += sum(_bytes(variable.aval) for variable in getattr(equation, COLLECTIVES[name]))
            continue
        inner = [_in(program) for program in _programs(equation.params)]
        if name == "cond" and inner:
            inner = [max(inner, key=lambda counts: counts.total())]
        times = equation.params["length"] if name == "scan" else 1
        for counts in inner:
            total.update({kind: times * number for kind, number in counts.items()})
    return total


def _programs(parameters: dict[str, Any]) -> Iterator[Any]:
    for value in parameters.values():
        for one in value if isinstance(value, tuple | list) else (value,):
            program = getattr(one, "jaxpr", one)
            if hasattr(program, "eqns"):
                yield program


def _bytes(aval: Any) -> int:
    size = int(np.prod(aval.shape))
    return size * (8 if jax.dtypes.issubdtype(aval.dtype, jax.dtypes.prng_key) else aval.dtype.itemsize)
