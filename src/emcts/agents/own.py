"""The AlphaZero family in a world of your own: vectors to see, and returns from -1 to 1."""

import jax

from emcts.agents.gumbel_family import Problem, constant_factor
from emcts.envs import AnyEnvironment
from emcts.models.networks import Networks, vector_networks
from emcts.training.env_factory import SharedEnv
from emcts.training.evaluation import ReturnReached
from emcts.types import Key


def problem(
    env: AnyEnvironment, *, width: int = 64, longest_episode: int, solved_return: float | None = None
) -> Problem:
    """For `gumbel_family.e_az` and its rivals: the whole observation is what networks see, and what can be new.

    An evaluation episode is cut off after `longest_episode` steps; a mean return of `solved_return` counts as solved.
    """
    state = jax.eval_shape(env.init, jax.random.key(0))
    seen = jax.eval_shape(env.observe, state)
    if len(seen.shape) != 1:
        raise ValueError(
            f"observations have shape {list(seen.shape)}, and these networks read vectors: flatten them in `observe`, "
            "or compose a Problem with networks of your own"
        )

    def make_networks(key: Key, uncertain: bool) -> Networks:
        return vector_networks(
            seen.shape[0], env.num_actions, widths=(width,) * 2, uncertain=uncertain, key=key
        )

    return Problem(
        env_factory=SharedEnv(env),
        make_networks=make_networks,
        observe=lambda env, state: env.observe(state),
        look=lambda env, state: env.observe(state),
        leaf_factor=constant_factor(1.0),
        largest_variance=1.0,
        longest_episode=longest_episode,
        solved=None if solved_return is None else ReturnReached(solved_return),
    )
