"""Training as a run sees it: all seeds at once, one chunk after the other, the host in between.

One program runs on every device of a mesh, each on its seeds, and on its part of those that devices share.
"""

import dataclasses
import functools
import zlib
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Float

from emcts.agents.judging import Evaluated
from emcts.agents.layout import SEEDS, Layout, best_layout
from emcts.agents.learner import Learner
from emcts.agents.loop import run_chunk
from emcts.agents.simulator_steps import SimulatorRates
from emcts.agents.spread import AXIS, Spread
from emcts.agents.state import Log, evaluation_keys, first_time
from emcts.counter import NEVER, Counter
from emcts.training.progress import Artifact, Progress
from emcts.types import Key, Replaceable, record


@record
class Report(Replaceable):
    """What the host reads after a chunk, of one seed."""

    learned: Any
    evaluated: Evaluated
    solved: Float[Array, "..."]  # the share of the evaluation, NaN without a notion of it
    discovered: Any  # states, or None
    table_occupancy: Any  # a share, or None
    log: Log


@dataclasses.dataclass(frozen=True)
class SeedTrainer:
    """Trains `seeds` of an agent side by side, and evaluates them after each chunk of iterations.

    Without a `layout`, all devices are used as far as seeds, lanes and batches can be shared among them. Trainers of
    different `name` draw different random numbers for the same seed, so that agents can be compared as independent.
    """

    learner: Learner
    seeds: tuple[int, ...]
    total_env_steps: int
    iterations_per_chunk: int
    layout: Layout | None = None
    name: str = ""  # of the environment and the agent

    def __post_init__(self) -> None:
        if not self.seeds or len(set(self.seeds)) != len(self.seeds):
            raise ValueError(f"seeds are {list(self.seeds)}: give at least one, each once")
        for name in ("total_env_steps", "iterations_per_chunk"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}: give at least 1")

    def on(self, layout: Layout) -> "SeedTrainer":
        """The same on these devices."""
        if len(self.seeds) % layout.seeds:
            raise ValueError(
                f"{len(self.seeds)} seeds cannot be shared evenly by {layout.seeds} groups of devices: "
                "change one of them"
            )
        self.learner.over(Spread(layout.data))
        return dataclasses.replace(self, layout=layout)

    def init(self) -> Any:
        worlds = [self.learner.worlds.draw(seed) for seed in self.seeds]
        stacked = jax.tree.map(lambda *leaves: np.stack([np.asarray(leaf) for leaf in leaves]), *worlds)
        return self._init(np.array(self.seeds, np.uint32), stacked)

    def advance(self, state: Any) -> tuple[Any, Progress]:
        per_iteration = self.learner.steps_per_iteration
        first = int(self._env_steps(state.log)) // per_iteration
        numbers = np.arange(first, first + self.iterations_per_chunk)
        learning = (numbers + 1) * per_iteration >= self.learner.schedule.warm_up
        share = np.clip(numbers * per_iteration / self.total_env_steps, 0, 1).astype(np.float32)
        state, *told = self._advance(state, learning, share)
        return state, self._progress(*jax.device_get(told))

    def evaluate(
        self, state: Any, *, episodes: int, beta: float, seed: int
    ) -> Mapping[str, Float[np.ndarray, "S E"]]:
        keys = jax.random.split(_named(jax.random.key(seed), f"{self.name}/evaluate"), len(self.seeds))
        one = functools.partial(self._part.evaluate, episodes=episodes, beta=beta)
        out = jax.device_get(self._everywhere(one, (self._specs, P(SEEDS)), P(SEEDS))(state, keys))
        played = {"return": out.episode_return, "length": out.length.astype(np.float64)}
        judged = self.learner.evaluation.solved is not None
        return {**played, "solved": out.solved.astype(np.float64)} if judged else played

    def maps(self, state: Any) -> Mapping[str, Float[np.ndarray, "S N N"]]:
        return {} if self._maps is None else jax.device_get(self._maps(state))

    @functools.cached_property
    def mesh(self) -> Mesh:
        layout = self.layout or best_layout(len(self.seeds), len(jax.devices()), self._can_share)
        return layout.mesh()

    @functools.cached_property
    def shardings(self) -> Any:
        """Of the state, array by array."""
        return jax.tree.map(lambda spec: NamedSharding(self.mesh, spec), self._specs, is_leaf=_is_spec)

    @functools.cached_property
    def _part(self) -> Learner:
        """What each device runs."""
        return self.learner.over(Spread(self.mesh.shape[AXIS]))

    @functools.cached_property
    def _specs(self) -> Any:
        world = self.learner.worlds.draw(self.seeds[0])
        state = jax.eval_shape(self.learner.init, jax.random.key(0), world)
        return jax.tree.map(_spec, self.learner.dealt(state))

    @functools.cached_property
    def _init(self) -> Any:
        return jax.jit(self._init_seeds, out_shardings=self.shardings)

    @functools.cached_property
    def _rates(self) -> SimulatorRates:
        return self.learner.simulator_rates

    @functools.cached_property
    def _env_steps(self) -> Any:
        """The counter of the first seed, which is that of all."""

        def first(log: Log) -> Counter:
            return jax.tree.map(lambda word: word[0], log.env_steps)

        return jax.jit(first, out_shardings=NamedSharding(self.mesh, P()))

    @functools.cached_property
    def _advance(self) -> Any:
        # Flags and progress are the same for all seeds: under `vmap` the warm-up then stays a branch.
        lanes = P(SEEDS, None, None, AXIS)
        return self._everywhere(
            self._one_chunk,
            (self._specs, P(), P()),
            (self._specs, lanes, P(SEEDS)),
            in_axes=(0, None, None),
            out_shardings=(self.shardings, *[NamedSharding(self.mesh, P())] * 2),
            donate_argnums=0,
        )

    @functools.cached_property
    def _maps(self) -> Any:
        maps = self._part.maps
        return None if maps is None else self._everywhere(maps, (self._specs,), P(SEEDS))

    def _everywhere(
        self, one: Any, in_specs: Any, out_specs: Any, in_axes: Any = 0, out_shardings: Any = None, **how: Any
    ) -> Any:
        """A function of one seed, for all of them, on all devices; what comes out is whole on each, unless told."""
        sharded = jax.shard_map(
            jax.vmap(one, in_axes=in_axes),
            mesh=self.mesh,
            in_specs=in_specs,
            out_specs=out_specs,
            check_vma=False,
        )
        return jax.jit(sharded, out_shardings=out_shardings or NamedSharding(self.mesh, P()), **how)

    def _init_seeds(self, seeds: Any, worlds: Any) -> Any:
        keys = jax.vmap(lambda seed: _named(jax.random.key(seed), self.name))(seeds)
        return jax.vmap(self.learner.init)(keys, worlds)

    def _can_share(self, devices: int) -> bool:
        try:
            self.learner.over(Spread(devices))
        except ValueError:
            return False
        return True

    def _one_chunk(self, state: Any, learning: Array, progress: Array) -> tuple[Any, Any, Report]:
        learner = self._part
        state, metrics = run_chunk(learner, state, learning, progress)
        evaluation = learner.evaluation
        key = evaluation_keys(state).episodes
        evaluated = learner.evaluate(state, key, episodes=evaluation.episodes, beta=evaluation.beta)
        solved = jnp.float32(jnp.nan) if evaluation.solved is None else evaluation.solved(evaluated)
        state = self._mark_solved(state, solved)
        counted = (learner.discovered(state), learner.table_occupancy(state))
        report = Report(metrics.learned, evaluated, solved, *counted, state.log)
        return state, metrics.played, report

    def _mark_solved(self, state: Any, share: Float[Array, ""]) -> Any:
        log = state.log
        return state.replace(log=log.replace(solved=first_time(log.solved, share == 1, log.env_steps)))

    def _progress(self, played: Any, report: Report) -> Progress:
        log, learned = report.log, report.learned
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
            "solved": report.solved,
            "train_return": train_return,
            "episodes": ended.sum(axis=1).astype(np.float64),
            "first_reward_step": _or_nan(log.first_success),
            "solved_step": _or_nan(log.solved),
            "regret_step": _or_nan(log.low_regret),
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
        if report.table_occupancy is not None:
            metrics["table_occupancy"] = report.table_occupancy
        env_steps, train_steps = (int(steps.numbers()[0]) for steps in (log.env_steps, log.train_steps))
        simulated = self._simulated(env_steps, train_steps)
        lengths = report.evaluated.length.astype(np.float64).sum(axis=1)
        metrics |= {f"simulator_steps_{what}": np.full(seeds, steps) for what, steps in simulated.items()}
        metrics["simulator_steps_evaluation"] = lengths * self._rates.evaluation
        return Progress(
            env_steps=env_steps,
            train_steps=train_steps,
            simulator_steps=sum(simulated.values()),
            metrics={name: np.asarray(values, np.float64) for name, values in metrics.items()},
            artifacts=self._artifacts(played, env_steps),
        )

    def _simulated(self, env_steps: int, train_steps: int) -> dict[str, int]:
        """The simulator steps of each seed so far, by what they were for."""
        learned = train_steps // self.learner.schedule.updates
        return {"acting": env_steps * self._rates.acting, "reanalyse": learned * self._rates.reanalyse}

    def _artifacts(self, played: Any, env_steps: int) -> tuple[Artifact, ...]:
        """Returns the successes of a chunk, each once per seed."""
        leaves, structure = jax.tree.flatten(played.keepsake)
        if not leaves:
            return ()
        _, chunk, moves, lanes = played.success.shape
        first = env_steps - chunk * moves * lanes
        found: dict[tuple[int, bytes], tuple[int, list[np.ndarray]]] = {}
        for seed, k, move, lane in np.argwhere(played.success):
            kept = [leaf[seed, k, move, lane] for leaf in leaves]
            step = first + int((k * moves + move) * lanes + lane) + 1
            found.setdefault((self.seeds[seed], b"".join(leaf.tobytes() for leaf in kept)), (step, kept))
        return tuple(
            self.learner.worlds.artifact(seed, step, jax.tree.unflatten(structure, kept))
            for (seed, _), (step, kept) in found.items()
        )


def _spec(axis: int) -> P:
    """Of an array of all seeds, whose axis after that one is dealt out; -1 for none."""
    return P(SEEDS) if axis < 0 else P(SEEDS, *[None] * axis, AXIS)


def _named(key: Key, name: str) -> Key:
    """A key that depends on a name, in the same way on every machine."""
    return jax.random.fold_in(key, jnp.uint32(zlib.crc32(name.encode())))


def _is_spec(leaf: Any) -> bool:
    return isinstance(leaf, P)


def _or_nan(steps: Counter) -> np.ndarray:
    numbers = steps.numbers()
    return np.where(numbers == NEVER, np.nan, numbers.astype(np.float64))


def _mean(values: Any) -> np.ndarray:
    """Over a chunk's iterations; NaN ones did not learn. A loss that is not finite is told by `nan_step`."""
    finite = np.isfinite(values)
    with np.errstate(invalid="ignore"):
        return np.where(finite, values, 0).sum(axis=1) / np.where(
            finite.any(axis=1), finite.sum(axis=1), np.nan
        )
