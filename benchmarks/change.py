"""Compares the time of a training iteration before and after a change: processes of two commits, in turns.

A seed is trained for a while, and its state is given to a process of each commit. These run the parts of an iteration
alternately, each starting from that state. CPU times are of all threads of a process: a busy machine changes them less
than the seconds on the clock, so their ratio is what counts.
"""

import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

PARTS = ("acting", "reanalyse", "updates")
CASES: dict[str, tuple[str, Mapping[str, object]]] = {
    "e-az-rnd": ("e-az", {"env.size": 40, "novelty.kind": "rnd"}),
    "e-az-counts": ("e-az", {"env.size": 40}),
    "e-mz": ("e-mz", {"env.size": 40}),
}
TRAINED, ROUNDS = 500, 5  # environment steps before the measurement, and measurements of each part
SMOKE: Mapping[str, object] = {
    "env.size": 4,
    "search.simulations": 2,
    "model.width": 8,
    "novelty.rnd_width": 8,
    "replay.batch_size": 8,
    "schedule.updates": 2,
}


def child(stored: str, agent: str, changes: str, steps: str) -> None:
    """Trains, if there is no stored state; else runs the parts of an iteration once for every line that comes in."""
    import time

    import jax
    import numpy as np

    from benchmarks.train import Case, parts

    trainer = Case(
        "deep-sea", "default", 1, json.loads(changes), agent=agent, iterations_per_chunk=5
    ).trainer()
    keys = [
        jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)
        for leaf in _leaves(jax.eval_shape(trainer.init))
    ]
    if not Path(stored).exists():
        state, done = trainer.init(), 0
        while done < int(steps):
            state, progress = trainer.advance(state)
            done = progress.env_steps
        numbers = [
            jax.random.key_data(leaf) if key else leaf for leaf, key in zip(_leaves(state), keys, strict=True)
        ]
        np.savez(stored, *map(np.asarray, numbers))
        return
    read = np.load(stored)
    leaves = [
        jax.random.wrap_key_data(read[name]) if key else read[name]
        for name, key in zip(read, keys, strict=True)
    ]
    state = jax.device_put(jax.tree.unflatten(jax.tree.structure(jax.eval_shape(trainer.init)), leaves))
    learner: Any = trainer.learner
    timed = parts(learner)
    batch = jax.block_until_ready(timed.reanalyse(state))
    copy = jax.jit(lambda state: jax.tree.map(lambda leaf: leaf.copy(), state))

    def measure(run: Any, *arguments: Any) -> list[float]:
        clocks = time.process_time(), time.perf_counter()
        jax.block_until_ready(run(*arguments))
        return [1e3 * (time.process_time() - clocks[0]), 1e3 * (time.perf_counter() - clocks[1])]

    def once() -> dict[str, list[float]]:
        first, second = jax.block_until_ready((copy(state), copy(state)))  # which the parts donate
        return {
            "acting": measure(timed.acting, first),
            "reanalyse": measure(timed.reanalyse, state),
            "updates": measure(timed.updates, second, batch),
        }

    once()  # compiles
    print("ready", flush=True)
    for _ in sys.stdin:
        print(json.dumps(once()), flush=True)


def _leaves(tree: Any) -> list[Any]:
    import jax

    return list(jax.tree.leaves(tree))


def measure(
    agent: str, changes: Mapping[str, object], roots: Sequence[Path], steps: int, rounds: int
) -> dict[str, Any]:
    """Returns the median CPU milliseconds of each part, for each of the checkouts; the last one trains."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        command = [str(Path(folder) / "state.npz"), agent, json.dumps(dict(changes)), str(steps)]
        subprocess.run(_python(command), env=_environment(roots[-1]), check=True)
        processes = [stack.enter_context(_process(root, command)) for root in roots]
        found: list[list[dict[str, list[float]]]] = [[] for _ in roots]
        for process in processes:
            _answer(process)
        for _ in range(rounds):
            for of_root, process in zip(found, processes, strict=True):
                print("go", file=process.stdin, flush=True)
                of_root.append(json.loads(_answer(process)))
    names = ("before", "after")
    return {
        f"{part}_{clock}_{name}": statistics.median(one[part][number] for one in of_root)
        for part in PARTS
        for number, clock in enumerate(("cpu_ms", "clock_ms"))
        for name, of_root in zip(names, found, strict=True)
    }


def _python(command: Sequence[str]) -> list[str]:
    return [sys.executable, str(Path(__file__).resolve()), *command]


def _environment(root: Path) -> dict[str, str]:
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(root / "src"), str(root)]),
        "JAX_PLATFORMS": "cpu",
    }


@contextlib.contextmanager
def _process(root: Path, command: Sequence[str]) -> "Iterator[subprocess.Popen[str]]":
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(_python(command), env=_environment(root), **pipes) as process:
        try:
            yield process
        finally:
            if process.stdin is not None:
                process.stdin.close()


def _answer(process: "subprocess.Popen[str]") -> str:
    line = process.stdout.readline() if process.stdout is not None else ""
    if not line:
        raise RuntimeError(f"a process ended with {process.wait()}: its error is above")
    return line


@contextlib.contextmanager
def checkout(commit: str) -> Iterator[Path]:
    """Unpacks the package and the benchmarks of a commit into a folder."""
    root = Path(__file__).parents[1]
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder) / "files.tar"
        pack = ["git", "archive", "--output", str(archive), commit, "src", "benchmarks"]
        subprocess.run(pack, cwd=root, check=True)
        subprocess.run(["tar", "-x", "-f", str(archive), "-C", folder], check=True)
        yield Path(folder)


def main(*, since: str, rows: Sequence[str] = (), smoke: bool = False, out: Path | None = None) -> None:
    """Prints the times of an iteration, and writes them; see `emcts bench change --help`."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    from benchmarks.machine import provenance

    unknown = set(rows) - set(CASES)
    if unknown:
        raise ValueError(f"rows {sorted(unknown)} do not exist: name some of {', '.join(CASES)}")
    steps, rounds = (120, 1) if smoke else (TRAINED, ROUNDS)
    table = Table(title="CPU ms of an iteration", box=box.SIMPLE)
    for column in ("case", "part", "before", "after", "ratio"):
        table.add_column(column, justify="left" if column in ("case", "part") else "right")
    written: list[dict[str, Any]] = []
    with checkout(since) as before:
        for name in rows or CASES:
            agent, changes = CASES[name]
            found = measure(
                agent,
                {**changes, **(SMOKE if smoke else {})},
                (before, Path(__file__).parents[1]),
                steps,
                rounds,
            )
            for when in ("before", "after"):
                found[f"cpu_ms_{when}"] = sum(found[f"{part}_cpu_ms_{when}"] for part in PARTS)
            written.append(
                {"case": name, "agent": agent, "changes": dict(changes), "env_steps": steps, **found}
            )
            for part in (*PARTS, ""):
                old, new = (found[f"{part}_cpu_ms_{when}".lstrip("_")] for when in ("before", "after"))
                table.add_row(name, part or "all", f"{old:,.0f}", f"{new:,.0f}", f"{old / new:.2f}")
            if out is not None:
                made = provenance(f"emcts bench change --since {since}")
                stored = {**made, "since": since, "rounds": rounds, "cases": written}
                out.parent.mkdir(parents=True, exist_ok=True)
                out.write_text(json.dumps(stored, indent=1) + "\n")
    Console().print(table)


if __name__ == "__main__":
    child(*sys.argv[1:])
