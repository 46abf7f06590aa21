"""The package: its version stands in one place, and the files beside it agree."""

import re
import tomllib
from pathlib import Path

import jax
import pytest

import emcts
from emcts.cli import main
from emcts.runs.provenance import provenance

ROOT = Path(__file__).parents[1]


def test_version_of_the_package_is_that_of_the_module() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "version" in project["project"]["dynamic"]
    assert project["tool"]["hatch"]["version"]["path"] == "src/emcts/__init__.py"


def test_changelog_and_citation_name_the_version() -> None:
    releases = re.findall(r"^## ([\d.]+)", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    citation = re.findall(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(), flags=re.MULTILINE)
    assert releases[0] == emcts.__version__
    assert citation == [emcts.__version__]
    bibtex = re.findall(r"version = \{(\S+)\}", (ROOT / "docs" / "index.md").read_text())
    assert bibtex == [emcts.__version__]


def test_runs_record_the_version() -> None:
    assert provenance("a command")["versions"]["emcts"] == emcts.__version__


def test_version_option(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--version"])
    package, python, jax_version, device = capsys.readouterr().out.splitlines()
    assert package == f"emcts {emcts.__version__}"
    assert re.fullmatch(r"Python 3\.\d+\.\S+", python)
    assert jax_version == f"JAX {jax.__version__}"
    assert device.startswith("device ")
