"""SUBLEQ as an environment: the agent writes a program, one word per action."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, UInt8

from emcts.envs.base import ArtifactRecord, Outcome, tree_where
from emcts.envs.subleq import machine
from emcts.envs.subleq.assembly import disassemble
from emcts.envs.subleq.dialect import SLOTS, Dialect
from emcts.envs.subleq.examples import example_arrays, examples, more_shown_arrays
from emcts.envs.subleq.machine import Events, Example, Result
from emcts.types import Key, Replaceable, record

TRACED = 8  # instructions of the novelty input `first_results`

Encoding = Callable[[Int[Array, "L"], Bool[Array, "L"], int], Float[Array, "L F"]]
Reward = Callable[[Bool[Array, ""], Int[Array, ""], int], Float[Array, ""]]


def binary(words: Int[Array, "L"], present: Bool[Array, "L"], word_size: int) -> Float[Array, "L F"]:
    """Encodes each word in binary, lowest bit first, then a bit that is 1 where no word is present."""
    places = jnp.arange((word_size - 1).bit_length(), dtype=jnp.int32)
    bits = (words.astype(jnp.int32)[:, None] >> places[None]) & 1
    bits = bits * present[:, None]
    return jnp.concatenate([bits, ~present[:, None]], axis=1).astype(jnp.float32)


def one_hot(words: Int[Array, "L"], present: Bool[Array, "L"], word_size: int) -> Float[Array, "L F"]:
    """Encodes each word as one of `word_size + 1` places, of which the last means that no word is present."""
    place = jnp.where(present, words.astype(jnp.int32), word_size)
    return (place[:, None] == jnp.arange(word_size + 1, dtype=jnp.int32)[None]).astype(jnp.float32)


def solved(is_solved: Bool[Array, ""], num_words: Int[Array, ""], max_words: int) -> Float[Array, ""]:
    """Rewards a program that solves the task with 1, as in the paper."""
    return is_solved.astype(jnp.float32)


def shortest(is_solved: Bool[Array, ""], num_words: Int[Array, ""], max_words: int) -> Float[Array, ""]:
    """Rewards a solution of one word with 1, and with 1 / `max_words` less for every further word."""
    return is_solved * (1 + max_words - num_words).astype(jnp.float32) / max_words


@record
class State(Replaceable):
    """The program so far and its results, which follow from `words`, `num_words` and `task` (see `written`)."""

    words: UInt8[Array, "W"]  # the program, 0 where nothing was written
    num_words: Int[Array, ""]  # that were written
    task: Int[Array, ""]  # its place among the environment's tasks
    shown: Result  # on the example that the agent sees
    solved: Bool[Array, ""]  # on that one and all hidden ones
    done: Bool[Array, ""]  # whether the episode is over


@record
class PackedState:
    """What a state is rebuilt from."""

    words: UInt8[Array, "W"]
    num_words: UInt8[Array, ""]
    task: Int[Array, ""]


@record
class ProgramArtifact:
    """The artifact of a success: the words that solve the task, 0 after the first `num_words`."""

    words: UInt8[Array, "W"] | UInt8[np.ndarray, "W"]
    num_words: Int[Array, ""] | Int[np.ndarray, ""]


@dataclass(frozen=True)
class Subleq:
    """Rewards the word that completes a solution of the task; one more action, whatever it is, then ends the episode.

    An episode also ends with word `max_words`, if that one does not solve the task. With several tasks each episode has
    one of them, which shows in its example alone.
    """

    task: str | tuple[str, ...] = "identity"  # or several, of which `init` samples one
    word_size: int = 16  # N: words of memory
    max_words: int = 10  # of a program
    signed: bool = False  # whether jumps test two's complement
    encoding: Encoding = binary  # of a word in observations
    reward: Reward = solved  # of the word that completes a solution

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
        """Whether `step` ignores its key."""
        return True

    @property
    def dialect(self) -> Dialect:
        """The size of words and the semantics of jumps."""
        return Dialect(self.word_size, self.signed)

    @property
    def tasks(self) -> tuple[str, ...]:
        """The names of the tasks."""
        return (self.task,) if isinstance(self.task, str) else self.task

    @property
    def num_actions(self) -> int:
        return self.word_size

    def init(self, key: Key) -> State:
        task = jax.random.randint(key, (), 0, len(self.tasks))
        return self.written(jnp.zeros(self.max_words, jnp.uint8), jnp.int32(0), task)

    def written(self, words: UInt8[Array, "W"], num_words: Int[Array, ""], task: Int[Array, ""]) -> State:
        """The state of an episode in which these words were written, 0 after the first `num_words`."""
        shown, solved = machine.run_all(self.dialect, words, self._examples(task))
        done = ~solved & (num_words >= self.max_words)
        return State(words, num_words, task, shown, solved, done)

    def step(self, state: State, action: Int[Array, ""], key: Key) -> tuple[State, Outcome]:
        stays = state.done | state.solved
        place = jnp.arange(self.max_words, dtype=jnp.int32) == state.num_words
        words = jnp.where(place, jnp.asarray(action, jnp.uint8), state.words)
        written = self.written(words, state.num_words + 1, state.task)
        ended = state.replace(done=jnp.array(True))
        after = tree_where(stays, ended, written)
        completed = after.solved & ~stays
        reward = jnp.where(completed, self.reward(after.solved, after.num_words, self.max_words), 0.0)
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

    def action_names(self, state: State) -> tuple[str, ...]:
        """The words by number, those of the three addresses as assembly has them."""
        addresses = ("@IN", "@OUT", "@HALT")
        return (*map(str, range(self.word_size - len(addresses))), *addresses)

    def render(self, state: State) -> str:
        """The program so far as assembly, and what it does with the example that the agent sees."""
        words = [int(word) for word in np.asarray(state.words)[: int(state.num_words)]]
        inputs, wanted = examples(self.tasks[int(state.task)], self.word_size)[0]
        wanted = self.dialect.values(wanted)
        num_right, wrong = int(state.shown.num_right), int(state.shown.wrong)
        verdict = "solved" if state.solved else f"{num_right} of {len(wanted)} outputs right"
        rows = {
            "words": words,
            "input": self.dialect.values(inputs),
            "wanted": wanted,
            "output": (*wanted[:num_right], *((wrong,) if wrong >= 0 else ())),
        }
        lines = [f"{name:<7}{' '.join(map(str, values)) or '-'}" for name, values in rows.items()]
        program = disassemble(words, self.word_size) if words else "; no word yet\n"
        return "\n".join([program, *lines, verdict])

    def pack(self, state: State) -> PackedState:
        """The program and the task: the results of the program are computed again by `unpack`."""
        return PackedState(state.words, state.num_words.astype(jnp.uint8), state.task)

    def unpack(self, packed: PackedState) -> State:
        return self.written(packed.words, packed.num_words.astype(jnp.int32), packed.task)

    def artifact(self, state: State) -> ProgramArtifact:
        return ProgramArtifact(state.words, state.num_words)

    def artifact_record(self, artifact: ProgramArtifact, title: str = "") -> ArtifactRecord:
        """The words as data, and as assembly below a comment with the title and the words."""
        words = [int(word) for word in artifact.words[: int(artifact.num_words)]]
        numbers = " ".join(map(str, words))
        heading = f"{title}: {numbers}" if title else numbers
        text = f"; {heading}\n{disassemble(words, self.word_size)}\n"
        return ArtifactRecord({"words": words}, text, ".asm")

    def _examples(self, task: Int[Array, ""]) -> Example:
        return self._of_task(example_arrays, task)

    def _of_task(self, arrays: Callable[[str, int], Example], task: Int[Array, ""]) -> Example:
        tables = [arrays(name, self.word_size) for name in self.tasks]
        return jax.tree.map(lambda *rows: jnp.stack(rows)[task], *tables)

    def results_on_more_examples(self, state: State) -> Result:
        """The results on the examples of `more_shown_examples`."""
        more = self._of_task(more_shown_arrays, state.task)
        run = partial(machine.run, self.dialect, state.words)
        return jax.vmap(lambda example: run(example, jnp.array(True)))(more)

    def first_events(self, state: State, count: int) -> Events:
        """The first instructions of the program on the shown example."""
        shown = jax.tree.map(lambda x: x[0], self._examples(state.task))
        return machine.first_events(self.dialect, state.words, shown, count)


def behaviour(env: Subleq, state: State) -> UInt8[Array, "5"]:
    """Novelty input: the observation without the program, in as few bytes as tell it apart (equal iff `io` is)."""
    return jnp.append(state.task.astype(jnp.uint8), _behaviour_on(state.shown))


def behaviour_on_examples(env: Subleq, state: State) -> UInt8[Array, "F"]:
    """Novelty input: the behaviour on the shown example and on three more, none of which is a hidden one."""
    more = jax.vmap(_behaviour_on)(env.results_on_more_examples(state))
    return jnp.concatenate([behaviour(env, state), more.reshape(-1)])


def first_results(env: Subleq, state: State) -> UInt8[Array, "F"]:
    """Novelty input: the results of the first instructions on the shown example, and which read or write.

    Programs that compute the same values in the same order are equal, wherever their words are.
    """
    events = env.first_events(state, TRACED)
    return jnp.concatenate([state.task.astype(jnp.uint8)[None], events.words, events.kinds])


def length(env: Subleq, state: State) -> UInt8[Array, "1"]:
    """Novelty input, to join with others: the number of words, and so of those left."""
    return state.num_words.astype(jnp.uint8)[None]


def _behaviour_on(result: Result) -> UInt8[Array, "4"]:
    parts = [result.inputs_read, result.num_right, result.wrong >= 0, result.wrong]
    return jnp.stack([part.astype(jnp.uint8) for part in parts])


def behaviour_and_program(env: Subleq, state: State) -> UInt8[Array, "F"]:
    """Novelty input: the whole observation, in as few bytes as tell it apart."""
    count = state.num_words.astype(jnp.uint8)[None]
    return jnp.concatenate([behaviour(env, state), count, state.words])
