"""The AlphaZero family on MinAtar: the simulator is the model, and whole observations are new or not."""

import dataclasses
from typing import Any

import jax
from jaxtyping import Array

from emcts.agents import gumbel_family as family
from emcts.agents.gumbel_family import GumbelSettings, Problem, constant_factor
from emcts.agents.mcts.agent import Agent
from emcts.envs import MinAtar
from emcts.envs.base import is_deterministic
from emcts.models.codecs import support
from emcts.models.networks import Networks, image_networks
from emcts.training.env_factory import SharedEnv
from emcts.types import Key


@dataclasses.dataclass(frozen=True)
class MinAtarSettings(GumbelSettings):
    """Of a training on a game of MinAtar. Steps are those of all episodes, of one seed."""

    game: str = "breakout"
    sticky_action_prob: float = 0.1
    total_env_steps: int = 5_000_000
    """when training ends"""
    steps_between_evaluations: int = 102_400
    width: int = 128
    """of the hidden layers"""
    channels: int = 16
    """of the convolution"""
    largest_variance: float = 1.0
    """of a value; what is predicted above it is cut off"""
    evaluation_steps: int = 1000
    """after which an evaluation episode is cut off"""


PAPER = MinAtarSettings(hash_bits=24)
"""The paper's list for SUBLEQ, which it also used here, with the full hash."""

BEST = MinAtarSettings()
"""The same with a hash table for as many states as there are steps. No better one was looked for."""


def az(settings: MinAtarSettings) -> Agent:
    return family.az(settings, problem(settings))


def az_ube(settings: MinAtarSettings) -> Agent:
    return family.az_ube(settings, problem(settings))


def e_az(settings: MinAtarSettings) -> Agent:
    return family.e_az(settings, problem(settings))


def problem(settings: MinAtarSettings) -> Problem:
    env = MinAtar(settings.game, settings.sticky_action_prob)
    state = jax.eval_shape(env.init, jax.random.key(0))
    rows, columns, planes = jax.eval_shape(env.observe, state).shape

    def make_networks(key: Key, uncertain: bool) -> Networks:
        return image_networks(
            (rows, columns, planes),
            env.num_actions,
            channels=settings.channels,
            width=settings.width,
            values=support(10, deterministic=is_deterministic(env)),
            uncertain=uncertain,
            key=key,
        )

    def observe(env: MinAtar, state: Any) -> Array:
        return env.observe(state)

    return Problem(
        env_factory=SharedEnv(env),
        make_networks=make_networks,
        observe=observe,
        look=lambda env, state: observe(env, state).reshape(-1),
        leaf_factor=constant_factor(1.0),
        largest_variance=settings.largest_variance,
        longest_episode=settings.evaluation_steps,
        solved=None,
    )
