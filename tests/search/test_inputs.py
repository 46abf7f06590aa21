"""A search refuses bad input when it is called, with the field, what was given and what was expected."""

import types
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import emcts


def good_step(action: Any) -> dict[str, Any]:
    ones = jnp.ones(action.shape)
    return {"reward": ones, "discount": ones, "prior_logits": jnp.zeros((*action.shape, 3)), "value": ones}


def run(
    policy: Any = emcts.muzero_policy,
    *,
    root: dict[str, Any] | None = None,
    step: dict[str, Any] | None = None,
    simulations: Any = 4,
    embedding: Any = None,
    **options: Any,
) -> Any:
    def recurrent_fn(params: Any, key: Any, action: Any, state: Any) -> Any:
        output = emcts.RecurrentFnOutput(**{**good_step(action), **(step or {})})
        return output, state if embedding is None else embedding

    fields = {"prior_logits": jnp.zeros((2, 3)), "value": jnp.zeros(2), "embedding": jnp.zeros(2, jnp.int32)}
    roots = emcts.RootFnOutput(**{**fields, **(root or {})})
    return policy(None, jax.random.key(0), roots, recurrent_fn, simulations, **options)


def test_the_good_one_runs() -> None:
    assert run().action.shape == (2,)


@pytest.mark.parametrize(
    ("root", "words"),
    [
        ({"prior_logits": jnp.zeros(3)}, "root.prior_logits .* got \\[3\\]"),
        ({"prior_logits": jnp.zeros((2, 0))}, "root.prior_logits"),
        ({"value": jnp.zeros((2, 1))}, "root.value must have shape \\[2\\], got \\[2, 1\\]"),
        ({"value_variance": jnp.zeros(3)}, "root.value_variance must have shape \\[2\\], got \\[3\\]"),
        (
            {"embedding": {"x": jnp.zeros((3, 2))}},
            "root.embedding\\['x'\\] .* batch size 2, got shape \\[3, 2\\]",
        ),
    ],
)
def test_roots(root: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        run(root=root)


@pytest.mark.parametrize(
    ("step", "words"),
    [
        ({"reward": jnp.zeros((2, 1))}, "output.reward must have shape \\[2\\], got \\[2, 1\\]"),
        ({"discount": jnp.zeros(())}, "output.discount"),
        (
            {"prior_logits": jnp.zeros((2, 4))},
            "output.prior_logits must have shape \\[2, 3\\], got \\[2, 4\\]",
        ),
        ({"value": jnp.zeros(3)}, "output.value"),
        ({"reward_variance": jnp.zeros(1)}, "output.reward_variance"),
        ({"value_variance": jnp.zeros(1)}, "output.value_variance"),
    ],
)
def test_steps(step: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        run(step=step)


@pytest.mark.parametrize("field", ["reward", "discount", "prior_logits", "value"])
def test_missing_fields(field: str) -> None:
    def recurrent_fn(params: Any, key: Any, action: Any, state: Any) -> Any:
        return types.SimpleNamespace(**{**good_step(action), field: None}), state

    root = emcts.RootFnOutput(jnp.zeros((2, 3)), jnp.zeros(2), jnp.zeros(2))
    with pytest.raises(TypeError, match=f"no field '{field}'"):
        emcts.muzero_policy(None, jax.random.key(0), root, recurrent_fn, 4)


def test_integers_are_no_values() -> None:
    with pytest.raises(TypeError, match="root.value must be floating-point, got int32"):
        run(root={"value": jnp.zeros(2, jnp.int32)})


def test_a_forgotten_embedding() -> None:
    def recurrent_fn(params: Any, key: Any, action: Any, state: Any) -> Any:
        return emcts.RecurrentFnOutput(**good_step(action))

    root = emcts.RootFnOutput(jnp.zeros((2, 3)), jnp.zeros(2), jnp.zeros(2))
    with pytest.raises(TypeError, match="did you forget the embedding"):
        emcts.muzero_policy(None, jax.random.key(0), root, recurrent_fn, 4)


@pytest.mark.parametrize(
    ("embedding", "error"),
    [((jnp.zeros(2),), ValueError), (jnp.zeros((2, 1), jnp.int32), ValueError), (jnp.zeros(2), TypeError)],
)
def test_embeddings_that_change(embedding: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="embedding"):
        run(embedding=embedding)


@pytest.mark.parametrize("policy", [emcts.muzero_policy, emcts.gumbel_muzero_policy, emcts.uct_policy])
def test_options(policy: Any) -> None:
    with pytest.raises(
        ValueError, match="beta must be one number, or one for each of the 2 .* shape \\[3\\]"
    ):
        run(policy, beta=jnp.zeros(3))
    with pytest.raises(ValueError, match="num_simulations must be at least 1, got 0"):
        run(policy, simulations=0)
    with pytest.raises(ValueError, match="max_depth must be at least 1, got 0"):
        run(policy, max_depth=0)
    with pytest.raises(ValueError, match="invalid_actions .* \\[2, 3\\], got \\[2, 2\\]"):
        run(policy, invalid_actions=jnp.zeros((2, 2)))


def test_traced_sizes() -> None:
    from emcts.search.inputs import read_count

    with pytest.raises(TypeError, match="num_simulations must be a Python int"):
        jax.jit(lambda n: read_count(n, "num_simulations"))(3)
    with pytest.raises(TypeError, match="max_depth must be a Python int.* float"):
        read_count(2.5, "max_depth")
