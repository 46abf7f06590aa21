"""Training as a run sees it: all seeds at once, one chunk after the other, the host in between."""

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from emcts.agents.evaluating import Evaluated
from emcts.agents.learner import Learner
from emcts.agents.loop import Metrics, run_chunk
from emcts.agents.state import NEVER
from emcts.runs.trainer import Find, Progress
from emcts.types import Replaceable, record


@record
class Report(Replaceable):
    """What the host reads after a chunk, of one seed."""

    metrics: Metrics
    evaluated: Evaluated
    discovered: Any  # states, or None


@dataclasses.dataclass(frozen=True)
class SeedTrainer:
    """Trains `seeds` of an agent side by side, and evaluates them after each chunk of iterations."""

    learner: Learner
    seeds: tuple[int, ...]
    total_env_steps: int
    iterations_per_chunk: int

    def __post_init__(self) -> None:
        if not self.seeds or len(set(self.seeds)) != len(self.seeds):
            raise ValueError(f"seeds are {list(self.seeds)}: give at least one, each once")
        for name in ("total_env_steps", "iterations_per_chunk"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}: give at least 1")

    def init(self) -> Any:
        worlds = [self.learner.worlds.draw(seed) for seed in self.seeds]
        stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *worlds)
        keys = jax.vmap(jax.random.key)(jnp.array(self.seeds, jnp.uint32))
        return self._init(keys, stacked)

    def advance(self, state: Any) -> tuple[Any, Progress]:
        per_iteration = self.learner.steps_per_iteration
        first = int(state.log.iterations[0])
        numbers = np.arange(first, first + self.iterations_per_chunk)
        learning = (numbers + 1) * per_iteration >= self.learner.schedule.warm_up
        share = np.clip(numbers * per_iteration / self.total_env_steps, 0, 1)
        state, report = self._advance(state, jnp.asarray(learning), jnp.asarray(share, jnp.float32))
        return state, self._progress(state, jax.device_get(report))

    def evaluate(
        self, state: Any, *, episodes: int, beta: float, seed: int
    ) -> Mapping[str, Float[np.ndarray, "S E"]]:
        keys = jax.random.split(jax.random.key(seed), len(self.seeds))
        one = functools.partial(self.learner.evaluate, episodes=episodes, beta=beta)
        out = jax.device_get(jax.jit(jax.vmap(one))(state, keys))
        return {"return": out.episode_return, "length": out.length.astype(np.float64)}

    def maps(self, state: Any) -> Mapping[str, Float[np.ndarray, "S N N"]]:
        return {} if self._maps is None else jax.device_get(self._maps(state))

    @functools.cached_property
    def _init(self) -> Any:
        return jax.jit(jax.vmap(self.learner.init))

    @functools.cached_property
    def _advance(self) -> Any:
        # Flags and progress are the same for all seeds: under `vmap` the warm-up then stays a branch.
        return jax.jit(jax.vmap(self._one_chunk, in_axes=(0, None, None)), donate_argnums=0)

    @functools.cached_property
    def _maps(self) -> Any:
        maps = self.learner.maps
        return None if maps is None else jax.jit(jax.vmap(maps))

    def _one_chunk(self, state: Any, learning: Array, progress: Array) -> tuple[Any, Report]:
        state, metrics = run_chunk(self.learner, state, learning, progress)
        evaluation = self.learner.evaluation
        key = jax.random.fold_in(state.key, 0)
        evaluated = self.learner.evaluate(state, key, episodes=evaluation.episodes, beta=evaluation.beta)
        report = Report(metrics, evaluated, self.learner.discovered(state))
        return self._mark_solved(state, evaluated), report

    def _mark_solved(self, state: Any, evaluated: Evaluated) -> Any:
        log, wanted = state.log, self.learner.evaluation.solved_return
        if wanted is None:
            return state
        solved = (log.solved == NEVER) & (evaluated.episode_return.mean() >= wanted)
        steps = log.iterations * self.learner.steps_per_iteration
        return state.replace(log=log.replace(solved=jnp.where(solved, steps, log.solved)))

    def _progress(self, state: Any, report: Report) -> Progress:
        log = jax.device_get(state.log)
        played, learned = report.metrics.played, report.metrics.learned
        seeds = len(self.seeds)
        ended = played.ended.reshape(seeds, -1)
        returns = np.where(ended, played.episode_return.reshape(seeds, -1), 0.0)
        with np.errstate(invalid="ignore"):
            train_return = returns.sum(axis=1) / np.where(ended.any(axis=1), ended.sum(axis=1), np.nan)
        exploring = np.asarray(self.learner.lanes.exploring)
        stds = played.value_std[..., exploring] if exploring.any() else played.value_std
        metrics = {
            "return": report.evaluated.episode_return.mean(axis=1),
            "length": report.evaluated.length.mean(axis=1),
            "train_return": train_return,
            "episodes": ended.sum(axis=1).astype(np.float64),
            "first_reward_step": _or_nan(log.first_success),
            "solved_step": _or_nan(log.solved),
            "nan_step": _or_nan(log.not_finite),
            "uncertainty": stds.reshape(seeds, -1).mean(axis=1),
            "loss": _mean(learned.total),
            **{
                f"loss_{part.name}": _mean(getattr(learned.losses, part.name))
                for part in dataclasses.fields(learned.losses)
            },
        }
        if report.discovered is not None:
            metrics["states_discovered"] = report.discovered
        return Progress(
            env_steps=int(log.iterations[0]) * self.learner.steps_per_iteration,
            train_steps=int(log.train_steps[0]),
            metrics={name: np.asarray(values, np.float64) for name, values in metrics.items()},
            finds=self._finds(played, int(log.iterations[0])),
        )

    def _finds(self, played: Any, iterations: int) -> tuple[Find, ...]:
        """The successes of a chunk whose words a seed had not found before in it."""
        if not played.keepsake:
            return ()
        words, num_words = played.keepsake["words"], played.keepsake["num_words"]
        _, chunk, moves, lanes = played.success.shape
        first = (iterations - chunk) * moves * lanes
        found: dict[tuple[int, tuple[int, ...]], int] = {}
        for seed, k, move, lane in np.argwhere(played.success):
            program = tuple(int(w) for w in words[seed, k, move, lane][: num_words[seed, k, move, lane]])
            step = first + int((k * moves + move) * lanes + lane) + 1
            found.setdefault((self.seeds[seed], program), step)
        return tuple(Find(seed, step, program) for (seed, program), step in found.items())


def _or_nan(step: np.ndarray) -> np.ndarray:
    return np.where(step == NEVER, np.nan, step)


def _mean(values: Any) -> np.ndarray:
    """Over a chunk's iterations; NaN ones did not learn. A loss that is not finite is told by `nan_step`."""
    finite = np.isfinite(values)
    with np.errstate(invalid="ignore"):
        return np.where(finite, values, 0).sum(axis=1) / np.where(
            finite.any(axis=1), finite.sum(axis=1), np.nan
        )
