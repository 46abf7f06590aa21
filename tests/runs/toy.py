"""A trainer without learning: random numbers that look like training, in milliseconds."""

import time
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from emcts.registry import lookup
from emcts.training.progress import Artifact, Piece, Progress, next_report
from emcts.types import record

CHUNK = 100  # env steps
ITERATIONS = 4  # of a chunk


@record
class ToyState:
    key: Any
    weights: Any
    visits: Any
    env_steps: Any
    nothing: Any  # an array without elements


@record
class ToyChunk:
    done: Any
    draws: Any  # [ITERATIONS, S], of which a metric is the mean


@dataclass(frozen=True)
class ToyOptimiser:
    learning_rate: float = 0.1
    betas: tuple[float, ...] = (0.9, 0.999)


@dataclass(frozen=True)
class ToyNovelty:
    hash_bits: int | None = None


@dataclass(frozen=True)
class ToySettings:
    steps: int = 1000
    optimiser: ToyOptimiser = field(default_factory=ToyOptimiser)
    size: int = 4
    nan_at: int | None = None  # a loss of the last seed is not finite from this step on
    chunk_seconds: float = 0.0  # sleeps so long in each chunk
    ballast: int = 8  # weights of each seed
    places: int | None = None  # of a table that each step takes one of
    novelty: ToyNovelty = field(default_factory=ToyNovelty)

    def resolved(self) -> "ToySettings":
        """Its catalogue resolves it so."""
        bits = self.steps if self.novelty.hash_bits is None else self.novelty.hash_bits
        return replace(self, novelty=ToyNovelty(bits))


@dataclass(frozen=True)
class ToyTrainer:
    settings: ToySettings
    seeds: tuple[int, ...]

    @property
    def total_env_steps(self) -> int:
        return self.settings.steps

    @property
    def shardings(self) -> None:
        return None

    def init(self) -> ToyState:
        return _init(jnp.array(self.seeds), self.settings.size, self.settings.ballast)

    @property
    def chunk_shardings(self) -> None:
        return None

    def compilations(self, state: ToyState) -> dict[str, Any]:
        return {}

    def begin_chunk(self) -> ToyChunk:
        return ToyChunk(jnp.int32(0), jnp.zeros((ITERATIONS, len(self.seeds))))

    def run_piece(
        self, state: ToyState, chunk: ToyChunk, iterations: int
    ) -> tuple[ToyState, ToyChunk, Piece]:
        done, is_first = int(chunk.done), int(state.env_steps[0]) < CHUNK
        end = min(done + iterations, ITERATIONS, *[next_report(done)] * is_first)
        number = end - done
        for _ in range(number):
            time.sleep(self.settings.chunk_seconds / ITERATIONS)
            state, chunk = _iterate(state, chunk, self.settings.optimiser.learning_rate)
        now, nan_at = int(state.env_steps[0]), self.settings.nan_at
        is_finite = nan_at is None or now < nan_at
        is_due = is_first and end == next_report(done) < ITERATIONS
        return state, chunk, Piece(now, number, end == ITERATIONS, False, is_finite, is_due)

    def advance(self, state: ToyState) -> tuple[ToyState, Progress]:
        chunk, is_last = self.begin_chunk(), False
        while not is_last:
            state, chunk, piece = self.run_piece(state, chunk, ITERATIONS)
            is_last = piece.is_last
        return self.end_chunk(state, chunk)

    def report(self, state: ToyState, chunk: ToyChunk) -> Progress:
        now, draws = int(state.env_steps[0]), np.asarray(chunk.draws, np.float64)[: int(chunk.done)]
        metrics = {"draw": draws.mean(axis=0), **self._occupancy(now)}
        return Progress(now, now // 10, metrics, simulator_steps=2**40 + 32 * now)

    def _occupancy(self, now: int) -> dict[str, np.ndarray]:
        places = self.settings.places
        return {} if places is None else {"table_occupancy": np.full(len(self.seeds), now / places)}

    def end_chunk(self, state: ToyState, chunk: ToyChunk) -> tuple[ToyState, Progress]:
        steps, returns, discovered = jax.device_get(_report(state))
        now = int(steps[0])
        metrics = {
            "return": returns if now % (2 * CHUNK) == 0 else np.full(len(self.seeds), np.nan),
            "solved": np.zeros(len(self.seeds)),
            "first_reward_step": _when(now, 300, self.seeds),
            "solved_step": _when(now, 500, self.seeds, (self.seeds[0],)),
            "regret_step": _when(now, 400, self.seeds, (self.seeds[0],)),
            "states_discovered": discovered,
            "uncertainty": 1 / (1 + returns),
            "draw": np.asarray(chunk.draws, np.float64).mean(axis=0),
            "nan_step": _when(now, self.settings.nan_at, self.seeds, (self.seeds[-1],)),
        }
        metrics |= self._occupancy(now)
        artifacts = tuple(artifact(seed, now) for seed in self.seeds) if now % 200 == 0 else ()
        return state, Progress(now, now // 10, metrics, artifacts, simulator_steps=2**40 + 32 * now)

    def evaluate(self, state: ToyState, *, episodes: int, beta: float, seed: int) -> dict[str, np.ndarray]:
        learned = np.asarray(state.weights, np.float64).mean(axis=1)
        noise = np.random.default_rng(seed).normal(size=episodes)
        return {
            "return": learned[:, None] + beta * noise,
            "length": np.full((len(self.seeds), episodes), 7.0),
        }

    def maps(self, state: ToyState) -> dict[str, np.ndarray]:
        visits = np.asarray(state.visits)
        return {"visits": visits, "uncertainty": 1 / (1 + visits)}


@dataclass(frozen=True)
class ToyCatalogue:
    named: tuple[str, ...] = ()
    folder: str | None = None

    @property
    def environments(self) -> dict[str, str]:
        return {"plain": "a walk", "hilly": "a walk, uphill"}

    def agents(self, environment: str) -> dict[str, str]:
        lookup(self.environments, environment, "environment")
        return {"walker": "walks", "runner": "walks faster"}

    def presets(self, environment: str, agent: str) -> tuple[str, ...]:
        return ("short", "long")

    def settings(self, environment: str, agent: str, preset: str | None = None) -> ToySettings:
        speed = ToyOptimiser(learning_rate={"walker": 0.1, "runner": 0.5}[agent])
        return ToySettings(steps={None: 1000, "short": 1000, "long": 5000}[preset], optimiser=speed)

    def smoke_changes(self, environment: str, agent: str) -> dict[str, Any]:
        return {"steps": 200}

    def resolve(self, environment: str, agent: str, settings: ToySettings) -> ToySettings:
        return settings.resolved()

    def trainer(
        self, environment: str, agent: str, settings: ToySettings, seeds: tuple[int, ...]
    ) -> ToyTrainer:
        return ToyTrainer(settings, seeds)


def artifact(seed: int, now: int) -> Artifact:
    """The same artifact at steps 600 and 800, different ones otherwise."""
    words = [14, 13, (seed + now // 300) % 16]
    return Artifact(seed, now, {"words": words}, f"step {now:,}: {words}\n", ".words")


def _when(
    now: int, when: int | None, seeds: tuple[int, ...], whose: tuple[int, ...] | None = None
) -> np.ndarray:
    """[S], `when` for the seeds it concerns, once it has come."""
    happened = [when is not None and now >= when and (whose is None or seed in whose) for seed in seeds]
    return np.where(happened, float(when or 0), np.nan)


@partial(jax.jit, static_argnums=(1, 2))
def _init(seeds: jax.Array, size: int, ballast: int) -> ToyState:
    count = seeds.shape[0]
    return ToyState(
        jax.vmap(jax.random.key)(seeds),
        jnp.zeros((count, ballast)),
        jnp.zeros((count, size, size)),
        jnp.zeros(count, jnp.int32),
        jnp.zeros((count, 0)),
    )


@partial(jax.jit, donate_argnums=(0, 1))
def _iterate(state: ToyState, chunk: ToyChunk, learning_rate: float) -> tuple[ToyState, ToyChunk]:
    def one(before: ToyState) -> tuple[ToyState, jax.Array]:
        key, walk_key, cell_key = jax.random.split(before.key, 3)
        draws = jax.random.uniform(walk_key, before.weights.shape)
        weights = before.weights + learning_rate / ITERATIONS * draws
        row, column = jax.random.randint(cell_key, (2,), 0, before.visits.shape[0])
        visits = before.visits.at[row, column].add(1.0)
        steps = before.env_steps + CHUNK // ITERATIONS
        return ToyState(key, weights, visits, steps, before.nothing), draws.mean()

    state, draws = jax.vmap(one)(state)
    return state, ToyChunk(chunk.done + 1, chunk.draws.at[chunk.done].set(draws))


@jax.jit
def _report(state: ToyState) -> tuple[jax.Array, ...]:
    return state.env_steps, state.weights.mean(axis=1), (state.visits > 0).sum(axis=(1, 2)) * 1.0
