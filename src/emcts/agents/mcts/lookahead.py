"""Lookahead for UBE targets: the uncertainty Bellman equation, applied once or several times.

Applied once, a target reads the UBE head one step ahead: what an agent learned at the end of an episode reaches its
beginning after as many iterations as the episode has steps, at the earliest. Applied `depth` times, the head is read
`depth` steps ahead.
"""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from emcts.agents.mcts.planners import policy_prior
from emcts.envs.base import AnyEnvironment, FiniteEnvironment
from emcts.models.evaluators import look_up
from emcts.models.simulator import SimulatorPlanningModel
from emcts.models.world_model import PlanningModel
from emcts.search.ube import one_step_lookahead
from emcts.training.data_parallel import SINGLE_DEVICE, DataParallel, per_example
from emcts.types import Key

Variances = Callable[[Key, PyTree], Float[Array, "M A"]]


def lookahead(
    model: PlanningModel[PyTree],
    key: Key,
    env: AnyEnvironment,
    states: PyTree | None,
    depth: int,
    parallel: DataParallel = SINGLE_DEVICE,
) -> Variances:
    """Returns a function of a key and states: `eta(s, a) + g^2 max(u(s'), c eta(s, a))` of each action, 0 if illegal.

    With a `depth` above 1, `u` is the largest of these of `depth - 1`; with 1 it is that of the model.
    `states` are all states of a tabular environment, which are then evaluated once each time; with None, steps branch
    by the number of actions.
    """
    if depth == 1:
        return functools.partial(_variances, model, model)
    if not isinstance(model, SimulatorPlanningModel):
        raise TypeError(
            f"a UBE target that looks {depth} steps ahead needs a simulator to step, got {type(model).__name__}"
        )
    keys = jax.random.split(key, depth - 1)
    if states is None or not isinstance(env, FiniteEnvironment):
        deeper = model
        for number in range(depth - 1):
            deeper = model.with_variance(functools.partial(_of_one, model, deeper, keys[number]))
        return functools.partial(_variances, model, deeper)

    def with_table(table: Float[Array, "S"]) -> SimulatorPlanningModel:
        return model.with_variance(lambda state: look_up(table, env.index(state)))

    def sweep(table: Float[Array, "S"], key: Key) -> tuple[Float[Array, "S"], None]:
        rows = per_example(functools.partial(_variances, model, with_table(table)))
        found = parallel.map_rows(rows, jax.random.split(key, env.num_states), states)
        return jnp.max(found, axis=-1), None

    table, _ = jax.lax.scan(sweep, model.estimate(states).ube, keys)
    return functools.partial(_variances, model, with_table(table))


def _variances(
    roots: PlanningModel[PyTree], model: PlanningModel[PyTree], key: Key, states: PyTree
) -> Float[Array, "M A"]:
    """Returns the variance of one step of a model by each action; `roots` has the same states and legal actions."""
    root, step = roots.root(states, policy_prior), model.recurrent_fn(policy_prior)
    stds = one_step_lookahead(None, key, root, step).stds
    return jnp.where(roots.invalid_actions(states), 0.0, stds) ** 2


def _of_one(
    roots: PlanningModel[PyTree], model: PlanningModel[PyTree], key: Key, state: PyTree
) -> Float[Array, ""]:
    return jnp.max(_variances(roots, model, key, jax.tree.map(lambda leaf: leaf[None], state)))


def further_steps(num_actions: int, depth: int, *, tabular: bool) -> int:
    """Returns the model steps for one state that a `depth` above 1 adds to one-step lookahead."""
    if tabular:
        return (depth - 1) * num_actions
    return sum(num_actions**step for step in range(2, depth + 1))
