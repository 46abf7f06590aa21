"""Arrows point one way, so that the search can be lifted out as a library."""

import ast
from pathlib import Path

import pytest

import emcts

SOURCE = Path(emcts.__file__).parent
MAY_IMPORT: dict[str, set[str]] = {
    "types": set(),
    "registry": set(),
    "counter": {"types"},
    "distinct": {"types"},
    "search": {"types"},
    "envs": {"types", "registry"},
    "novelty": {"types", "registry", "counter", "distinct"},
    "models": {"types", "registry", "envs", "novelty", "distinct"},
}
MAY_IMPORT["training"] = {*MAY_IMPORT}
MAY_IMPORT["agents"] = {*MAY_IMPORT}
MAY_IMPORT["interrupts"] = set()
MAY_IMPORT["runs"] = {*MAY_IMPORT}
MAY_IMPORT["inspect"] = {*MAY_IMPORT}
MAY_IMPORT["experiments"] = {*MAY_IMPORT}
MAY_IMPORT["api"] = {*MAY_IMPORT}
MAY_IMPORT["cli"] = {*MAY_IMPORT}


def layer(path: Path) -> str:
    first = path.relative_to(SOURCE).parts[0]
    return first.removesuffix(".py")


def imported_layers(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names = (
                [node.module] if node.module != "emcts" else [f"emcts.{alias.name}" for alias in node.names]
            )
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        found |= {name.split(".")[1] for name in names if name.startswith("emcts.")}
    return found


@pytest.mark.parametrize("name", MAY_IMPORT)
def test_imports(name: str) -> None:
    for path in SOURCE.rglob("*.py"):
        if layer(path) == name:
            extra = imported_layers(path) - MAY_IMPORT[name] - {name}
            assert not extra, f"{path.relative_to(SOURCE)} imports {sorted(extra)}"


def test_every_module_has_a_layer() -> None:
    layers = {layer(path) for path in SOURCE.rglob("*.py")}
    assert layers - {"__init__", "__main__"} <= set(MAY_IMPORT)
