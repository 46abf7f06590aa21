"""Observations of every kind: every agent reads them, and modules of a user's own do."""

import dataclasses
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Bool, Float, Int, PyTree

from emcts.agents.bdqn.settings import compose as compose_bdqn
from emcts.agents.mcts.learner import MctsLearner
from emcts.agents.mcts.variants import VARIANTS, compose
from emcts.agents.presets import default
from emcts.agents.settings import ReplaySettings, ScheduleSettings
from emcts.agents.task import flat_observation, make_task
from emcts.envs import Outcome, check, time_limit
from emcts.models.encoders import InputSpec, OwnModule
from emcts.models.networks import Networks
from emcts.models.statistics import normalise
from emcts.runs.checkpoints import Checkpoints
from emcts.types import Key
from tests.agents.tiny import assert_equal

KEY = jax.random.key(0)
LENGTH = 4


def vector(position: Int[Array, ""]) -> PyTree:
    return jnp.stack([position.astype(jnp.float32) * 100, jnp.float32(3)])


def as_dict(position: Int[Array, ""]) -> PyTree:
    image = jnp.zeros((5, 5, 2), jnp.uint8).at[position, 0, 0].set(200)
    return {"image": image, "far": position > 2, "inner": {"position": position * 1000}}


KINDS: dict[str, Any] = {
    "scalar": lambda position: position.astype(jnp.float32),
    "vector": vector,
    "integers": lambda position: jnp.stack([position, -position]),
    "bools": lambda position: jnp.arange(LENGTH) == position,
    "matrix": lambda position: jnp.zeros((3, LENGTH), jnp.int8).at[1, position].set(1),
    "pixels": lambda position: as_dict(position)["image"],
    "dictionary": as_dict,
    "index": lambda position: position,
}


@dataclasses.dataclass(frozen=True)
class Walk:
    """A walk to the right, observed as something of each kind."""

    kind: str

    @property
    def num_actions(self) -> int:
        return 2

    @property
    def num_observations(self) -> int | None:
        return LENGTH if self.kind == "index" else None

    def init(self, key: Key) -> Int[Array, ""]:
        return jnp.int32(0)

    def step(self, state: Int[Array, ""], action: Int[Array, ""], key: Key) -> tuple[Int[Array, ""], Outcome]:
        over = state == LENGTH - 1
        after = jnp.where(over, state, jnp.maximum(state + 2 * action - 1, 0))
        ends = after == LENGTH - 1
        return after, Outcome(jnp.where(ends & ~over, 1.0, 0.0), ends, jnp.bool_(False))

    def observe(self, state: Int[Array, ""]) -> PyTree:
        return KINDS[self.kind](state)

    def legal(self, state: Int[Array, ""]) -> Bool[Array, "A"]:
        return jnp.ones(2, bool)


class Own(eqx.Module):
    """An encoder of a user: it may read an observation as it likes, and holds what equinox modules hold."""

    layers: eqx.nn.MLP

    def __call__(self, observation: PyTree) -> Float[Array, "features"]:
        position = observation["inner"]["position"].astype(jnp.float32)
        return self.layers(jnp.stack([position, observation["far"].astype(jnp.float32)]))


def own(spec: PyTree, key: Key) -> Own:
    assert spec["far"] == InputSpec((), dtype="bool")
    return Own(eqx.nn.MLP(2, 5, 8, 1, key=key))


def learner(agent: str, kind: str, encoder: Any = None) -> Any:
    task = make_task(time_limit(Walk(kind), 6), encoder=encoder)
    tiny = {
        "steps": 100,
        "schedule": ScheduleSettings(num_envs=2, rollout_length=4, updates=2, warmup_steps=10),
        "replay": ReplaySettings(capacity=50, batch_size=4),
    }
    presets: dict[str, Any] = {"e-az": default.SIMULATOR, "e-mz": default.LEARNED}
    if agent == "bdqn":
        return compose_bdqn(task, default.BDQN)
    settings = dataclasses.replace(presets[agent], **tiny)
    search = dataclasses.replace(settings.search, simulations=2)
    return compose(
        VARIANTS[agent], task, default.fill_open(dataclasses.replace(settings, search=search), task)
    )


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_observation_is_trained_on(kind: str) -> None:
    """Traced, not run: shapes and dtypes are all that differs."""
    for agent in ("e-mz", "bdqn") if kind in ("scalar", "dictionary") else ("e-az",):
        one = learner(agent, kind)
        state = jax.eval_shape(one.init, KEY, ())
        acted, _ = jax.eval_shape(one.act, state)
        learned, _ = jax.eval_shape(one.learn, acted, jnp.float32(0))
        assert jax.tree.map(jnp.shape, learned) == jax.tree.map(jnp.shape, state)


def test_a_dictionary_is_an_observation() -> None:
    assert check(time_limit(Walk("dictionary"), 6), episodes=1, steps=8, samples=1).ended == 1


def test_an_index_needs_one_integer() -> None:
    @dataclasses.dataclass(frozen=True)
    class Wrong(Walk):
        num_observations = 7

    with pytest.raises(ValueError, match="num_observations is 7"):
        _ = make_task(Wrong("vector")).input_spec
    assert make_task(time_limit(Walk("index"), 3)).input_spec == InputSpec(num_indices=LENGTH)


@pytest.mark.parametrize("agent", ["e-az", pytest.param("e-mz", marks=pytest.mark.long)])
def test_an_encoder_of_the_user_is_trained(agent: str, tmp_path: Path) -> None:
    one: MctsLearner = learner(agent, "dictionary", own)
    state = jax.jit(one.init)(KEY, ())
    state, _ = jax.jit(one.act)(jax.jit(one.act)(state)[0])
    trained, _ = jax.jit(one.learn)(state, jnp.float32(0))
    before, after = (jax.tree.leaves(_own_module(now.networks)) for now in (state, trained))
    assert len(before) == 4, "the weights and biases of two layers, and no functions"
    assert any(not np.array_equal(*pair) for pair in zip(before, after, strict=True))
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(trained, 10)
    restored = checkpoints.restore(jax.eval_shape(one.init, KEY, ()))
    assert restored is not None
    assert_equal(_own_module(restored.state.networks), _own_module(trained.networks))


def _own_module(networks: Any) -> PyTree:
    module = networks.torso if isinstance(networks, Networks) else networks.representation.body.torso
    assert isinstance(module, OwnModule)
    return module.arrays


def test_bdqn_takes_no_encoder() -> None:
    with pytest.raises(ValueError, match="takes no encoder"):
        learner("bdqn", "dictionary", own)


def test_an_anchored_model_takes_no_encoder() -> None:
    task = make_task(time_limit(Walk("vector"), 6), encoder=lambda spec, key: eqx.nn.MLP(2, 5, 8, 1, key=key))
    model = dataclasses.replace(default.LEARNED.model, kind="anchored")
    settings = default.fill_open(dataclasses.replace(default.LEARNED, model=model), task)
    with pytest.raises(ValueError, match="encodes nothing"):
        compose(VARIANTS["e-mz"], task, settings)


def test_acting_follows_the_observations() -> None:
    one = learner("e-az", "vector")
    state, _ = jax.jit(one.act)(jax.jit(one.init)(KEY, ()))
    seen = np.asarray(jax.vmap(jax.vmap(vector))(state.replay.transitions.state.inner))[:4].reshape(-1, 2)
    moments = state.networks.statistics.observations
    assert float(moments.count) == 8
    np.testing.assert_allclose(moments.mean, seen.mean(axis=0), rtol=1e-5)
    read = normalise(state.networks.statistics, jnp.array([1e6, 3.0]))
    np.testing.assert_allclose(read, [5, 0], atol=1e-3)


def test_different_observations_are_different_vectors() -> None:
    @dataclasses.dataclass(frozen=True)
    class Large(Walk):
        def observe(self, state: Int[Array, ""]) -> PyTree:
            return {"number": state, "flag": state < 0}

    numbers = [0, 1, -1, 2**24, 2**24 + 1, 2**31 - 1, 2**31 - 2, -(2**31)]
    vectors = {tuple(np.asarray(flat_observation(Large("scalar"), jnp.int32(one)))) for one in numbers}
    assert len(vectors) == len(numbers)
    assert flat_observation(Walk("dictionary"), jnp.int32(1)).shape == (1 + 50 + 2,)
    assert flat_observation(Walk("bools"), jnp.int32(1)).dtype == bool
    assert flat_observation(Walk("integers"), jnp.int32(1)).dtype == jnp.int32
