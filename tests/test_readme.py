"""What the README shows runs, one snippet after the other, and does what its comments say."""

import re
from pathlib import Path
from typing import Any

import jax.numpy as jnp

README = Path(__file__).parents[1] / "README.md"


def test_snippets() -> None:
    snippets = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
    assert len(snippets) == 2
    names: dict[str, Any] = {}
    exec(snippets[0], names)
    visits, stds = names["summary"].visit_counts, names["summary"].qvalues_std
    assert abs(visits[0, 0] - visits[0, 1]) <= 2
    assert visits[1, 1] > 2 * visits[1, 0]
    assert jnp.all(stds >= 0)
    assert stds[1, 1] > 0
    exec(snippets[1], names)
    assert names["policy_output"].search_tree.summary().visit_counts.sum() == 32


def test_links_lead_somewhere() -> None:
    for file in (README, *(README.parent / "docs").glob("*.md")):
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", file.read_text()):
            if "://" not in target:
                assert (file.parent / target).exists(), f"{file.name} links to {target}"
