"""SUBLEQ as a task: a state can be novel by how the program behaves, or by the program as well."""

import dataclasses

import jax.numpy as jnp
from jaxtyping import Array, PyTree, UInt8

from emcts.agents.task import Task
from emcts.envs import Subleq
from emcts.training.env_factory import SharedEnv
from emcts.training.evaluation import episodes_solved


@dataclasses.dataclass(frozen=True)
class SubleqOptions:
    """The environment."""

    task: str = "identity"
    """what programs are to do: `emcts subleq tasks` lists them"""
    word_size: int = 16
    max_words: int = 10
    signed: bool = False


def subleq(options: SubleqOptions) -> Task:
    return Task(
        env_factory=SharedEnv(Subleq(options.task, options.word_size, options.max_words, options.signed)),
        max_steps=options.max_words + 1,
        solved=episodes_solved,
        bounded_returns=True,
        novelty_inputs={"io": behaviour, "full": behaviour_and_program},
    )


def behaviour(env: Subleq, state: PyTree) -> UInt8[Array, "5"]:
    """The observation without the program, in as few bytes as tell it apart: equal just when `env.io` is."""
    shown = state.shown
    parts = [state.task, shown.inputs_read, shown.num_right, shown.wrong >= 0, shown.wrong]
    return jnp.stack([part.astype(jnp.uint8) for part in parts])


def behaviour_and_program(env: Subleq, state: PyTree) -> UInt8[Array, "F"]:
    """The whole observation, likewise."""
    count = state.num_words.astype(jnp.uint8)[None]
    return jnp.concatenate([behaviour(env, state), count, state.words])
