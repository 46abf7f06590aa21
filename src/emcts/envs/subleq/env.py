"""SUBLEQ as an environment: the agent writes a program, one word per action."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, UInt8

from emcts.envs.base import Outcome
from emcts.envs.subleq import machine
from emcts.envs.subleq.dialect import Dialect
from emcts.envs.subleq.encoding import Encoding, binary
from emcts.envs.subleq.examples import example_arrays
from emcts.envs.subleq.machine import SLOTS, Example, Result
from emcts.envs.subleq.rewards import Reward
from emcts.envs.subleq.rewards import solved as solved_reward
from emcts.types import Key, Replaceable, record


@record
class State(Replaceable):
    """The program so far, and how it does: `words`, `num_words` and `task` give the rest (see `written`)."""

    words: UInt8[Array, "W"]
    num_words: Int[Array, ""]
    task: Int[Array, ""]
    shown: Result  # on the example that the agent sees
    solved: Bool[Array, ""]  # on that one and all hidden ones
    done: Bool[Array, ""]


@dataclass(frozen=True)
class Subleq:
    """Pays when the words written solve the task; one more action, whatever it is, then ends the episode.

    An episode also ends with word `max_words`, if that one does not solve the task. With several tasks each
    episode has one of them, which shows in its example alone.
    """

    task: str | tuple[str, ...] = "identity"
    word_size: int = 16
    max_words: int = 10
    signed: bool = False
    encoding: Encoding = binary
    reward: Reward = solved_reward

    def __post_init__(self) -> None:
        most = self.dialect.writable_words
        if not 1 <= self.max_words <= most:
            raise ValueError(
                f"max_words is {self.max_words}: SUBLEQ-{self.word_size} has room for 1 to {most} words"
            )
        if not self.tasks:
            raise ValueError("task is empty: name at least one")
        for name in self.tasks:
            example_arrays(name, self.word_size)

    @property
    def deterministic(self) -> bool:
        return True

    @property
    def dialect(self) -> Dialect:
        return Dialect(self.word_size, self.signed)

    @property
    def tasks(self) -> tuple[str, ...]:
        return (self.task,) if isinstance(self.task, str) else self.task

    @property
    def num_actions(self) -> int:
        return self.word_size

    def init(self, key: Key) -> State:
        task = jax.random.randint(key, (), 0, len(self.tasks))
        return self.written(jnp.zeros(self.max_words, jnp.uint8), jnp.int32(0), task)

    def written(self, words: UInt8[Array, "W"], num_words: Int[Array, ""], task: Int[Array, ""]) -> State:
        """The state of an episode in which these words were written, 0 after the first `num_words`."""
        shown, solved = machine.judge(self.dialect, words, self._examples(task))
        done = ~solved & (num_words >= self.max_words)
        return State(words, num_words, task, shown, solved, done)

    def step(self, state: State, action: Int[Array, ""], key: Key) -> tuple[State, Outcome]:
        stays = state.done | state.solved
        place = jnp.arange(self.max_words, dtype=jnp.int32) == state.num_words
        words = jnp.where(place, action.astype(jnp.uint8), state.words)
        written = self.written(words, state.num_words + 1, state.task)
        ended = state.replace(done=jnp.array(True))
        after = jax.tree.map(lambda new, old: jnp.where(stays, old, new), written, ended)
        pays = after.solved & ~stays
        reward = jnp.where(pays, self.reward(after.solved, after.num_words, self.max_words), 0.0)
        return after, Outcome(reward=reward, terminated=after.done, truncated=jnp.array(False))

    def legal(self, state: State) -> Bool[Array, "A"]:
        """Any word may be written."""
        return jnp.ones(self.num_actions, bool)

    def observe(self, state: State) -> Float[Array, "F"]:
        """The words written, followed by `io`."""
        place = jnp.arange(self.max_words, dtype=jnp.int32)
        memory = self.encoding(state.words.astype(jnp.int32), place < state.num_words, self.word_size)
        return jnp.concatenate([memory.reshape(-1), self.io(state)])

    def io(self, state: State) -> Float[Array, "F"]:
        """The observation without the words: the shown example, the input left and the output so far."""
        example = jax.tree.map(lambda x: x[0], self._examples(state.task))
        place = jnp.arange(SLOTS, dtype=jnp.int32)
        inputs, wanted = example.inputs.astype(jnp.int32), example.wanted.astype(jnp.int32)
        is_input, is_wanted = place < example.num_inputs, place < example.num_wanted
        shown = state.shown
        is_wrong = (place == shown.num_right) & (shown.wrong >= 0)
        parts = [
            (inputs, is_input),
            (wanted, is_wanted),
            (inputs, is_input & (place >= shown.inputs_read)),
            (jnp.where(is_wrong, shown.wrong, wanted), (place < shown.num_right) | is_wrong),
        ]
        words, present = (jnp.concatenate(column) for column in zip(*parts, strict=True))
        return self.encoding(words, present, self.word_size).reshape(-1)

    def _examples(self, task: Int[Array, ""]) -> Example:
        tables = [example_arrays(name, self.word_size) for name in self.tasks]
        return jax.tree.map(lambda *rows: jnp.stack(rows)[task], *tables)
