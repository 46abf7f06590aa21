"""GFLOP per second of CPU time of the matrix products in an update of RND: `python -m benchmarks.products FILE.csv`."""

import csv
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp

from benchmarks.machine import provenance

SIZES = ((1640, 1024, 1024), (512, 1024, 1024), (256, 1024, 1024), (512, 1024, 512), (256, 256, 256))
PRODUCTS: dict[str, Callable[[jax.Array, jax.Array, jax.Array], jax.Array]] = {
    "forwards": lambda x, weight, after: x @ weight.T,
    "gradient of the input": lambda x, weight, after: after @ weight,
    "gradient of the weight": lambda x, weight, after: after.T @ x,
}
ROUNDS = 8


def main(path: Path) -> None:
    """Writes a row for each product of each size."""
    rows = []
    for size in SIZES:
        count, inputs, outputs = size
        x, weight, after = (
            jnp.ones(shape) for shape in ((count, inputs), (outputs, inputs), (count, outputs))
        )
        for name, product in PRODUCTS.items():
            run = jax.jit(product)
            jax.block_until_ready(run(x, weight, after))
            took = []
            for _ in range(ROUNDS):
                start = time.process_time()
                jax.block_until_ready(run(x, weight, after))
                took.append(time.process_time() - start)
            gflops = 2e-9 * count * inputs * outputs / statistics.median(took)
            made = provenance("python -m benchmarks.products")
            rows.append(
                {
                    "rows": count,
                    "inputs": inputs,
                    "outputs": outputs,
                    "product": name,
                    "gflop_per_cpu_second": round(gflops, 1),
                    **made,
                }
            )
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
