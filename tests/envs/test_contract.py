"""One contract for every environment, and a broken environment for every rule of the contract."""

import inspect
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from emcts.envs import (
    ContractError,
    DeepSea,
    MinAtar,
    Outcome,
    Subleq,
    auto_reset,
    check,
    from_gymnasium,
    from_gymnax,
    from_pgx,
    time_limit,
)
from emcts.envs.contract import check_shortly, check_types
from emcts.envs.minatar import GAMES
from emcts.types import Replaceable, record

KEY = jax.random.key(1)

# With whether keys make a difference, and the steps in which every episode ends.
ENVIRONMENTS = {
    "deep-sea-2": (DeepSea(2), False, 8),
    "deep-sea-10": (DeepSea(10, 3), False, 16),
    "deep-sea-same-action": (DeepSea(10, None), False, 16),
    "deep-sea-stochastic": (DeepSea(10, stochastic=True), True, 16),
    "deep-sea-100": (DeepSea(100), False, 128),
    "time-limit": (time_limit(DeepSea(10), 6), False, 16),
    "time-limit-stochastic": (time_limit(DeepSea(4, stochastic=True), 6), True, 16),
}
ELSEWHERE = {
    "pgx-2048": ("pgx", lambda pgx: from_pgx(pgx.make("2048"))),
    "gymnax-catch": ("gymnax", lambda gymnax: from_gymnax(*gymnax.make("Catch-bsuite"))),
    "gymnasium-cart-pole": (
        "gymnasium",
        lambda gymnasium: from_gymnasium(lambda: gymnasium.make("CartPole-v1")),
    ),
}


@pytest.mark.parametrize(("env", "random", "steps"), ENVIRONMENTS.values(), ids=ENVIRONMENTS)
def test_contract(env, random, steps):
    checked = check(env, key=KEY, steps=steps, samples=2)
    assert checked.ended == 8, "every episode must have ended, or the rules about ends were not tried"
    assert checked.random == random


@pytest.mark.parametrize(
    ("env", "random"),
    [(Subleq("identity", max_words=6), False), (Subleq(("identity", "negate"), signed=True), True)],
    ids=["one-task", "signed-two-tasks"],
)
def test_contract_of_subleq(env, random):
    # Its interpreter takes seconds when it is not compiled: one sample.
    checked = check(env, key=KEY, steps=12, samples=1)
    assert checked.ended == 8
    assert checked.random == random


# Seaquest takes half a minute to compile.
@pytest.mark.parametrize(
    "game", [pytest.param(game, marks=[pytest.mark.long] if game == "seaquest" else []) for game in GAMES]
)
def test_contract_of_minatar(game):
    pytest.importorskip("pgx")
    checked = check(MinAtar(game, max_steps=50), key=KEY, steps=60, samples=1)
    assert checked.ended == 8
    assert checked.random


@pytest.mark.parametrize(("package", "make"), ELSEWHERE.values(), ids=ELSEWHERE)
def test_contract_of_adapters(package, make):
    env = time_limit(make(pytest.importorskip(package)), 100)
    checked = check(env, key=KEY, samples=1)
    assert checked.ended == 8
    assert checked.random


def test_contract_of_auto_reset():
    checked = check(auto_reset(DeepSea(10, stochastic=True)), key=KEY, steps=100, samples=2, resets=True)
    assert checked.ended == 8 * 10
    with pytest.raises(ContractError, match="absorb"):
        check(auto_reset(DeepSea(10)), key=KEY)


@record
class CorridorState(Replaceable):
    place: jax.Array
    over: jax.Array


class Corridor:
    """Three places; action 1 walks on, action 0 looks around, action 2 is illegal at the start."""

    num_actions = 3

    def init(self, key):
        return CorridorState(jnp.int32(0), jnp.bool_(False))

    def step(self, state, action, key):
        walks = (action == 1) & ~state.over
        place = state.place + walks
        over = place >= 3
        reward = jnp.where(walks & over, 1.0, 0.0).astype(jnp.float32)
        return CorridorState(place, over), Outcome(reward, over, jnp.bool_(False))

    def observe(self, state):
        return jax.nn.one_hot(state.place, 4)

    def legal(self, state):
        return jnp.array([True, True, True]).at[2].set(state.place > 0)


class DictionaryObservations(Corridor):
    def observe(self, state):
        return {"place": super().observe(state), "more": {"over": state.over}}


class RandomSteps(Corridor):
    def step(self, state, action, key):
        return super().step(state, jnp.where(jax.random.bernoulli(key), 1, action), key)

    def legal(self, state):
        return jnp.ones(3, bool)


class RandomStarts(Corridor):
    def init(self, key):
        return CorridorState(jax.random.randint(key, (), 0, 2), jnp.bool_(False))


@pytest.mark.parametrize("env", [Corridor(), DictionaryObservations()])
def test_a_good_environment_passes(env):
    checked = check(env)
    assert (checked.ended, checked.random) == (8, False)
    assert check_shortly(env, 20).steps == 8 * 21


def test_random_steps_are_told_from_random_starts():
    checked = check_shortly(RandomStarts(), 20)
    assert (checked.random, checked.random_steps) == (True, False)
    checked = check_shortly(RandomSteps(), 20)
    assert (checked.random, checked.random_steps) == (True, True)


class NotAnEnvironment:
    num_actions = 2


class NoActions(Corridor):
    num_actions = 0


class BranchesInPython(Corridor):
    def step(self, state, action, key):
        return super().step(state, action if state.place < 2 else 1 - action, key)


class GrowingState(Corridor):
    def step(self, state, action, key):
        state, outcome = super().step(state, action, key)
        return state.replace(place=state.place.astype(jnp.float32)), outcome


class TwoObservations(Corridor):
    def observe(self, state):
        return state.place, state.over


class TupleOutcome(Corridor):
    def step(self, state, action, key):
        state, outcome = super().step(state, action, key)
        return state, (outcome.reward, outcome.terminated, outcome.truncated)


class IntegerReward(Corridor):
    def step(self, state, action, key):
        state, outcome = super().step(state, action, key)
        # Rebuilt from leaves, or the type checker of the tests would speak first.
        leaves, tree = jax.tree.flatten(outcome)
        return state, jax.tree.unflatten(tree, [leaves[0].astype(jnp.int32), *leaves[1:]])


class ShortMask(Corridor):
    def legal(self, state):
        return super().legal(state)[:2]


class InfiniteReward(Corridor):
    def step(self, state, action, key):
        state, outcome = super().step(state, action, key)
        return state, outcome.replace(reward=jnp.where(outcome.reward > 0, jnp.inf, outcome.reward))


class NothingLegal(Corridor):
    def legal(self, state):
        return super().legal(state) & ~state.over


class PayingIllegal(Corridor):
    def step(self, state, action, key):
        after, outcome = super().step(state, action, key)
        extra = jnp.where((action == 2) & (state.place == 0), 1.0, 0.0)
        return after, outcome.replace(reward=outcome.reward + extra)


class ObeysIllegal(Corridor):
    def step(self, state, action, key):
        return super().step(state, jnp.where(action == 2, 1, action), key)


class PaysForEver(Corridor):
    def step(self, state, action, key):
        after, outcome = super().step(state, action, key)
        return after, outcome.replace(reward=outcome.terminated.astype(jnp.float32))


class WalksOn(Corridor):
    def step(self, state, action, key):
        after, outcome = super().step(state, action, key)
        return after.replace(place=after.place + state.over), outcome


class ComesBack(Corridor):
    def step(self, state, action, key):
        after, outcome = super().step(state, action, key)
        return after, outcome.replace(terminated=after.over & ~state.over)


class PythonCounter(Corridor):
    calls = 0

    def step(self, state, action, key):
        self.calls += 1
        after, outcome = super().step(state, action, key)
        return after, outcome.replace(reward=jnp.where(state.over, 0.0, -float(self.calls)))


class FreshKeys(Corridor):
    def init(self, key):
        return super().init(key).replace(place=jnp.int32(np.random.default_rng().integers(0, 2**30)))


class NoticesTheCompiler(Corridor):
    def init(self, key):
        traced = isinstance(key, jax.core.Tracer)
        return super().init(key).replace(place=jnp.int32(1 if traced else 0))


@jax.custom_batching.custom_vmap
def one_more_in_a_batch(x):
    return x


@one_more_in_a_batch.def_vmap
def _(axis_size, in_batched, x):
    return x + 1, True


class NoticesTheBatch(Corridor):
    def step(self, state, action, key):
        after, outcome = super().step(state, action, key)
        penalty = one_more_in_a_batch(outcome.reward) - outcome.reward
        return after, outcome.replace(reward=outcome.reward - jnp.where(state.over, 0.0, penalty))


class SecretlyRandom(Corridor):
    deterministic = True

    def step(self, state, action, key):
        after, outcome = super().step(state, action, key)
        noise = jnp.where(state.over, 0.0, -jax.random.uniform(key))
        return after, outcome.replace(reward=outcome.reward + noise)


class ForgetsTheKey(Corridor):
    def step(self, state, action):  # type: ignore[override]
        return super().step(state, action, None)


class AsksForMore(Corridor):
    def init(self, key, size):  # type: ignore[override]
        return super().init(key)


class NamesNothing(Corridor):
    def legal(self):  # type: ignore[override]
        return jnp.ones(3, bool)


class GymnasiumStep(Corridor):
    def step(self, state, action, key):
        after, outcome = super().step(state, action, key)
        return after, outcome.reward, outcome.terminated, outcome.truncated, {}


class OtherNames(Corridor):
    """Arguments are given by position, and more may have defaults."""

    def init(self, rng, size=3):
        return super().init(rng)

    def step(self, *everything):
        return super().step(*everything)


class NeverEnds(Corridor):
    def step(self, state, action, key):
        return super().step(state, jnp.int32(0), key)

    def legal(self, state):
        return jnp.ones(3, bool)


def test_arguments_may_have_any_name():
    assert check(OtherNames(), samples=1).ended == 8


def test_episodes_that_do_not_end_are_warned_of():
    with pytest.warns(UserWarning, match="no episode ended within 16 random steps"):
        assert check(NeverEnds(), steps=16, samples=1).ended == 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check(Corridor(), samples=1)
        assert check_shortly(NeverEnds(), 15).ended == 0, "a training that is about to begin needs no warning"


class NumpyObservation(Corridor):
    def observe(self, state):
        return np.eye(4)[np.asarray(state.place)]


class IntegerObservation(Corridor):
    def observe(self, state):
        return jnp.zeros(4).at[int(state.place)].set(1)


class ListOfPlaces(Corridor):
    def observe(self, state):
        return [0.0, 1.0, 2.0, 3.0][state.place]


class SelectedObservation(Corridor):
    def observe(self, state):
        place = super().observe(state)
        return place[place > 0]


@pytest.mark.parametrize("wrap", [lambda env: env, lambda env: time_limit(env, 9), auto_reset])
@pytest.mark.parametrize(
    ("broken", "member", "offset", "reason", "hint"),
    [
        (NumpyObservation, "observe", 2, "conversion method __array__", "Use jax.numpy in place of numpy"),
        (BranchesInPython, "step", 2, "boolean conversion", "Use jnp.where or jax.lax.cond in place of if"),
        (IntegerObservation, "observe", 2, "Abstract tracer value", "Keep it an array, with jnp.int32"),
        (ListOfPlaces, "observe", 2, "__index__", "Index an array of jax.numpy"),
        (SelectedObservation, "observe", 3, "boolean indices", "Use jnp.where in place of a boolean index"),
    ],
)
def test_code_that_cannot_be_traced_is_named(broken, member, offset, reason, hint, wrap):
    with pytest.raises(ContractError) as error:
        check_types(wrap(broken()))
    line = inspect.getsourcelines(broken)[1] + offset
    assert error.value.rule == "jit"
    message = str(error.value)
    assert f"it cannot be traced in {member} (test_contract.py, line {line}). " in message
    assert reason in message
    assert hint in message
    assert "\n" not in message


class Misspelled(Corridor):
    def step(self, state, action, key):
        return super().step(state.plaec, action, key)


class StepOfText(Corridor):
    """What JAX cannot trace is counted before."""

    def step(self, state, action, key):
        return "state", 0.0, False, False, {"why": "text"}


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (Misspelled, r"'runs': AttributeError: .*plaec.* in step \(test_contract.py, line \d+\)$"),
        (GymnasiumStep, r"'types': step returned 5 values, not \(state, Outcome\("),
        (StepOfText, r"'types': step returned 5 values, not \(state, Outcome\("),
        (ForgetsTheKey, r"'arguments': step takes \(state, action\)"),
        (GrowingState, r"'types': a step turns the state CorridorState\("),
    ],
)
@pytest.mark.parametrize("wrap", [lambda env: env, lambda env: time_limit(env, 9), auto_reset])
def test_messages_are_about_the_wrapped_environment(broken, message, wrap):
    with pytest.raises(ContractError, match=message):
        check_types(wrap(broken()))


class LongCorridor(Corridor):
    """Ends after `length` moves, which take random actions many steps; a subclass begins again in the same step."""

    length, resets = 30, False

    def step(self, state, action, key):
        place = state.place + ((action == 1) & ~state.over)
        over = place >= self.length
        reward = jnp.where(over & ~state.over, 1.0, 0.0)
        after = CorridorState(place, over)
        if self.resets:
            after = jax.tree.map(lambda new, old: jnp.where(over, new, old), self.init(key), after)
        return after, Outcome(reward, over, jnp.bool_(False))

    def observe(self, state):
        return state.place.astype(jnp.float32)

    def legal(self, state):
        return jnp.ones(3, bool)


class ResetsItself(LongCorridor):
    resets = True


class ShortlyResetsItself(ResetsItself):
    length = 3


@pytest.mark.parametrize("broken", [ResetsItself, ShortlyResetsItself])
def test_a_time_limit_does_not_hide_what_follows_an_end(broken):
    check(time_limit(broken(), 20), steps=21, samples=1)
    with pytest.raises(ContractError, match=r"'absorb'.*terminated changed after the end"):
        check_shortly(time_limit(time_limit(broken(), 20), 40), 20)


def test_a_check_before_training_plays_on_until_an_episode_terminates():
    checked = check_shortly(time_limit(LongCorridor(), 20), 20)
    assert checked.terminated > 0
    assert checked.steps > 8 * (21 + 64)
    assert checked.ended == 8
    assert checked.paying == 0, "episodes with the time limit end before anything is paid"
    never = check_shortly(time_limit(NeverEnds(), 20), 20)
    assert (never.ended, never.terminated) == (8, 0)
    assert never.steps > 8 * (21 + 64)


def test_what_is_reported_of_a_limited_environment_is_not_that_of_the_unlimited():
    class Paid(LongCorridor):
        def step(self, state, action, key):
            after, outcome = super().step(state, action, key)
            return after, outcome.replace(reward=jnp.where(state.place == 2, 0.0, 1.0) * ~state.over)

    env = time_limit(Paid(), 2)
    assert check_shortly(env, 2).paying == check(env, steps=3, samples=1).paying == 1.0


@pytest.mark.parametrize(
    ("broken", "rule", "hint"),
    [
        (NotAnEnvironment, "protocol", "NotAnEnvironment"),
        (
            ForgetsTheKey,
            "arguments",
            r"step takes \(state, action\), and is called as step\(state, action, key\)",
        ),
        (AsksForMore, "arguments", r"init takes \(key, size\).*missing a required argument: 'size'"),
        (NamesNothing, "arguments", r"legal takes \(\), and is called as legal\(state\)"),
        (
            GymnasiumStep,
            "types",
            r"step returned 5 values, not \(state, Outcome\(reward, terminated, truncated\)\)",
        ),
        (NoActions, "actions", "num_actions is 0"),
        (BranchesInPython, "jit", "traced"),
        (GrowingState, "types", "float32"),
        (TwoObservations, "types", "dict"),
        (TupleOutcome, "types", "tuple"),
        (IntegerReward, "types", "reward is int32"),
        (ShortMask, "types", r"legal is bool\[2\]"),
        (InfiniteReward, "finite", "reward"),
        (NothingLegal, "legal", "no legal action"),
        (PayingIllegal, "legal", "positive reward"),
        (ObeysIllegal, "legal", "changed the observation"),
        (PaysForEver, "absorb", "other than 0"),
        (WalksOn, "absorb", "place"),
        (ComesBack, "absorb", "terminated"),
        (PythonCounter, "pure", "step gave two results"),
        (FreshKeys, "pure", "init gave two results"),
        (NoticesTheCompiler, "jit", "init"),
        (NoticesTheBatch, "vmap", "in a batch"),
        (SecretlyRandom, "deterministic", "a step depends on its key"),
    ],
)
def test_each_rule_is_named_when_broken(broken, rule, hint):
    with pytest.raises(ContractError, match=hint) as error:
        check(broken(), samples=2)
    assert error.value.rule == rule
    assert repr(rule) in str(error.value)
