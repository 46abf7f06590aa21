"""The documentation: the snippet of the README runs, links lead somewhere, and files and settings it names exist."""

import re
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import pytest

from emcts.agents.catalogue import installed
from emcts.runs.config import flat, plain

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
HISTORY = (ROOT / "CHANGELOG.md", ROOT / "docs" / "notes" / "vocabulary.md")
PAGES = (
    README,
    ROOT / "CONTRIBUTING.md",
    ROOT / "results" / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
)


def _name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def _anchors(page: Path) -> set[str]:
    """Returns the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_snippet() -> None:
    (snippet,) = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
    names: dict[str, Any] = {}
    exec(snippet, names)
    visits, stds = names["summary"].visit_counts, names["summary"].qvalues_std
    assert abs(visits[0, 0] - visits[0, 1]) <= 2
    assert visits[1, 1] > 2 * visits[1, 0]
    assert jnp.all(stds >= 0)
    assert stds[1, 1] > 0


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CHANGELOG.md"], ids=_name)
def test_links_lead_somewhere(page: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)]*))?\)", page.read_text()):
        if "://" in target:
            continue
        file = (page.parent / target).resolve() if target else page
        assert file.exists(), f"{_name(page)} links to {target}"
        if anchor:
            assert anchor in _anchors(file), f"{_name(page)} links to {target}#{anchor}"


@pytest.mark.parametrize("page", [page for page in PAGES if page not in HISTORY], ids=_name)
def test_named_files_exist(page: Path) -> None:
    for name in re.findall(r"`(?:python )?([\w/]+\.py)[^`]*`", page.read_text()):
        places = (ROOT, ROOT / "src", ROOT / "src" / "emcts")
        assert any((place / name).is_file() for place in places), f"{_name(page)} names {name}"


@pytest.fixture(scope="module")
def settings() -> set[str]:
    """Returns the dotted paths of the settings of all environments, agents and presets."""
    catalogue = installed()
    return {"env.arguments"} | {
        path
        for environment in (*catalogue.environments, "module:Name")
        for agent in catalogue.agents(environment)
        for preset in catalogue.presets(environment, agent)
        for path, _ in flat(plain(catalogue.settings(environment, agent, preset)))
    }


@pytest.mark.parametrize("page", [page for page in PAGES if page not in HISTORY], ids=_name)
def test_named_settings_exist(page: Path, settings: set[str]) -> None:
    groups = {path.partition(".")[0] for path in settings if "." in path and not path.startswith("env.")}
    flags = re.findall(r"--(?:grid )?([a-z]+\.[a-z][\w-]*)", page.read_text())
    paths = re.findall(rf"`((?:{'|'.join(groups)})\.(?!py|json)[a-z]\w*)`", page.read_text())
    for name in (*flags, *paths):
        path = name.replace("-", "_").replace(".no_", ".")
        assert path in settings or path == "group.name", f"{_name(page)} names {name}"


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_lines_wrap(page: Path) -> None:
    """Code and tables may be wider: they are not prose."""
    prose = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    for line in prose.splitlines():
        assert len(line) <= 100 or line.startswith(("|", "!", "#")), f"{_name(page)}: {line}"
