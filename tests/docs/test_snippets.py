"""The Python on the pages runs: each page from top to bottom, after the names that it takes for granted.

A snippet that takes minutes is run with the long tests. What it names is checked in any case.
"""

import ast
import importlib
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import emcts
from emcts.agents.catalogue import ENVIRONMENTS
from emcts.agents.mcts.variants import VARIANTS
from emcts.agents.novelty import ESTIMATORS
from emcts.experiments.paper import EXPERIMENTS
from emcts.runs.logging.loggers import LOGGERS
from tests import test_guides
from tests.docs.pages import PAGES, ROOT, Block, blocks, name

Names = dict[str, Any]
SLOW = re.compile(r"emcts\.train\(|SeedTrainer\(|num_envs=80|check\(KeyCorridor|main\(\[")
TABLES: tuple[dict[str, Any], ...] = (ENVIRONMENTS, ESTIMATORS, EXPERIMENTS, LOGGERS, VARIANTS)


ELSEWHERE = {
    "README.md",  # tests/test_readme.py runs its snippet
    *(f"docs/guides/{guide}.md" for guide in test_guides.COMPLETE),
}


def _nothing(folder: Path) -> Names:
    return {}


def _search(folder: Path) -> Names:
    """A model that stays where it is, and an environment of it."""

    def recurrent_fn(params: object, key: object, action: Any, place: Any) -> Any:
        ones = jnp.ones(place.shape)
        logits = jnp.zeros((*place.shape, 2))
        return emcts.RecurrentFnOutput(0 * ones, 0.9 * ones, logits, 0 * ones, ones, ones), place

    def root_of(state: Any) -> emcts.RootFnOutput:
        return emcts.RootFnOutput(jnp.zeros((2, 2)), jnp.zeros(2), state)

    start = jnp.zeros(2, jnp.int32)
    return {
        "emcts": emcts,
        "jax": jax,
        "jnp": jnp,
        "params": None,
        "key": jax.random.key(0),
        "state": start,
        "root": root_of(start),
        "root_of": root_of,
        "recurrent_fn": recurrent_fn,
        "environment_step": lambda state, action: state + action,
        "was_reset": jnp.array([False, True]),
        "draw": lambda embedding: str(embedding),
    }


def _corridor(folder: Path) -> Names:
    """The example's module, which is where the code of the page comes from, and what makes an agent of it."""
    from emcts.agents.mcts.variants import VARIANTS, compose
    from emcts.agents.presets.default import default_settings
    from emcts.agents.task import make_task
    from emcts.envs import auto_reset, time_limit
    from emcts.training.seeds import SeedTrainer
    from examples import own_environment

    env = time_limit(own_environment.KeyCorridor(5), 9)
    return {
        **vars(own_environment),
        "env": env,
        "key": jax.random.key(0),
        "actions": jnp.zeros(64, jnp.int32),
        "auto_reset": auto_reset,
        "time_limit": time_limit,
        "make_task": make_task,
        "compose": compose,
        "VARIANTS": VARIANTS,
        "default_settings": default_settings,
        "SeedTrainer": SeedTrainer,
    }


def _novelty(folder: Path) -> Names:
    """The constants of the page's second program."""
    return {"PLACES": 6, "move": None}


def _run(folder: Path) -> Names:
    """The metrics of a run that was evaluated once."""
    run = folder / "runs" / "a"
    run.mkdir(parents=True)
    lines = [{"seed": 0, "env_steps": 8}, {"seed": 0, "env_steps": 64, "return": 0.5, "uncertainty": 0.1}]
    (run / "metrics.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return {}


def _environments(folder: Path) -> Names:
    gymnasium = pytest.importorskip("gymnasium")
    from emcts.envs import from_gymnasium

    ones = np.ones((10, 10), np.float32)
    return {"counts": ones, "ube": ones, "gymnasium": gymnasium, "from_gymnasium": from_gymnasium}


BEFORE: dict[str, Callable[[Path], Names]] = {
    "CONTRIBUTING.md": _search,
    "docs/guides/extending.md": _nothing,
    "docs/guides/inspector.md": _search,
    "docs/guides/networks.md": _corridor,
    "docs/guides/novelty-in-your-own-loop.md": _novelty,
    "docs/guides/offline.md": _nothing,
    "docs/guides/own-environment.md": _corridor,
    "docs/guides/run-folder.md": _run,
    "docs/guides/stochastic-environments.md": _nothing,
    "docs/reference/environments.md": _environments,
    "docs/reference/subleq.md": _nothing,
    "docs/reference/search-library.md": _search,
}
"""For each page with Python, what makes the names that its snippets take for granted."""

SNIPPETS = {
    name(page): found for page in PAGES if name(page) not in ELSEWHERE and (found := blocks(page, "python"))
}
ALL = [block for found in SNIPPETS.values() for block in found]


def _is_slow(block: Block) -> bool:
    return SLOW.search(block.text) is not None


@pytest.fixture(autouse=True)
def tables_as_before() -> Iterator[None]:
    """Takes away the entries that a snippet adds to a table."""
    before = [dict(table) for table in TABLES]
    yield
    for table, entries in zip(TABLES, before, strict=True):
        table.clear()
        table.update(entries)


def _execute(page: str, folder: Path, monkeypatch: pytest.MonkeyPatch, *, slow: bool) -> None:
    monkeypatch.chdir(folder)
    names = {"__name__": "snippet", **BEFORE[page](folder)}
    for block in SNIPPETS[page]:
        if slow or not _is_slow(block):
            code = "\n" * block.line + block.text  # errors then name the line of the page
            exec(compile(code, page, "exec"), names)


def test_every_page_with_python_is_run() -> None:
    assert set(SNIPPETS) == set(BEFORE), "add the page to BEFORE, with the names that it takes for granted"


@pytest.mark.parametrize("page", SNIPPETS)
def test_snippets_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _execute(page, tmp_path, monkeypatch, slow=False)


@pytest.mark.long
@pytest.mark.parametrize("page", [page for page, found in SNIPPETS.items() if any(map(_is_slow, found))])
def test_long_snippets_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _execute(page, tmp_path, monkeypatch, slow=True)


@pytest.mark.parametrize("block", ALL, ids=lambda block: block.name)
def test_what_a_snippet_names_exists(block: Block) -> None:
    """Imports and attributes of modules are found, also in snippets that are run with the long tests."""
    tree = ast.parse(block.text)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            module = importlib.import_module(node.module)
            for alias in node.names:
                assert hasattr(module, alias.name), f"{block.name}: {node.module} has no {alias.name}"
        elif isinstance(node, ast.Attribute) and ast.unparse(node).startswith("emcts."):
            value: Any = emcts
            for part in ast.unparse(node).split(".")[1:]:
                assert hasattr(value, part), f"{block.name}: {ast.unparse(node)}"
                value = getattr(value, part)


def test_a_name_that_does_not_exist_is_found() -> None:
    block = Block(ROOT / "README.md", 1, "python", "import emcts\nemcts.muzero_polcy(1)\n")
    with pytest.raises(AssertionError, match="muzero_polcy"):
        test_what_a_snippet_names_exists(block)
