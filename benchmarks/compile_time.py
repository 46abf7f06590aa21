"""Times a cold start to the first search, with emcts and with mctx: processes without a cache, in turns.

Each process imports one of the libraries, traces and lowers one jitted search of a tiny model, compiles it and runs it.
CPU times are of the whole process with all threads: a busy machine changes them less than the seconds on the clock.
"""

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

BATCH, ACTIONS, SIMULATIONS, EMBEDDING, CHANCES = 32, 8, 32, 8, 4
POLICIES = {
    "PUCT": "muzero_policy",
    "Gumbel": "gumbel_muzero_policy",
    "Stochastic": "stochastic_muzero_policy",
    "UCT": "uct_policy",  # mctx has none
}
PROCESSES = 5
STAGES = ("imports", "tracing", "compiling", "running")


def pairs() -> list[tuple[str, str]]:
    """Returns each library and policy to time, the libraries in turns."""
    return [(library, policy) for policy in POLICIES for library in ("mctx", "emcts") if has(library, policy)]


def has(library: str, policy: str) -> bool:
    return library == "emcts" or policy != "UCT"


def child(library_name: str, policy: str) -> None:
    """Does what is timed, and prints the seconds of each stage. Nothing that JAX needs is imported before."""
    spawned = float(os.environ["EMCTS_SPAWNED"])
    clocks = [(0.0, 0.0)]

    def tick() -> None:
        clocks.append((time.time() - spawned, time.process_time()))

    import importlib

    import jax

    library = importlib.import_module(library_name)
    tick()
    function = jax.jit(search(library, policy))
    lowered = function.lower(jax.random.key(0), *arrays())
    tick()
    compiled = lowered.compile()
    tick()
    jax.block_until_ready(compiled(jax.random.key(0), *arrays()))
    tick()
    operations = lowered.as_text().count(" = ")
    spent = np.diff(np.array(clocks), axis=0)
    wall, cpu = ([round(float(one), 4) for one in column] for column in spent.T)
    print(json.dumps({"wall": wall, "cpu": cpu, "operations": operations}))


def arrays() -> tuple[np.ndarray, np.ndarray]:
    """Returns the weights of the model, and the embeddings that it starts from."""
    rng = np.random.default_rng(0)
    outputs = ACTIONS + CHANCES + 2
    weights = rng.normal(size=(EMBEDDING, EMBEDDING + outputs)).astype(np.float32)
    return weights, rng.normal(size=(BATCH, EMBEDDING)).astype(np.float32)


def search(library: Any, policy: str) -> Any:
    """Returns a function of a key, weights and embeddings that searches."""
    import jax.numpy as jnp

    def predict(weights: Any, embedding: Any) -> tuple[Any, Any, Any, Any]:
        out = jnp.tanh(embedding @ weights)
        after, logits, chances, numbers = jnp.split(
            out, (EMBEDDING, EMBEDDING + ACTIONS, EMBEDDING + ACTIONS + CHANCES), axis=1
        )
        return after, logits, chances, numbers

    def step(weights: Any, key: Any, action: Any, embedding: Any) -> tuple[Any, Any]:
        after, logits, _, numbers = predict(weights, embedding + action[:, None] / ACTIONS)
        out = library.RecurrentFnOutput(
            reward=numbers[:, 0],
            discount=jnp.full(BATCH, 0.97),
            prior_logits=logits,
            value=numbers[:, 1],
        )
        return out, after

    def decide(weights: Any, key: Any, action: Any, embedding: Any) -> tuple[Any, Any]:
        after, _, chances, numbers = predict(weights, embedding + action[:, None] / ACTIONS)
        return library.DecisionRecurrentFnOutput(chance_logits=chances, afterstate_value=numbers[:, 1]), after

    def happen(weights: Any, key: Any, chance: Any, embedding: Any) -> tuple[Any, Any]:
        after, logits, _, numbers = predict(weights, embedding + chance[:, None] / CHANCES)
        out = library.ChanceRecurrentFnOutput(
            action_logits=logits,
            value=numbers[:, 1],
            reward=numbers[:, 0],
            discount=jnp.full(BATCH, 0.97),
        )
        return out, after

    run = getattr(library, POLICIES[policy])
    model: dict[str, Any] = {"recurrent_fn": step}
    if policy == "Stochastic":
        model = {"decision_recurrent_fn": decide, "chance_recurrent_fn": happen}

    def first_search(key: Any, weights: Any, start: Any) -> Any:
        _, logits, _, numbers = predict(weights, start)
        root = library.RootFnOutput(prior_logits=logits, value=numbers[:, 1], embedding=start)
        out = run(params=weights, rng_key=key, root=root, num_simulations=SIMULATIONS, **model)
        return out.action, out.action_weights

    return first_search


def spawn(library: str, policy: str) -> dict[str, Any]:
    """Runs one process, and returns what it printed."""
    root = Path(__file__).parents[1]
    path = os.pathsep.join([str(root / "src"), str(root), os.environ.get("PYTHONPATH", "")])
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("JAX_COMPILATION")
    }
    environment |= {"PYTHONPATH": path, "EMCTS_CACHE": "0", "EMCTS_SPAWNED": str(time.time())}
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.compile_time", library, policy],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{policy} of {library} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def summary(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Returns the medians over processes, of each stage and of all together."""
    medians: dict[str, Any] = {"operations": runs[0]["operations"]}
    for clock in ("wall", "cpu"):
        totals = [sum(one[clock]) for one in runs]
        stages = {name: [one[clock][number] for one in runs] for number, name in enumerate(STAGES)}
        medians[clock] = {name: round(statistics.median(times), 3) for name, times in stages.items()}
        medians[clock]["all"] = round(statistics.median(totals), 3)
        medians[clock]["of_each_process"] = [round(one, 3) for one in totals]
    return medians


def main(*, processes: int = PROCESSES, smoke: bool = False, out: Path | None = None) -> None:
    """Times all policies and prints a table."""
    from benchmarks.machine import provenance

    chosen = [("emcts", "UCT")] if smoke else pairs()
    runs: dict[tuple[str, str], list[dict[str, Any]]] = {pair: [] for pair in chosen}
    for _ in range(1 if smoke else processes):
        for pair, done in runs.items():
            done.append(spawn(*pair))
    results = {f"{policy} {library}": summary(done) for (library, policy), done in runs.items()}
    table = Table(title="CPU seconds of a cold start to the first search", box=box.SIMPLE)
    for column in ("search", *STAGES, "all", "seconds on the clock", "operations", "of mctx's CPU time"):
        table.add_column(column, justify="left" if column == "search" else "right")
    for name, found in results.items():
        peer = results.get(name.replace(" emcts", " mctx"))
        ratio = f"{found['cpu']['all'] / peer['cpu']['all']:.2f}" if peer else ""
        times = [f"{found['cpu'][stage]:.2f}" for stage in (*STAGES, "all")]
        table.add_row(name, *times, f"{found['wall']['all']:.2f}", str(found["operations"]), ratio)
    Console(width=140).print(table)
    if out is not None:
        sizes = {"batch": BATCH, "actions": ACTIONS, "simulations": SIMULATIONS, "processes": processes}
        made = provenance(f"emcts bench compile --processes {processes}")
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps({**made, **sizes, "searches": results}, indent=1) + "\n")


if __name__ == "__main__":
    child(*sys.argv[1:])
