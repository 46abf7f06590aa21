"""The example of the guide runs, and the guide shows the example as it is."""

import dataclasses
import importlib.util
import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from emcts.envs import Checked, Outcome, check

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "own_environment.py"


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("own_environment", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_it_runs_and_prints_what_the_guide_says(example, capsys):
    example.main()
    printed = capsys.readouterr().out
    guide = (ROOT / "docs" / "guides" / "own-environment.md").read_text()
    said = re.search(r"```text\n(the contract holds.*?)```", guide, re.DOTALL)
    assert said is not None
    assert printed.splitlines()[:2] == said[1].splitlines()[:2]
    assert int(printed.split("opened ")[1].split()[0]) > 100


def test_the_guide_shows_code_of_the_example():
    guide, source = (ROOT / "docs" / "guides" / "own-environment.md").read_text(), EXAMPLE.read_text()
    blocks = [block for block in re.findall(r"```python\n(.*?)```", guide, re.DOTALL) if "@record" in block]
    assert blocks
    for block in blocks:
        assert block in source
    names: dict[str, object] = {}
    exec(blocks[0], names)  # with its imports, it is complete
    assert "KeyCorridor" in names


def test_the_guide_explains_what_a_check_returns():
    guide = (ROOT / "docs" / "guides" / "own-environment.md").read_text()
    table = re.search(r"returns a `Checked`.*?\n\n(\|.*?)\n\n", guide, re.DOTALL)
    assert table is not None
    explained = re.findall(r"^\| `(\w+)` \|", table[1], re.MULTILINE)
    assert sorted(explained) == sorted(field.name for field in dataclasses.fields(Checked))
    outcome = Outcome(jnp.float32(0), jnp.bool_(False), jnp.bool_(False))
    assert outcome.replace(reward=jnp.float32(1)).reward == 1


def test_other_lengths_keep_the_contract(example):
    assert check(example.KeyCorridor(3), steps=200, samples=1).ended == 8
    with pytest.raises(ValueError, match="corridor of 2"):
        example.KeyCorridor(2)


def test_a_locked_door_stays_shut(example):
    env, key = example.KeyCorridor(5), jax.random.key(0)
    state = env.init(key)
    for action in [example.RIGHT, example.RIGHT]:
        state, _ = env.step(state, np.int32(action), key)
    assert not env.legal(state)[example.OPEN]
    after, outcome = env.step(state, np.int32(example.OPEN), key)
    assert outcome.reward == 0
    jax.tree.map(np.testing.assert_array_equal, after, state)
