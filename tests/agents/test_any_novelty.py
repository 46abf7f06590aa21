"""Novelty of any observation: every estimator by one flag, its inputs by name, and the default."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from examples.own_environment import KeyCorridor
from examples.rooms import FourRooms
from jaxtyping import Array, Bool, Float, Int, PyTree

from emcts.agents.mcts.variants import VARIANTS, compose
from emcts.agents.novelty import default_kind
from emcts.agents.presets.default import LEARNED, SIMULATOR, fill_open
from emcts.agents.task import Task, make_task
from emcts.envs import DeepSea, Outcome, time_limit
from emcts.novelty import Novelty
from emcts.runs.config import override
from emcts.types import Key, Replaceable, record
from tests.agents.tiny import CATALOGUE, settings

KEY = jax.random.key(0)


@record
class SlideState(Replaceable):
    place: Float[Array, "n"]
    speed: Float[Array, "n"]


@dataclasses.dataclass(frozen=True)
class Slide:
    """Masses that an action pushes to one side or the other; `observe` gives what `view` makes of a state."""

    masses: int = 1
    view: Callable[[SlideState], PyTree] = lambda state: jnp.concatenate([state.place, state.speed])

    @property
    def num_actions(self) -> int:
        return 2

    @property
    def deterministic(self) -> bool:
        return True

    def init(self, key: Key) -> SlideState:
        return SlideState(0.1 * jax.random.normal(key, (self.masses,)), jnp.zeros(self.masses))

    def step(self, state: SlideState, action: Int[Array, ""], key: Key) -> tuple[SlideState, Outcome]:
        push = (0.2 * action - 0.1) / (1.0 + jnp.arange(self.masses))
        speed = 0.9 * state.speed + push - 0.05 * state.place
        state = SlideState(jnp.clip(state.place + speed, -3, 3), speed)
        return state, Outcome((state.place[0] > 2).astype(jnp.float32), jnp.bool_(False), jnp.bool_(False))

    def observe(self, state: SlideState) -> PyTree:
        return self.view(state)

    def legal(self, state: SlideState) -> Bool[Array, "2"]:
        return jnp.ones(2, bool)


def as_dictionary(state: SlideState) -> PyTree:
    near = jnp.abs(state.place) < 1
    return {"place": state.place, "picture": jnp.stack([near, ~near], axis=-1)[None], "speed": state.speed}


class NamedSlide(Slide):
    @property
    def novelty_inputs(self) -> Mapping[str, Callable[[SlideState], Array]]:
        return {"side": lambda state: state.place > 0}


SMALL = {
    "search.simulations": 3,
    "replay.batch_size": 8,
    "replay.capacity": 200,
    "schedule.num_envs": 2,
    "schedule.rollout_length": 5,
    "schedule.updates": 1,
    "schedule.warmup_steps": 20,
    "novelty.rnd_width": 16,
    "novelty.ensemble_hidden": (8,),
    "novelty.ensemble_size": 2,
    "novelty.learning_rate": 1e-2,
    "novelty.hash_bits": 12,
}


def made(env: Any, agent: str, changes: Mapping[str, Any]) -> Any:
    task = make_task(time_limit(env, 20))
    preset = LEARNED if agent == "e-mz" else SIMULATOR
    return compose(VARIANTS[agent], task, fill_open(override(preset, {**SMALL, **changes}), task))


@pytest.mark.parametrize(
    ("env", "changes"),
    [
        (Slide(), {"kind": "hash-set"}),
        (Slide(), {"kind": "hash-counts", "hash": "simhash"}),
        (Slide(), {"kind": "rnd"}),
        (FourRooms(7), {"kind": "rnd"}),
        (FourRooms(7), {"kind": "ensemble"}),
    ],
    ids=["hash-set", "simhash", "rnd", "rnd-of-planes", "ensemble-of-planes"],
)
def test_every_estimator_reads_every_observation(env: Any, changes: Mapping[str, str]) -> None:
    """What it was shown becomes less novel, in two seeds at once; a state of it is arrays."""
    learner = made(env, "e-az", {f"novelty.{name}": value for name, value in changes.items()})
    novelty: Novelty = learner.world_model.novelty
    xs = jnp.stack([env.observe(env.init(KEY)).reshape(-1)] * 4)

    @jax.jit
    @jax.vmap
    def run(key: Key) -> tuple[PyTree, Array, Array]:
        start = novelty.init(key)
        state = jax.lax.fori_loop(0, 60, lambda _, state: novelty.update(state, xs, jnp.ones(4, bool)), start)
        return state, novelty.variance(start, xs[0]), novelty.variance(state, xs[0])

    state, before, after = run(jax.random.split(KEY, 2))
    assert all(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(state))
    np.testing.assert_allclose(before, 1, rtol=0.01)
    assert np.all(after < 0.5 * before)


@pytest.mark.parametrize("kind", ["counts", "hash-set", "hash-counts", "rnd", "ensemble"])
@pytest.mark.parametrize("environment", ["subleq", "deep-sea", "minatar-breakout"])
@pytest.mark.parametrize("agent", ["e-az", "e-mz"])
def test_one_flag_is_enough(environment: str, kind: str, agent: str) -> None:
    """Every estimator with every model and task; only counts need states with numbers."""
    chosen = settings(environment, agent, {"novelty.kind": kind, "novelty.hash_bits": 12})
    if kind == "counts" and environment != "deep-sea":
        with pytest.raises(ValueError, match="take hash-counts"):
            CATALOGUE.compose(environment, agent, chosen)
        return
    learner: Any = CATALOGUE.compose(environment, agent, chosen)
    jax.eval_shape(learner.world_model.novelty.init, KEY)


@pytest.mark.parametrize(("agent", "kind"), [("e-az", "rnd"), ("e-mz", "hash-counts")])
def test_an_iteration_keeps_the_state_in_shape(agent: str, kind: str) -> None:
    """Of networks of observations, and of a grid of the true states that a learned model goes through."""
    learner = made(Slide(), agent, {"novelty.kind": kind})
    state = jax.eval_shape(lambda: learner.init(KEY, learner.env_factory.params(0)))
    acted, _ = jax.eval_shape(learner.act, state)
    learned, _ = jax.eval_shape(learner.learn, acted, jnp.float32(0))
    assert jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), learned) == jax.tree.map(
        lambda leaf: (leaf.shape, leaf.dtype), state
    )


def inputs_of(task: Task, name: str | None) -> np.ndarray:
    state = task.env.init(KEY)
    return np.asarray(task.novelty_input(name)(task.env, state))


def test_parts_of_an_observation_are_inputs_by_name() -> None:
    env = Slide(3, as_dictionary)
    task = make_task(env)
    state = env.init(KEY)
    assert list(task.novelty_inputs) == ["observation", "picture", "place", "speed"]
    np.testing.assert_array_equal(inputs_of(task, "place"), state.place)
    picture = inputs_of(task, "picture")
    assert picture.dtype == bool
    assert picture.shape == (6,)
    np.testing.assert_array_equal(inputs_of(task, "speed+place"), np.concatenate([state.speed, state.place]))
    np.testing.assert_array_equal(inputs_of(task, None), np.concatenate([picture, state.place, state.speed]))
    with pytest.raises(ValueError, match="did you mean 'place'"):
        inputs_of(task, "speed+plaice")


def test_an_environment_names_inputs_of_its_own() -> None:
    """The first is the default, also behind a time limit."""
    for env in (NamedSlide(2), time_limit(NamedSlide(2), 5)):
        task = make_task(env)
        assert list(task.novelty_inputs) == ["side", "observation"]
        assert inputs_of(task, None).dtype == bool
        assert inputs_of(task, "side+observation").shape == (6,)


def integers(state: SlideState) -> Array:
    return jnp.round(100 * state.place).astype(jnp.int32)


def steps_of_a_tenth(state: SlideState) -> Array:
    return jnp.clip(jnp.round(10 * state.place), -10, 10) / 10


@pytest.mark.parametrize(
    ("env", "given", "expected"),
    [
        (DeepSea(3), {}, {"kind": "counts"}),
        (DeepSea(3), {"learned": True}, {"kind": "ensemble"}),
        (Slide(), {"learned": True}, {"kind": "ensemble"}),
        (FourRooms(7), {}, {"kind": "hash-counts", "hash": "xxh32", "bins": 0.0}),
        (KeyCorridor(), {}, {"kind": "hash-counts", "hash": "xxh32", "bins": 0.0}),
        (Slide(1, integers), {}, {"kind": "hash-counts", "hash": "xxh32", "bins": 0.0}),
        (Slide(1, steps_of_a_tenth), {}, {"kind": "hash-counts", "hash": "xxh32", "bins": 0.0}),
        (Slide(), {}, {"kind": "hash-counts", "hash": "xxh32", "bins": 2.0}),
        (Slide(4), {"kind": "hash-set"}, {"kind": "hash-set", "hash": "xxh32", "bins": 0.5}),
        (Slide(5), {}, {"kind": "rnd"}),
        (Slide(5), {"kind": "hash-counts"}, {"hash": "simhash", "bins": 8.0}),
        (Slide(5), {"kind": "ensemble"}, {}),
        (NamedSlide(5), {}, {"kind": "hash-counts", "hash": "xxh32", "bins": 0.0}),
        (NamedSlide(5), {"input_name": "observation"}, {"kind": "rnd"}),
    ],
)
def test_the_default_suits_what_is_observed(
    env: Any, given: Mapping[str, Any], expected: Mapping[str, Any]
) -> None:
    assert default_kind(make_task(env), **{"learned": False, **given}) == expected


def test_the_settings_keep_what_was_given() -> None:
    task = make_task(Slide())

    def filled(**changes: Any) -> Any:
        return fill_open(override(SIMULATOR, {f"novelty.{k}": v for k, v in changes.items()}), task).novelty

    assert (filled().kind, filled().bins) == ("hash-counts", 2.0)
    assert filled(bins=7.0).bins == 7.0
    assert filled(kind="hash-set", bins=0.0).bins == 0.0
    assert filled(kind="rnd").bins is None


@pytest.mark.parametrize(
    ("env", "changes", "message"),
    [
        (Slide(), {"novelty.hash": "md5"}, "unknown novelty.hash 'md5'"),
        (Slide(), {"novelty.input": "place"}, "unknown novelty.input 'place'"),
        (
            DeepSea(3),
            {"novelty.kind": "hash-set", "novelty.bins": 1.0},
            "states of this environment have numbers",
        ),
    ],
)
def test_what_does_not_fit_is_refused(env: Any, changes: Mapping[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        made(env, "e-az", changes)
