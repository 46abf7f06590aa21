"""Times mctx, emcts and the model alone in one run, and checks that both searches visit the same nodes.

The tiny model is cheap, so that the search dominates; with the MLP the limit is near. Calls are interleaved and medians
taken, so that a busy machine slows all alike.
"""

import dataclasses
import json
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import mctx
from rich import box
from rich.console import Console
from rich.table import Table

import emcts
from benchmarks import equality
from benchmarks.machine import provenance
from benchmarks.models import MODELS, Model, alone, step_fields
from benchmarks.programs import compile_together


@dataclasses.dataclass(frozen=True)
class Case:
    """One size of search with a model.

    `bar_cpu` and `bar_gpu` are the ratios to mctx that it must reach, and `limit_gpu` is the largest ratio to the time
    of the model alone that it may have.
    """

    rule: str
    batch: int
    actions: int
    simulations: int
    bar_cpu: float | None = None
    bar_gpu: float | None = None
    limit_gpu: float | None = None
    model: str = "tiny"

    @property
    def name(self) -> str:
        return f"{self.rule} {self.batch}, {self.actions}, {self.simulations}"

    @property
    def row(self) -> str:
        """Name of the case on a command line."""
        return f"{self.rule}-{self.batch}-{self.actions}-{self.simulations}-{self.model}".lower()

    @property
    def bar(self) -> float | None:
        return self.bar_gpu if _on_gpu() else self.bar_cpu

    @property
    def limit(self) -> float | None:
        return self.limit_gpu if _on_gpu() else None


def _on_gpu() -> bool:
    return jax.default_backend() == "gpu"


CASES = (
    Case("PUCT", 128, 16, 32, 4, 25),
    Case("PUCT", 1024, 16, 32, 3.5, 12),
    Case("PUCT", 4096, 16, 32, None, 15),
    Case("PUCT", 64, 4, 256, 5, None),
    Case("PUCT", 4096, 16, 128, None, 110),
    Case("PUCT", 128, 16, 8, 1, 1),
    Case("Gumbel", 128, 16, 32, 1.6, 5),
    Case("Gumbel", 1024, 16, 32, 2.3, 5),
    Case("Gumbel", 128, 16, 128, 3.5, None),
    Case("Gumbel", 4096, 16, 128, None, 60),
    Case("Gumbel", 128, 16, 8, 1, 1),
    Case("PUCT", 128, 16, 32, None, None, 1.6, "mlp"),
    Case("PUCT", 4096, 16, 32, None, None, 1.6, "mlp"),
    Case("PUCT", 4096, 16, 128, None, None, 2.2, "mlp"),
    Case("Gumbel", 128, 16, 32, None, None, 1.5, "mlp"),
    Case("Gumbel", 1024, 16, 32, 2.3, None, None, "mlp"),
    Case("Gumbel", 128, 16, 128, 3.5, None, None, "mlp"),
    Case("Gumbel", 4096, 16, 128, None, None, 1.5, "mlp"),
)
GROWTH = tuple(Case("PUCT", 32, 8, simulations) for simulations in (8, 32, 128, 512)) + tuple(
    Case("PUCT", batch, 8, 32) for batch in (8, 128, 2048)
)
SMOKE = (Case("Gumbel", 4, 3, 4, model="mlp"),)
EPISTEMIC_BAR = 1.2


def plain_search(library: Any, case: Case, model: Model, **options: Any) -> Callable[..., Any]:
    def recurrent_fn(params: Any, key: Any, action: Any, embedding: Any) -> Any:
        fields, embedding = step_fields(model, action, embedding)
        return library.RecurrentFnOutput(**fields), embedding

    def run(start: Any, key: Any) -> Any:
        root = library.RootFnOutput(**model.predict(start)._asdict(), embedding=start)
        policy = _policy(library, case.rule)
        return policy(None, key, root, recurrent_fn, case.simulations, **options).search_tree

    return run


def epistemic_search(case: Case, model: Model) -> Callable[..., Any]:
    """Returns a search whose model reports variances, and whose `beta` is an array: one program for any of them."""

    def recurrent_fn(params: Any, key: Any, action: Any, embedding: Any) -> Any:
        fields, embedding = step_fields(model, action, embedding)
        variances = {"reward_variance": fields["reward"] ** 2, "value_variance": fields["value"] ** 2}
        return emcts.RecurrentFnOutput(**fields, **variances), embedding

    def run(start: Any, key: Any, betas: Any) -> Any:
        fields = model.predict(start)._asdict()
        root = emcts.RootFnOutput(**fields, embedding=start, value_variance=fields["value"] ** 2)
        policy = _policy(emcts, case.rule)
        return policy(None, key, root, recurrent_fn, case.simulations, beta=betas).search_tree

    return run


def _policy(library: Any, rule: str) -> Callable[..., Any]:
    return library.gumbel_muzero_policy if rule == "Gumbel" else library.muzero_policy


def interleave(
    searches: dict[str, Callable[..., Any]], start: Any, repeats: int, seconds: float
) -> dict[str, float]:
    """Returns median seconds of each search, called in turns until `repeats` or `seconds` are spent."""
    key = jax.random.key(1)
    for run in searches.values():
        jax.block_until_ready(run(start, key))
    times: dict[str, list[float]] = {name: [] for name in searches}
    began = time.perf_counter()
    for _ in range(repeats):
        for name, run in searches.items():
            before = time.perf_counter()
            jax.block_until_ready(run(start, key))
            times[name].append(time.perf_counter() - before)
        if time.perf_counter() - began > seconds and len(times[name]) >= 3:
            break
    return {name: statistics.median(samples) for name, samples in times.items()}


def measure(case: Case, repeats: int, seconds: float, *, epistemic: bool) -> dict[str, Any]:
    """Returns all measurements of one case."""
    model, key = MODELS[case.model](case.batch, case.actions), jax.random.key(1)
    searches = compile_together(
        {
            "mctx": plain_search(mctx, case, model),
            "emcts": plain_search(emcts, case, model),
            "model": alone(model, case.simulations),
            "plain": plain_search(emcts, case, model, backend=emcts.plain_backend),
        },
        model.start,
        key,
    )
    plain = searches.pop("plain")
    if epistemic:
        betas = {"same tree": jnp.zeros(case.batch), "beta 1": jnp.ones(case.batch)}
        search = epistemic_search(case, model)
        run = compile_together({"": search}, model.start, key, betas["beta 1"])[""]
        searches |= {
            name: lambda start, key, beta=beta: run(start, key, beta) for name, beta in betas.items()
        }
    times = interleave(searches, model.start, repeats, seconds)
    compared = ("mctx", "emcts", "same tree") if epistemic else ("mctx", "emcts")
    trees = {name: searches[name](model.start, key) for name in compared}
    without = plain(model.start, key)
    row = {
        "case": case.name,
        "model": case.model,
        "mctx_ms": 1e3 * times["mctx"],
        "emcts_ms": 1e3 * times["emcts"],
        "ratio": times["mctx"] / times["emcts"],
        "bar": case.bar,
        "model_ms": 1e3 * times["model"],
        "over_model": times["emcts"] / times["model"],
        "mctx_over_model": times["mctx"] / times["model"],
        "limit": case.limit,
        "agree_with_mctx": _agreement(trees["mctx"], trees["emcts"]),
        "kernels_agree_with_plain": _agreement(without, trees["emcts"]),
        "mctx_tree_mib": _mebibytes(trees["mctx"]),
        "emcts_tree_mib": _mebibytes(trees["emcts"]),
    }
    if epistemic:
        row["epistemic_over_plain_same_tree"] = times["same tree"] / times["emcts"]
        row["epistemic_over_plain_beta_1"] = times["beta 1"] / times["emcts"]
        row["epistemic_agrees"] = _agreement(trees["mctx"], trees["same tree"])
    return row


def _agreement(one: Any, other: Any) -> float:
    """Returns the share of batch elements whose trees have the same visits at every node and action."""
    same = jnp.all(one.children_visits == other.children_visits, axis=(1, 2))
    return float(jnp.mean(same))


def _mebibytes(tree: Any) -> float:
    bare = tree.replace(embeddings=None, extra_data=None)
    return sum(leaf.nbytes for leaf in jax.tree.leaves(bare)) / 2**20


def main(
    *, rows: Sequence[str] = (), smoke: bool = False, growth: bool = True, out: Path | None = None
) -> None:
    """Compares search speed with mctx's, and with that of the model alone.

    Args:
        rows: measure these cases alone, such as puct-128-16-32-tiny; without the sizes of growth.
        smoke: tiny sizes, to see that it runs.
        growth: also measure how time grows with simulations (8 to 512) and batch.
        out: a JSON file for the numbers, with the command, commit and machine.
    """
    console = Console(width=max(Console().width, 130))
    cases = SMOKE if smoke else _chosen(rows)
    repeats, seconds = (2, 1.0) if smoke else (15, 6.0)
    equal = equality.rows(batch=4, simulations=8, rules=["UCT"]) if smoke else equality.rows()
    console.print(_equality(equal))
    command = " ".join(["emcts bench search", *(["--rows", *rows] if rows else [])])
    result: dict[str, Any] = {**provenance(command), "cases": [], "equality": equal, "growth": []}

    def add(to: str, case: Case, repeats: int, *, epistemic: bool) -> None:
        row = measure(case, repeats, seconds, epistemic=epistemic)
        console.print(f"[dim]{_line(row)}")
        result[to].append(row)
        if out is not None:
            out.parent.mkdir(parents=True, exist_ok=True)
            out.write_text(json.dumps(result, indent=1) + "\n")

    for case in cases:
        add("cases", case, repeats, epistemic=True)
    console.print(_speed("mctx's time over ours, and both over the model alone", result["cases"]))
    console.print(_cost(result["cases"]))
    if growth and not smoke and not rows:
        for case in GROWTH:
            add("growth", case, 5, epistemic=False)
        console.print(_speed("growth with simulations and with batch", result["growth"]))
    if out is not None:
        console.print(f"written to {out}")


def _chosen(rows: Sequence[str]) -> Sequence[Case]:
    here = {case.row: case for case in CASES if _on_gpu() or case.batch < 4096}
    if missing := [row for row in rows if row not in here]:
        raise ValueError(f"there is no row {missing[0]!r}: give any of {', '.join(here)}")
    return [here[row] for row in rows] if rows else list(here.values())


def _line(row: dict[str, Any]) -> str:
    times = (
        f"mctx {row['mctx_ms']:.2f} ms, emcts {row['emcts_ms']:.2f} ms, model alone {row['model_ms']:.2f} ms"
    )
    equal = f"{_share(row['agree_with_mctx'])}, {_share(row['kernels_agree_with_plain'])}"
    return f"{_label(row)}: {times}; agreement {equal}"


def _share(agreement: float) -> str:
    return "100%" if agreement == 1 else f"{min(agreement, 0.9999):.2%}"


def _speed(title: str, rows: list[dict[str, Any]]) -> Table:
    names = (
        "mctx ms",
        "emcts ms",
        "ratio",
        "bar",
        "model ms",
        "mctx/model",
        "emcts/model",
        "limit",
        "=mctx",
        "=plain",
    )
    table = _table(title, names)
    for row in rows:
        table.add_row(
            _label(row),
            f"{row['mctx_ms']:.2f}",
            f"{row['emcts_ms']:.2f}",
            f"{row['ratio']:.1f}",
            _verdict(row["bar"], row["ratio"], at_least=True),
            f"{row['model_ms']:.2f}",
            f"{row['mctx_over_model']:.1f}",
            f"{row['over_model']:.2f}",
            _verdict(row["limit"], row["over_model"], at_least=False),
            _share(row["agree_with_mctx"]),
            _share(row["kernels_agree_with_plain"]),
        )
    return table


def _label(row: dict[str, Any]) -> str:
    return row["case"] if row["model"] == "tiny" else f"{row['case']}, {row['model']}"


def _verdict(bar: float | None, ratio: float, *, at_least: bool) -> str:
    if bar is None:
        return ""
    return f"[green]{bar:g}" if (ratio >= bar) == at_least else f"[red]{bar:g}"


def _cost(rows: list[dict[str, Any]]) -> Table:
    title = f"uncertainty's time over plain (bar {EPISTEMIC_BAR}), memory of the trees"
    table = _table(title, ("same tree", "beta 1", "mctx MiB", "emcts MiB"))
    for row in rows:
        ratios = (row["epistemic_over_plain_same_tree"], row["epistemic_over_plain_beta_1"])
        memory = (row["mctx_tree_mib"], row["emcts_tree_mib"])
        table.add_row(_label(row), *(f"{number:.2f}" for number in ratios + memory))
    return table


def _equality(rows: list[dict[str, Any]]) -> Table:
    table = Table(title="this machine's backend against plain JAX, vmapped over seeds", box=box.SIMPLE)
    for column in ("rule", "equal trees", "largest difference of a std"):
        table.add_column(column, justify="left" if column == "rule" else "right")
    for row in rows:
        table.add_row(row["rule"], _share(row["equal"]), f"{row['largest_difference']:.1e}")
    return table


def _table(title: str, columns: tuple[str, ...]) -> Table:
    table = Table(title=title, box=box.SIMPLE, padding=(0, 1, 0, 0))
    table.add_column("batch, actions, sims", no_wrap=True)
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    return table
