"""Runs an installed emcts in the current, empty folder: its commands, and what each extra adds.

    python smoke.py VENV

An extra whose packages are not installed is skipped, with a line that says so.
"""

import importlib
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

VENV = Path(sys.argv[1]).resolve()
EMCTS = str(VENV / "bin" / "emcts")
DEMO = ["--size", "4", "--seeds", "1", "--steps", "100"]


def main() -> None:
    started = time.monotonic()
    check_files()
    check_commands()
    for extra in metadata.metadata("emcts").get_all("Provides-Extra") or []:
        smoke = EXTRAS[extra]
        missing = missing_packages(extra)
        if missing:
            print(f"extra {extra}: skipped, {', '.join(missing)} not installed", flush=True)
        elif smoke is not None:
            begun = time.monotonic()
            smoke()
            print(f"extra {extra}: works ({time.monotonic() - begun:.0f} s)", flush=True)
    print(f"the package works: {time.monotonic() - started:.0f} s")


def check_files() -> None:
    """What is installed is the wheel, with its licence, types, page and stored results."""
    import emcts

    assert emcts.__file__ is not None
    assert Path(emcts.__file__).is_relative_to(VENV), f"{emcts.__file__} is not the installed package"
    assert metadata.version("emcts") == emcts.__version__
    files = {str(file) for file in metadata.files("emcts") or []}
    for name in (
        f"emcts-{emcts.__version__}.dist-info/licenses/LICENSE",
        "emcts/py.typed",
        "emcts/inspect/assets/page.html",
        "emcts/results/table-1/summary.csv",
    ):
        assert name in files, f"the wheel lacks {name}"


def check_commands() -> None:
    assert run("--version").startswith("emcts ")
    run("demo", *DEMO, "--out", "demo")
    assert Path("demo/inspect.html").stat().st_size > 10_000
    assert Path("demo/deep-sea.png").is_file()
    run("train", "deep-sea", "--agent", "e-az", "--env.size", "4", "--seeds", "1", "--steps", "100")
    folder = "runs/deep-sea-e-az-1"
    assert "finished" in run("runs")
    run("inspect", folder, "--out", "search.html")
    assert Path("search.html").stat().st_size > 10_000
    for experiment in experiments():
        run("reproduce", experiment, "--from-results")
        assert list(Path("results", experiment).glob("*.png")), f"{experiment} has drawn nothing"


def experiments() -> list[str]:
    from emcts.experiments.paper import EXPERIMENTS

    return list(EXPERIMENTS)


def run(*arguments: str) -> str:
    begun = time.monotonic()
    print("$ emcts", *arguments, flush=True)
    done = subprocess.run([EMCTS, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{done.stdout}\n{done.stderr}\nexit code {done.returncode}")
    print(f"  {time.monotonic() - begun:.0f} s", flush=True)
    return done.stdout


def missing_packages(extra: str) -> list[str]:
    """Returns the packages of an extra that are not installed."""
    found = []
    for requirement in metadata.requires("emcts") or []:
        name, _, marker = requirement.partition(";")
        if re.search(rf"extra == ['\"]{re.escape(extra)}['\"]", marker):
            package = re.split(r"[<>=!~\[ ]", name)[0]
            try:
                metadata.version(package)
            except metadata.PackageNotFoundError:
                found.append(package)
    return found


def bench() -> None:
    """A search of mctx and the same one of emcts, with mctx's own records."""
    import jax
    import jax.numpy as jnp
    import mctx

    import emcts

    def recurrent_fn(params, key, action, embedding):
        step = mctx.RecurrentFnOutput(
            reward=action.astype(jnp.float32),
            discount=jnp.full(action.shape, 0.9),
            prior_logits=jnp.zeros((*action.shape, 3)),
            value=jnp.ones(action.shape),
        )
        return step, embedding

    root = mctx.RootFnOutput(prior_logits=jnp.zeros((2, 3)), value=jnp.zeros(2), embedding=jnp.zeros(2))
    visits = [
        library.gumbel_muzero_policy(None, jax.random.key(0), root, recurrent_fn, num_simulations=16)
        .search_tree.summary()
        .visit_counts
        for library in (mctx, emcts)
    ]
    assert jnp.array_equal(*visits)


def check_env(reference: str) -> Callable[[], None]:
    def check_it() -> None:
        from emcts.envs import check, references

        env = references.make(references.parse_reference(reference), {}, time_limit=20).env
        assert check(env, steps=40).steps > 0

    return check_it


def minatar() -> None:
    from emcts.envs import MinAtar, check

    assert check(MinAtar("breakout"), steps=40).steps > 0


def inspect() -> None:
    """The local server answers, and Ctrl-C ends it."""
    command = [EMCTS, "inspect", "runs/deep-sea-e-az-1", "--serve"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert server.stdout is not None
    try:
        address = next(line.split()[1] for line in server.stdout if line.startswith("Open "))
        page = b""
        for _ in range(50):
            try:
                page = urllib.request.urlopen(address, timeout=10).read()
                break
            except OSError:
                time.sleep(0.2)
        assert b"<html" in page
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(timeout=30)


def ray() -> None:
    sweep = ["sweep", "deep-sea", "--agent", "bdqn", "--seeds", "1", "--steps", "100"]
    run(*sweep, "--grid", "env.size=4,5", "--on", "ray", "--out", "sweeps/ray")
    assert len(list(Path("sweeps/ray").iterdir())) == 2


def wandb() -> None:
    from emcts.runs.logging.loggers import check_loggers

    check_loggers(["wandb"])
    importlib.import_module("wandb")


EXTRAS: dict[str, Callable[[], None] | None] = {
    "test": None,  # by `make test`
    "docs": None,  # by `make docs`
    "bench": bench,
    "gymnasium": check_env("gymnasium:CartPole-v1"),
    "gymnax": check_env("gymnax:MountainCar-v0"),
    "inspect": inspect,
    "minatar": minatar,
    "pgx": check_env("pgx:2048"),
    "ray": ray,
    "wandb": wandb,
    "xminigrid": check_env("xminigrid:MiniGrid-Empty-5x5"),
}

if __name__ == "__main__":
    main()
