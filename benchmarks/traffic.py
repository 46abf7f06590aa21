"""Communication between devices in a program: the bytes of every collective, times the loops around it."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr
from jaxtyping import PyTree

# By the primitive's name: whether its operands or its results are sent, before any algorithm's factor.
SENT = {"psum": "invars", "psum_invariant": "invars", "pmax": "invars", "reduce_scatter": "invars"}
RECEIVED = {"all_gather": "outvars", "all_gather_invariant": "outvars"}
COLLECTIVES = SENT | RECEIVED


def traffic(function: Callable[..., PyTree], *arguments: PyTree) -> Counter[str]:
    """Returns the bytes of the collectives of one call, by kind. Of a conditional the larger branch counts."""
    return _in(jax.make_jaxpr(function)(*arguments).jaxpr)


def _in(jaxpr: Jaxpr) -> Counter[str]:
    total: Counter[str] = Counter()
    for equation in jaxpr.eqns:
        name = equation.primitive.name
        if name in COLLECTIVES:
            total[name] += sum(_num_bytes(variable.aval) for variable in getattr(equation, COLLECTIVES[name]))
            continue
        inner = [_in(program) for program in _programs(equation.params)]
        if name == "cond" and inner:
            inner = [max(inner, key=lambda counts: counts.total())]
        times = equation.params["length"] if name == "scan" else 1
        for counts in inner:
            total.update({kind: times * number for kind, number in counts.items()})
    return total


def _programs(parameters: Mapping[str, object]) -> Iterator[Jaxpr]:
    for value in parameters.values():
        for one in value if isinstance(value, tuple | list) else (value,):
            program = one.jaxpr if isinstance(one, ClosedJaxpr) else one
            if isinstance(program, Jaxpr):
                yield program


def _num_bytes(aval: jax.core.ShapedArray) -> int:
    size = int(np.prod(aval.shape))
    return size * (8 if jax.dtypes.issubdtype(aval.dtype, jax.dtypes.prng_key) else aval.dtype.itemsize)
