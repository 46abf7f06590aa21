"""Training of all seeds at once, chunk by chunk and piece by piece, as a run drives it.

One program runs on every device of a mesh, each on its seeds, and on its shard of those that devices share.
"""

import dataclasses
import functools
import zlib
from collections.abc import Callable, Mapping
from typing import Generic

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from jax.stages import Compiled, Wrapped
from jaxtyping import Array, Bool, Float, Int32, PyTree, Shaped, UInt32

from emcts.counter import NEVER, Counter
from emcts.envs.base import ArtifactEnvironment, is_on_host, simulator_errors
from emcts.training.data_parallel import AXIS, DataParallel
from emcts.training.devices import SEEDS, DeviceLayout, best_layout
from emcts.training.evaluation import POSITIVE_REWARD, EvaluationResult, episodes_solved
from emcts.training.learner import Learner, Maps, RolloutStats, SimulatorRates, StateT, UpdateStats
from emcts.training.log import TrainingLog, evaluation_keys, first_time
from emcts.training.loop import Metrics, empty_metrics, iteration, run_iterations
from emcts.training.progress import Artifact, Piece, Progress
from emcts.types import Key, Replaceable, record

Specs = PyTree  # of PartitionSpec
EPISODES = P(None, SEEDS, None, AXIS)  # what happened in a chunk, in each iteration and step
UPDATES = P(None, SEEDS)


@record
class Chunk(Replaceable):
    """A chunk that has begun: how many of its iterations are done, and what these did. The others are zero."""

    done: Int32[Array, ""]
    metrics: Metrics  # [K, S, ...]


@record
class Report(Replaceable):
    """What the host reads after a chunk beside its metrics, for one seed."""

    evaluation: EvaluationResult
    solved: Float[Array, "..."]  # the fraction of the evaluation, NaN if the task cannot be solved
    discovered: Shaped[Array, "..."] | None  # states
    table_occupancy: Float[Array, "..."] | None
    log: TrainingLog


@dataclasses.dataclass(frozen=True)
class SeedTrainer(Generic[StateT]):
    """Trains `seeds` of an agent side by side, and evaluates them after each chunk of iterations.

    Without a `layout`, all devices are used as far as seeds, episodes and batches can be sharded. Trainers of different
    `name` draw different random numbers for the same seed, so that agents can be compared as independent samples.
    """

    learner: Learner[StateT]
    seeds: tuple[int, ...]
    total_env_steps: int
    iterations_per_chunk: int
    layout: DeviceLayout | None = None
    name: str = ""  # of the environment and the agent

    def __post_init__(self) -> None:
        if not self.seeds or len(set(self.seeds)) != len(self.seeds):
            raise ValueError(f"seeds are {list(self.seeds)}: give at least one, each once")
        if not all(0 <= seed < 2**32 for seed in self.seeds):
            raise ValueError(f"seeds are {list(self.seeds)}: give numbers from 0 to {2**32 - 1:,}")
        for name, number in (("steps", self.total_env_steps), ("chunk", self.iterations_per_chunk)):
            if number < 1:
                raise ValueError(f"{name} is {number}: give at least 1")

    def on(self, layout: DeviceLayout) -> "SeedTrainer[StateT]":
        """Returns the same trainer on these devices."""
        if len(self.seeds) % layout.seeds:
            raise ValueError(
                f"{len(self.seeds)} seeds cannot be shared evenly by {layout.seeds} groups of devices: "
                "change one of them"
            )
        self.learner.on_devices(DataParallel(layout.data))
        return dataclasses.replace(self, layout=layout)

    def init(self) -> StateT:
        params = [self.learner.env_factory.params(seed) for seed in self.seeds]
        stacked = jax.tree.map(lambda *leaves: np.stack([np.asarray(leaf) for leaf in leaves]), *params)
        with simulator_errors(self.learner.env_factory.example):
            return self._init(np.array(self.seeds, np.uint32), stacked)

    def compilations(self, state: StateT) -> Mapping[str, Callable[[], Compiled]]:
        def training() -> Compiled:
            return self._piece.lower(state, self.begin_chunk(), np.int32(0), *self._inputs(0)).compile()

        def evaluation() -> Compiled:
            return self._evaluation.lower(state, self.begin_chunk()).compile()

        return {"training": training, "evaluation": evaluation}

    def begin_chunk(self) -> Chunk:
        return self._begin()

    def run_piece(self, state: StateT, chunk: Chunk, iterations: int) -> tuple[StateT, Chunk, Piece]:
        """A piece ends where learning begins: all of its iterations take the same time."""
        done, per_iteration = int(chunk.done), self.learner.steps_per_iteration
        if iterations < 1 or done == self.iterations_per_chunk:
            left = self.iterations_per_chunk - done
            raise ValueError(
                f"a piece of {iterations} iterations, of a chunk with {left} left: give at least 1"
            )
        before = int(self._env_steps(state.log))
        learning, progress = self._inputs(before // per_iteration - done)
        alike = int(np.cumprod(learning[done:] == learning[done]).sum())
        end = done + min(iterations, alike)
        with simulator_errors(self.learner.env_factory.example):
            state, chunk, finite = self._piece(state, chunk, np.int32(end), learning, progress)
            is_finite = bool(np.all(jax.device_get(finite)))  # waits until the piece is done
        piece = Piece(
            env_steps=before + (end - done) * per_iteration,
            iterations=end - done,
            is_last=end == self.iterations_per_chunk,
            changes_pace=end == done + alike < self.iterations_per_chunk,
            is_finite=is_finite,
        )
        return state, chunk, piece

    def end_chunk(self, state: StateT, chunk: Chunk) -> tuple[StateT, Progress]:
        if (done := int(chunk.done)) != self.iterations_per_chunk:
            raise ValueError(
                f"{done} of {self.iterations_per_chunk} iterations of the chunk are done: run its last piece first"
            )
        with simulator_errors(self.learner.env_factory.example):
            state, *results = self._evaluation(state, chunk)
            return state, self._progress(*jax.device_get(results))

    def advance(self, state: StateT) -> tuple[StateT, Progress]:
        chunk, is_last = self.begin_chunk(), False
        while not is_last:
            state, chunk, piece = self.run_piece(state, chunk, self.iterations_per_chunk)
            is_last = piece.is_last
        return self.end_chunk(state, chunk)

    def evaluate(
        self, state: StateT, *, episodes: int, beta: float, seed: int
    ) -> Mapping[str, Float[np.ndarray, "S E"]]:
        keys = self.evaluation_keys(seed)
        if (episodes, beta) not in self._evaluations:
            one = functools.partial(self._sharded.evaluate, episodes=episodes, beta=beta)
            self._evaluations[episodes, beta] = self._all_seeds(one, (self._specs, P(SEEDS)), P(SEEDS))
        with simulator_errors(self.learner.env_factory.example):
            result = jax.device_get(self._evaluations[episodes, beta](state, keys))
        episodes_of = {"return": result.episode_return, "length": result.length.astype(np.float64)}
        config = self.learner.evaluation
        if config.solved is None and config.success == POSITIVE_REWARD:
            return episodes_of
        # Where a mean return solves the task, an episode alone does not.
        name = "solved" if config.solved is episodes_solved else "success"
        return {**episodes_of, name: result.solved.astype(np.float64)}

    def evaluation_keys(self, seed: int) -> Key:
        """Returns the key of each seed's evaluation episodes, given that of the evaluation."""
        return jax.random.split(_named(jax.random.key(seed), f"{self.name}/evaluate"), len(self.seeds))

    def maps(self, state: StateT) -> Mapping[str, Float[np.ndarray, "S N N"]]:
        return {} if self._maps is None else jax.device_get(self._maps(state))

    @functools.cached_property
    def _evaluations(self) -> dict[tuple[int, float], Callable[..., PyTree]]:
        """The compiled programs of evaluations, by the number of episodes and beta."""
        return {}

    @functools.cached_property
    def mesh(self) -> Mesh:
        layout = self.layout or best_layout(len(self.seeds), len(jax.devices()), self._can_shard)
        return layout.mesh()

    @functools.cached_property
    def shardings(self) -> PyTree:
        """The sharding of each array of the state."""
        return jax.tree.map(
            lambda spec: NamedSharding(self.mesh, spec), self._specs, is_leaf=lambda leaf: isinstance(leaf, P)
        )

    @functools.cached_property
    def _sharded(self) -> Learner[StateT]:
        """What each device runs."""
        return self.learner.on_devices(DataParallel(self.mesh.shape[AXIS]))

    @functools.cached_property
    def _specs(self) -> Specs:
        params = self.learner.env_factory.params(self.seeds[0])
        state = jax.eval_shape(self.learner.init, jax.random.key(0), params)
        return jax.tree.map(_spec, self.learner.sharded_axes(state))

    @functools.cached_property
    def _init(self) -> Callable[[UInt32[np.ndarray, "S"], PyTree], StateT]:
        def init(seeds: UInt32[Array, "S"], params: PyTree) -> StateT:
            keys = jax.vmap(lambda seed: _named(jax.random.key(seed), self.name))(seeds)
            return jax.vmap(self.learner.init)(keys, params)

        return jax.jit(init, out_shardings=self.shardings)

    @functools.cached_property
    def _rates(self) -> SimulatorRates:
        return self.learner.simulator_rates

    @functools.cached_property
    def _env_steps(self) -> Callable[[TrainingLog], Counter]:
        """The counter of the first seed, which is the same for all."""

        def first(log: TrainingLog) -> Counter:
            return jax.tree.map(lambda word: word[0], log.env_steps)

        return jax.jit(first, out_shardings=NamedSharding(self.mesh, P()))

    @functools.cached_property
    def chunk_shardings(self) -> PyTree:
        """The sharding of each array of a chunk."""
        return jax.tree.map(
            lambda spec: NamedSharding(self.mesh, spec),
            self._chunk_specs,
            is_leaf=lambda leaf: isinstance(leaf, P),
        )

    @functools.cached_property
    def _iterate(self) -> Callable[..., tuple[StateT, Metrics]]:
        """An iteration of all seeds of a device, traced once for its shapes and for itself.

        Flags and progress are the same for all seeds: under `vmap` the warm-up then stays a branch.
        """
        return jax.jit(jax.vmap(functools.partial(iteration, self._sharded), in_axes=(0, None, None)))

    @functools.cached_property
    def _metric_shapes(self) -> Metrics:
        """The shapes of the metrics of a chunk, on all devices."""

        def empty(state: StateT) -> tuple[RolloutStats, UpdateStats]:
            _, shapes = jax.eval_shape(self._iterate, state, jnp.bool_(True), jnp.float32(0))
            metrics = empty_metrics(shapes, self.iterations_per_chunk)
            return metrics.rollout, metrics.update

        whole = jax.shard_map(
            empty, mesh=self.mesh, in_specs=(self._specs,), out_specs=(EPISODES, UPDATES), check_vma=False
        )
        return Metrics(*jax.eval_shape(whole, jax.eval_shape(self.init)))

    @functools.cached_property
    def _chunk_specs(self) -> Specs:
        shapes = jax.eval_shape(self._empty_chunk)
        rollout, update = (
            len(jax.tree.leaves(part)) for part in (shapes.metrics.rollout, shapes.metrics.update)
        )
        specs = [P(), *[EPISODES] * rollout, *[UPDATES] * update]
        return jax.tree.unflatten(jax.tree.structure(shapes), specs)

    @functools.cached_property
    def _begin(self) -> Callable[[], Chunk]:
        return jax.jit(self._empty_chunk, out_shardings=self.chunk_shardings)

    @functools.cached_property
    def _piece(self) -> Wrapped:
        def piece(
            state: StateT, chunk: Chunk, end: Array, learning: Bool[Array, "K"], progress: Float[Array, "K"]
        ) -> tuple[StateT, Chunk, Bool[Array, "S"]]:
            state, metrics = run_iterations(
                self._iterate, state, chunk.metrics, learning, progress, chunk.done, end
            )
            return state, Chunk(end, metrics), ~jax.vmap(lambda log: log.not_finite.happened)(state.log)

        return self._on_all_devices(
            piece,
            (self._specs, self._chunk_specs, P(), P(), P()),
            (self._specs, self._chunk_specs, P(SEEDS)),
            out_shardings=(self.shardings, self.chunk_shardings, NamedSharding(self.mesh, P())),
            donate_argnums=(0, 1),
        )

    @functools.cached_property
    def _evaluation(self) -> Wrapped:
        """Evaluates, and returns everything that the host reads after a chunk, [S, ...] each."""
        evaluate = jax.shard_map(
            jax.vmap(self._evaluate_one),
            mesh=self.mesh,
            in_specs=(self._specs,),
            out_specs=(self._specs, P(SEEDS)),
            check_vma=False,
        )

        def evaluation(state: StateT, chunk: Chunk) -> tuple[StateT, RolloutStats, UpdateStats, Report]:
            state, report = evaluate(state)
            metrics = jax.tree.map(lambda leaf: jnp.swapaxes(leaf, 0, 1), chunk.metrics)
            return state, metrics.rollout, metrics.update, report

        replicated = NamedSharding(self.mesh, P())
        return jax.jit(evaluation, out_shardings=(self.shardings, *[replicated] * 3), donate_argnums=(0,))

    @functools.cached_property
    def _maps(self) -> Callable[[StateT], Maps] | None:
        maps = self._sharded.maps
        return None if maps is None else self._all_seeds(maps, (self._specs,), P(SEEDS))

    def _empty_chunk(self) -> Chunk:
        metrics = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), self._metric_shapes)
        return Chunk(jnp.int32(0), metrics)

    def _inputs(self, first: int) -> tuple[Bool[np.ndarray, "K"], Float[np.ndarray, "K"]]:
        """Returns for each iteration of a chunk whether it learns, and the progress of training before it."""
        numbers, per_iteration = (
            first + np.arange(self.iterations_per_chunk),
            self.learner.steps_per_iteration,
        )
        learning = (numbers + 1) * per_iteration >= self.learner.schedule.warmup_steps
        progress = np.clip(numbers * per_iteration / self.total_env_steps, 0, 1)
        return learning, progress.astype(np.float32)

    def _all_seeds(
        self, one: Callable[..., PyTree], in_specs: Specs, out_specs: Specs
    ) -> Callable[..., PyTree]:
        """Compiles a function of one seed for all seeds on all devices. Results are replicated."""
        replicated = NamedSharding(self.mesh, P())
        return self._on_all_devices(jax.vmap(one), in_specs, out_specs, replicated)

    def _on_all_devices(
        self,
        function: Callable[..., PyTree],
        in_specs: Specs,
        out_specs: Specs,
        out_shardings: PyTree,
        donate_argnums: tuple[int, ...] = (),
    ) -> Wrapped:
        """Compiles a function of the seeds of a device for all devices."""
        sharded = jax.shard_map(
            function, mesh=self.mesh, in_specs=in_specs, out_specs=out_specs, check_vma=False
        )
        return jax.jit(sharded, out_shardings=out_shardings, donate_argnums=donate_argnums)

    def _can_shard(self, num_devices: int) -> bool:
        try:
            self.learner.on_devices(DataParallel(num_devices))
        except ValueError:
            return False
        return True

    def _evaluate_one(self, state: StateT) -> tuple[StateT, Report]:
        learner = self._sharded
        config = learner.evaluation
        key = evaluation_keys(state).episodes
        evaluation = learner.evaluate(state, key, episodes=config.episodes, beta=config.beta)
        if is_on_host(learner.env_factory.example):
            # Simulators need not play the same on all devices, which have to log the same.
            evaluation = DataParallel(self.mesh.shape[AXIS]).from_first(evaluation)
        solved = jnp.float32(jnp.nan) if config.solved is None else config.solved(evaluation)
        log = state.log
        state = state.replace(log=log.replace(solved=first_time(log.solved, solved == 1, log.env_steps)))
        counts = (learner.states_discovered(state), learner.table_occupancy(state))
        return state, Report(evaluation, solved, *counts, state.log)

    def _progress(self, rollout: RolloutStats, update: UpdateStats, report: Report) -> Progress:
        log, evaluation, losses = report.log, report.evaluation, update.losses
        env_steps, train_steps = (int(steps.numbers()[0]) for steps in (log.env_steps, log.train_steps))
        simulator_steps = self._simulator_steps(env_steps, train_steps)
        evaluation_steps = evaluation.length.astype(np.float64).sum(axis=1) * self._rates.evaluation
        metrics = {
            "return": evaluation.episode_return.mean(axis=1),
            "length": evaluation.length.mean(axis=1),
            "solved": report.solved,
            **self._rollout_metrics(rollout),
            "first_reward_step": _or_nan(log.first_success),
            "solved_step": _or_nan(log.solved),
            "regret_step": _or_nan(log.low_regret),
            "nan_step": _or_nan(log.not_finite),
            "loss": _mean(update.total),
            **{f"loss_{part.name}": _mean(getattr(losses, part.name)) for part in dataclasses.fields(losses)},
            "clipped_targets": None if update.clipped_targets is None else _mean(update.clipped_targets),
            "states_discovered": report.discovered,
            "table_occupancy": report.table_occupancy,
            **{
                f"simulator_steps_{what}": np.full(len(self.seeds), steps)
                for what, steps in simulator_steps.items()
            },
            "simulator_steps_evaluation": evaluation_steps,
        }
        return Progress(
            env_steps=env_steps,
            train_steps=train_steps,
            simulator_steps=sum(simulator_steps.values()),
            metrics={
                n: np.asarray(values, np.float64) for n, values in metrics.items() if values is not None
            },
            artifacts=self._artifacts(rollout, env_steps),
        )

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

    def _simulator_steps(self, env_steps: int, train_steps: int) -> dict[str, int]:
        """The simulator steps of each seed so far, by their purpose."""
        iterations = train_steps // self.learner.schedule.updates
        return {"acting": env_steps * self._rates.acting, "reanalyse": iterations * self._rates.reanalyse}

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


def _spec(axis: int) -> P:
    """The partition of an array of all seeds, sharded along `axis` after that of seeds; -1 for none."""
    return P(SEEDS) if axis < 0 else P(SEEDS, *[None] * axis, AXIS)


def _named(key: Key, name: str) -> Key:
    """A key that depends on a name, in the same way on every machine."""
    return jax.random.fold_in(key, jnp.uint32(zlib.crc32(name.encode())))


def _or_nan(steps: Counter) -> Float[np.ndarray, "S"]:
    numbers = steps.numbers()
    return np.where(numbers == NEVER, np.nan, numbers.astype(np.float64))


def _mean(values: Shaped[np.ndarray, "S K"] | Array) -> Float[np.ndarray, "S"]:
    """The mean over a chunk's iterations. NaN means no update; a loss that is not finite is reported by `nan_step`."""
    finite = np.isfinite(values)
    with np.errstate(invalid="ignore"):
        return np.where(finite, values, 0).sum(axis=1) / np.where(
            finite.any(axis=1), finite.sum(axis=1), np.nan
        )
