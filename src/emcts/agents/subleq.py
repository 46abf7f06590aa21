"""The AlphaZero family writing SUBLEQ programs: what is new is how a program behaves, or the program itself."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, UInt8

from emcts.agents import gumbel_family as family
from emcts.agents.gumbel_family import GumbelSettings, Problem, constant_factor
from emcts.agents.mcts.agent import Agent
from emcts.envs import Subleq
from emcts.models.networks import Networks, vector_networks
from emcts.registry import lookup
from emcts.training.env_factory import Programs
from emcts.training.evaluation import episodes_solved
from emcts.types import Key


@dataclasses.dataclass(frozen=True)
class SubleqSettings(GumbelSettings):
    """Of a training on a SUBLEQ task. Steps are those of all episodes, of one seed."""

    task: str = "identity"
    word_size: int = 16
    max_words: int = 10
    signed: bool = False
    hash_of: str = "io"
    """what of a state can be new: io (how the program behaves on the example) or full (the program too)"""


PAPER = SubleqSettings(hash_bits=24)
"""The paper's list, with the IO hash."""

BEST = SubleqSettings(novelty="counts", replay_capacity=1_000_000, discount=0.9)
"""What worked best here: docs/agents.md says why."""


def az(settings: SubleqSettings) -> Agent:
    return family.az(settings, problem(settings))


def az_ube(settings: SubleqSettings) -> Agent:
    return family.az_ube(settings, problem(settings))


def e_az(settings: SubleqSettings) -> Agent:
    return family.e_az(settings, problem(settings))


def problem(settings: SubleqSettings) -> Problem:
    env = Subleq(settings.task, settings.word_size, settings.max_words, settings.signed)
    state = jax.eval_shape(env.init, jax.random.key(0))
    (num_inputs,) = jax.eval_shape(env.observe, state).shape

    def make_networks(key: Key, uncertain: bool) -> Networks:
        widths = (settings.width,) * 2
        return vector_networks(num_inputs, env.num_actions, widths=widths, uncertain=uncertain, key=key)

    looks = {"io": behaviour, "full": behaviour_and_program}
    return Problem(
        env_factory=Programs(env),
        make_networks=make_networks,
        observe=lambda env, state: env.observe(state),
        look=lookup(looks, settings.hash_of, "hash_of"),
        leaf_factor=constant_factor(1.0),
        largest_variance=1.0,
        longest_episode=settings.max_words + 1,
        solved=episodes_solved,
    )


def behaviour(env: Subleq, state: Any) -> UInt8[Array, "5"]:
    """The observation without the program, in as few bytes as tell it apart: equal just when `env.io` is."""
    shown = state.shown
    parts = [state.task, shown.inputs_read, shown.num_right, shown.wrong >= 0, shown.wrong]
    return jnp.stack([part.astype(jnp.uint8) for part in parts])


def behaviour_and_program(env: Subleq, state: Any) -> UInt8[Array, "F"]:
    """The whole observation, likewise."""
    count = state.num_words.astype(jnp.uint8)[None]
    return jnp.concatenate([behaviour(env, state), count, state.words])
