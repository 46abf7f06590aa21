"""Novelty estimators and an ensemble of models in loops of one's own: the code of the guide."""

import functools
import re
from pathlib import Path

import jax
import pytest

from examples import ensemble_variances, novelty_alone

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "guides" / "novelty-in-your-own-loop.md"


@functools.cache
def visited(name: str, beta: float) -> float:
    explore = functools.partial(novelty_alone.explore, novelty_alone.ESTIMATORS[name], beta=beta, steps=150)
    return float(jax.jit(explore)(jax.random.key(0)))


@pytest.mark.parametrize("name", novelty_alone.ESTIMATORS)
def test_a_search_explores_by_novelty(name: str) -> None:
    assert visited(name, 1.0) > 1.3 * visited("hash", 0.0)


def test_an_ensemble_of_models_has_variances(capsys: pytest.CaptureFixture[str]) -> None:
    ensemble_variances.main()
    stds, greedy, exploring = capsys.readouterr().out.splitlines()
    seen, unseen = map(float, re.findall(r"[\d.]+(?= where)", stds))
    assert unseen > 10 * seen
    assert greedy.endswith("goes left")
    assert exploring.endswith("goes right")


@pytest.mark.parametrize("example", ["novelty_alone", "ensemble_variances"])
def test_the_guide_quotes_the_examples(example: str) -> None:
    """Every block of Python in the guide is in one of the files, as it stands there."""
    blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), flags=re.DOTALL)
    code = "".join(
        (ROOT / "examples" / f"{name}.py").read_text() for name in ("novelty_alone", "ensemble_variances")
    )
    assert blocks
    assert all(block in code for block in blocks)
    assert any(block in (ROOT / "examples" / f"{example}.py").read_text() for block in blocks)
