"""What a learned model takes for new: by the true states, by latent states, and by an ensemble that disagrees."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from emcts.models.learned.anchored import row_and_column

from emcts.envs import DeepSea
from emcts.models.layers import mlp
from emcts.models.learned.local_uncertainty import (
    EnsembleDisagreement,
    LatentNovelty,
    LocalUncertainty,
    PlannedTransition,
    TrueStateNovelty,
)
from emcts.models.world_model import Transition
from emcts.novelty import Counts, Ensemble, Normalised, Rnd

KEY = jax.random.key(0)
ENV = DeepSea(3, seed=2)
INPUTS = 2 * ENV.size + ENV.num_actions
CELLS = jax.vmap(ENV.state_at)(jnp.arange(ENV.num_states))


def followed() -> LocalUncertainty:
    return TrueStateNovelty(
        Counts(2 * ENV.num_states), lambda env, before, action, after: 2 * env.index(before) + action
    )


def probes(key: Any) -> Any:
    return jax.random.normal(key, (64, INPUTS))


def latents() -> LocalUncertainty:
    rnd = Rnd(
        lambda key: mlp(INPUTS, (32, 8), key=key, indexed=False),
        lambda key: mlp(INPUTS, (32, 8), key=key, indexed=False),
        optax.adam(1e-2),
    )
    return LatentNovelty(Normalised(rnd, probes))


def disagreement() -> LocalUncertainty:
    ensemble = Ensemble(
        lambda key: mlp(INPUTS, (32, 2 * ENV.size), key=key, indexed=False), optax.adam(1e-2), size=4
    )
    return EnsembleDisagreement(Normalised(ensemble, probes))


def encode(state: Any) -> Any:
    return row_and_column(ENV, state)


def moves(cells: Any, actions: Any) -> Transition:
    before = jax.tree.map(lambda leaf: leaf[cells], CELLS)
    after, outcome = jax.vmap(ENV.step, in_axes=(0, 0, None))(before, actions, KEY)
    return Transition(before, actions, outcome.reward, after, outcome.over, jnp.ones(actions.shape, bool))


# Every move but one of the first row; the last row's end the episode.
SHOWN = moves(jnp.array([0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]), jnp.array([0, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1]))


def etas(local_uncertainty: LocalUncertainty, novelty: Any, all_moves: Transition) -> np.ndarray:
    def one(before: Any, action: Any) -> Any:
        carried = local_uncertainty.carry(before)
        passed = PlannedTransition(
            encode(before), action, carried, local_uncertainty.follow(ENV, carried, action, KEY)
        )
        return local_uncertainty.variance(ENV, novelty, passed)

    return np.asarray(jax.jit(jax.vmap(one))(all_moves.before, all_moves.action))


@pytest.mark.parametrize("make", [followed, latents, disagreement])
def test_what_was_shown_is_known_and_the_rest_is_new(make: Any) -> None:
    local_uncertainty = make()
    start = local_uncertainty.novelty.init(KEY)

    @jax.jit
    def show(novelty: Any) -> Any:
        return jax.lax.fori_loop(
            0, 300, lambda _, novelty: local_uncertainty.look(ENV, encode, novelty, SHOWN), novelty
        )

    end = show(start)
    seen, other = (
        etas(local_uncertainty, end, SHOWN),
        etas(local_uncertainty, end, moves(jnp.array([0]), jnp.array([1]))),
    )
    assert np.all(seen < 0.5 * etas(local_uncertainty, start, SHOWN)), "ends included"
    assert other > 2 * seen.max()


@pytest.mark.parametrize("make", [followed, latents, disagreement])
def test_padding_is_not_looked_at(make: Any) -> None:
    local_uncertainty = make()
    start = local_uncertainty.novelty.init(KEY)
    nothing = SHOWN.replace(counts=jnp.zeros_like(SHOWN.counts))
    same = jax.jit(lambda: local_uncertainty.look(ENV, encode, start, nothing))()
    np.testing.assert_array_equal(etas(local_uncertainty, start, SHOWN), etas(local_uncertainty, same, SHOWN))


def test_the_true_model_follows_past_the_end_and_finds_nothing_new() -> None:
    local_uncertainty = followed()
    last = jax.tree.map(lambda leaf: leaf[-1], CELLS)
    after = local_uncertainty.follow(ENV, local_uncertainty.carry(last), jnp.int32(1), KEY)
    beyond = PlannedTransition(
        encode(last), jnp.int32(0), after, local_uncertainty.follow(ENV, after, jnp.int32(0), KEY)
    )
    assert local_uncertainty.variance(ENV, local_uncertainty.novelty.init(KEY), beyond) == 0


def test_a_wrong_prediction_looks_new() -> None:
    """RND learned of true states: the further a predicted one is from them, the newer it is."""
    local_uncertainty = latents()
    every = moves(jnp.repeat(jnp.arange(ENV.num_states), 2), jnp.tile(jnp.arange(2), ENV.num_states))
    novelty = jax.jit(
        lambda start: jax.lax.fori_loop(
            0, 300, lambda _, n: local_uncertainty.look(ENV, encode, n, every), start
        )
    )(local_uncertainty.novelty.init(KEY))
    state = jax.tree.map(lambda leaf: leaf[1], CELLS)
    right = encode(state)
    wrong = right.at[0].set(1.0).at[4].set(1.0)  # two rows and two columns at once
    near, far = (
        float(local_uncertainty.variance(ENV, novelty, PlannedTransition(latent, jnp.int32(0), (), ())))
        for latent in (right, wrong)
    )
    assert far > 5 * near


def test_what_learns_no_targets_cannot_disagree() -> None:
    local_uncertainty = EnsembleDisagreement(latents().novelty)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="Rnd learns no targets: give one that does"):
        local_uncertainty.look(ENV, encode, local_uncertainty.novelty.init(KEY), SHOWN)
