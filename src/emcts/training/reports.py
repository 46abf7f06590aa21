"""What training tells a run: the metrics of a chunk, computed on the host from what its iterations did."""

import dataclasses
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float, Int, Shaped

from emcts.counter import NEVER, Counter
from emcts.envs.base import ArtifactEnvironment
from emcts.training.evaluation import EvaluationResult
from emcts.training.learner import Learner, RolloutStats, SimulatorRates, UpdateStats
from emcts.training.log import TrainingLog
from emcts.training.progress import Artifact, Progress
from emcts.types import Replaceable, record


@record
class SeedCounts(Replaceable):
    """SeedCounts of one seed so far: those of its log, and of its novelty."""

    discovered: Shaped[Array, "..."] | None  # states
    table_occupancy: Float[Array, "..."] | None
    log: TrainingLog
    dataset_steps: Int[Array, "..."] | None = None  # that it learns from; None if it acts


@record
class EvaluationStats(Replaceable):
    """The evaluation of one seed after a chunk."""

    episodes: EvaluationResult
    solved: Float[Array, "..."]  # the fraction, NaN if the task cannot be solved


@dataclasses.dataclass(frozen=True)
class Reporter:
    """Makes the metrics of some seeds of an agent. Statistics are [S, K, ...]: of K iterations of a chunk."""

    learner: Learner[Any]
    seeds: tuple[int, ...]
    rates: SimulatorRates

    def so_far(self, rollout: RolloutStats, update: UpdateStats, counts: SeedCounts, done: int) -> Progress:
        """Returns what the first `done` iterations of a chunk did. Nothing was evaluated yet."""
        rollout, update = _of_iterations(rollout, update, done)
        return self._progress(counts, self._training_metrics(rollout, update, counts))

    def whole(
        self,
        rollout: RolloutStats,
        update: UpdateStats,
        counts: SeedCounts,
        evaluated: EvaluationStats,
        done: int,
    ) -> Progress:
        """Returns what a chunk of `done` iterations did, with its evaluation and its artifacts."""
        rollout, update = _of_iterations(rollout, update, done)
        episodes = evaluated.episodes
        metrics = {
            "return": episodes.episode_return.mean(axis=1),
            "length": episodes.length.mean(axis=1),
            "solved": evaluated.solved,
            **self._training_metrics(rollout, update, counts),
            "simulator_steps_evaluation": episodes.length.astype(np.float64).sum(axis=1)
            * self.rates.evaluation,
        }
        return self._progress(counts, metrics, self._artifacts(rollout, _steps(counts.log)[0]))

    def simulator_steps(self, env_steps: int, train_steps: int) -> dict[str, int]:
        """Returns the simulator steps of each seed so far, by their purpose."""
        iterations = train_steps // self.learner.schedule.updates
        return {"acting": env_steps * self.rates.acting, "reanalyse": iterations * self.rates.reanalyse}

    def _progress(
        self, counts: SeedCounts, metrics: dict[str, Any], artifacts: tuple[Artifact, ...] = ()
    ) -> Progress:
        env_steps, train_steps = _steps(counts.log)
        return Progress(
            env_steps=env_steps,
            train_steps=train_steps,
            simulator_steps=sum(self.simulator_steps(env_steps, train_steps).values()),
            metrics={
                n: np.asarray(values, np.float64) for n, values in metrics.items() if values is not None
            },
            artifacts=artifacts,
        )

    def _training_metrics(
        self, rollout: RolloutStats, update: UpdateStats, counts: SeedCounts
    ) -> dict[str, Any]:
        log, losses = counts.log, update.losses
        return {
            **self._rollout_metrics(rollout),
            "first_reward_step": _or_nan(log.first_success),
            "solved_step": _or_nan(log.solved),
            "regret_step": _or_nan(log.low_regret),
            "nan_step": _or_nan(log.not_finite),
            "loss": _mean(update.total),
            **{f"loss_{part.name}": _mean(getattr(losses, part.name)) for part in dataclasses.fields(losses)},
            "clipped_targets": None if update.clipped_targets is None else _mean(update.clipped_targets),
            "states_discovered": counts.discovered,
            "table_occupancy": counts.table_occupancy,
            "dataset_steps": counts.dataset_steps,
            **{
                f"simulator_steps_{what}": np.full(len(self.seeds), steps)
                for what, steps in self.simulator_steps(*_steps(log)).items()
            },
        }

    def _rollout_metrics(self, rollout: RolloutStats) -> dict[str, np.ndarray]:
        """Metrics of the training episodes of a chunk. The uncertainty is that of exploring episodes, if any."""
        seeds = len(self.seeds)
        ended = rollout.ended.reshape(seeds, -1)
        returns = np.where(ended, rollout.episode_return.reshape(seeds, -1), 0.0)
        with np.errstate(invalid="ignore"):
            train_return = returns.sum(axis=1) / np.where(ended.any(axis=1), ended.sum(axis=1), np.nan)
        exploring = np.asarray(self.learner.exploration.exploring)
        stds = rollout.value_std[..., exploring] if exploring.any() else rollout.value_std
        return {
            "train_return": train_return,
            "episodes": ended.sum(axis=1).astype(np.float64),
            "uncertainty": stds.reshape(seeds, -1).mean(axis=1),
        }

    def _artifacts(self, rollout: RolloutStats, env_steps: int) -> tuple[Artifact, ...]:
        """The successes of a chunk, each artifact of a seed once."""
        example = self.learner.env_factory.example
        if not isinstance(example, ArtifactEnvironment):
            return ()
        _, chunk, steps, num_envs = rollout.success.shape
        first = env_steps - chunk * steps * num_envs
        found: dict[tuple[int, bytes], Artifact] = {}
        for index in map(tuple, np.argwhere(rollout.success)):
            seed, iteration, step, env = index
            arrays = jax.tree.map(lambda leaf, index=index: leaf[index], rollout.artifact)
            same = (seed, b"".join(leaf.tobytes() for leaf in jax.tree.leaves(arrays)))
            if same not in found:
                when = first + int((iteration * steps + step) * num_envs + env) + 1
                made = example.artifact_record(arrays, f"step {when:,}")
                found[same] = Artifact(self.seeds[seed], when, made.data, made.text, made.suffix)
        return tuple(found.values())


def _of_iterations(rollout: RolloutStats, update: UpdateStats, done: int) -> tuple[RolloutStats, UpdateStats]:
    """Returns the statistics of the first iterations: there are none yet of the others."""
    return jax.tree.map(lambda leaf: leaf[:, :done], (rollout, update))


def _steps(log: TrainingLog) -> tuple[int, int]:
    """Returns the env steps and the train steps, which are the same for all seeds."""
    return int(log.env_steps.numbers()[0]), int(log.train_steps.numbers()[0])


def _or_nan(steps: Counter) -> Float[np.ndarray, "S"]:
    numbers = steps.numbers()
    return np.where(numbers == NEVER, np.nan, numbers.astype(np.float64))


def _mean(values: Shaped[np.ndarray, "S K"] | Array) -> Float[np.ndarray, "S"]:
    """The mean over iterations. NaN means no update; a loss that is not finite is reported by `nan_step`."""
    finite = np.isfinite(values)
    with np.errstate(invalid="ignore"):
        return np.where(finite, values, 0).sum(axis=1) / np.where(
            finite.any(axis=1), finite.sum(axis=1), np.nan
        )
