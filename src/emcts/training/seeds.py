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
from jaxtyping import Array, Bool, Float, Int32, PyTree, UInt32

from emcts.counter import Counter
from emcts.envs.base import is_on_host, simulator_errors
from emcts.training.data_parallel import AXIS, DataParallel
from emcts.training.dataset import Dataset
from emcts.training.devices import SEEDS, DeviceLayout, best_layout
from emcts.training.evaluation import POSITIVE_REWARD, episodes_solved
from emcts.training.learner import Learner, LearnsFromDataset, Maps, RolloutStats, StateT, UpdateStats
from emcts.training.log import TrainingLog, evaluation_keys, first_time
from emcts.training.loop import Metrics, empty_metrics, iteration, run_iterations
from emcts.training.progress import Piece, Progress, next_report
from emcts.training.reports import EvaluationStats, Reporter, SeedCounts
from emcts.types import Key, Replaceable, record

Specs = PyTree  # of PartitionSpec
EPISODES = P(None, SEEDS, None, AXIS)  # what happened in a chunk, in each iteration and step
UPDATES = P(None, SEEDS)


@record
class Chunk(Replaceable):
    """A chunk that has begun: how many of its iterations are done, and what these did. The others are zero."""

    done: Int32[Array, ""]
    metrics: Metrics  # [K, S, ...]


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

    def fill(self, state: StateT, datasets: Dataset) -> StateT:
        """Returns the first state of agents that learn from datasets, [S, ...]: one for each seed."""
        learner = self.learner
        if not isinstance(learner, LearnsFromDataset):
            raise ValueError("this agent acts, and learns from no dataset")
        return jax.jit(jax.vmap(learner.fill), out_shardings=self.shardings)(state, datasets)

    def compilations(self, state: StateT) -> Mapping[str, Callable[[], Compiled]]:
        def training() -> Compiled:
            self._counts_so_far.lower(state, self.begin_chunk()).compile()
            return self._piece.lower(state, self.begin_chunk(), np.int32(0), *self._inputs(0)).compile()

        def evaluation() -> Compiled:
            return self._evaluation.lower(state, self.begin_chunk()).compile()

        return {"training": training, "evaluation": evaluation}

    def begin_chunk(self) -> Chunk:
        return self._begin()

    def run_piece(self, state: StateT, chunk: Chunk, iterations: int) -> tuple[StateT, Chunk, Piece]:
        """A piece ends where learning begins, so that its iterations take the same time, and where a report is due."""
        done, first, per_iteration = (
            int(chunk.done),
            self._first(state, chunk),
            self.learner.steps_per_iteration,
        )
        last = min((end for end in self._ends(first) if end > done), default=done)
        if iterations < 1 or last == done:
            raise ValueError(
                f"a piece of {iterations} iterations, of a chunk with {last - done} left: give at least 1"
            )
        learning, progress = self._inputs(first)
        alike = int(np.cumprod(learning[done:last] == learning[done]).sum())
        end = done + min(iterations, alike)
        # Before the first evaluation, or where it would have been if the run had not been made longer since.
        report = next_report(first + done) - first if first < self.iterations_per_chunk else last
        end = min(end, report)
        with simulator_errors(self.learner.env_factory.example):
            state, chunk, finite = self._piece(state, chunk, np.int32(end), learning, progress)
            is_finite = bool(np.all(jax.device_get(finite)))  # waits until the piece is done
        piece = Piece(
            env_steps=(first + end) * per_iteration,
            iterations=end - done,
            is_last=end == last,
            changes_pace=end == done + alike < last,
            is_finite=is_finite,
            is_report_due=end == report < last,
        )
        return state, chunk, piece

    def _first(self, state: StateT, chunk: Chunk) -> int:
        """Returns the iterations before a chunk."""
        return int(self._env_steps(state.log)) // self.learner.steps_per_iteration - int(chunk.done)

    def _ends(self, first: int) -> tuple[int, int]:
        """Returns the iterations of a chunk after which it may end: the last of the run, and that of its length.

        A chunk after the end of a run that was made longer ends where it would have without that end.
        """
        last = -(-self.total_env_steps // self.learner.steps_per_iteration)
        length = self.iterations_per_chunk
        return last - first, length - first % length

    def report(self, state: StateT, chunk: Chunk) -> Progress:
        with simulator_errors(self.learner.env_factory.example):
            rollout, update, counts, done = jax.device_get(self._counts_so_far(state, chunk))
        return self._reporter.so_far(rollout, update, counts, int(done))

    def end_chunk(self, state: StateT, chunk: Chunk) -> tuple[StateT, Progress]:
        done, ends = int(chunk.done), self._ends(self._first(state, chunk))
        if not done or done not in ends:
            last = min(end for end in ends if end > done)
            raise ValueError(f"{done} of {last} iterations of the chunk are done: run its last piece first")
        with simulator_errors(self.learner.env_factory.example):
            state, *results = self._evaluation(state, chunk)
            rollout, update, counts, evaluated = jax.device_get(results)
        return state, self._reporter.whole(rollout, update, counts, evaluated, done)

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
            return jax.tree.map(_strongly_typed, jax.vmap(self.learner.init)(keys, params))

        return jax.jit(init, out_shardings=self.shardings)

    @functools.cached_property
    def _reporter(self) -> Reporter:
        return Reporter(self.learner, self.seeds, self.learner.simulator_rates)

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

        def evaluation(
            state: StateT, chunk: Chunk
        ) -> tuple[StateT, RolloutStats, UpdateStats, SeedCounts, EvaluationStats]:
            state, (counts, evaluated) = evaluate(state)
            return state, *_seeds_first(chunk.metrics), counts, evaluated

        replicated = NamedSharding(self.mesh, P())
        return jax.jit(evaluation, out_shardings=(self.shardings, *[replicated] * 4), donate_argnums=(0,))

    @functools.cached_property
    def _counts_so_far(self) -> Wrapped:
        """Returns what the host reads in the middle of a chunk: no artifacts, and how many iterations are done."""
        count = jax.shard_map(
            jax.vmap(self._count_one),
            mesh=self.mesh,
            in_specs=(self._specs,),
            out_specs=P(SEEDS),
            check_vma=False,
        )

        def counts(
            state: StateT, chunk: Chunk
        ) -> tuple[RolloutStats, UpdateStats, SeedCounts, Int32[Array, ""]]:
            metrics = chunk.metrics.replace(rollout=chunk.metrics.rollout.replace(artifact=None))
            return *_seeds_first(metrics), count(state), chunk.done

        return jax.jit(counts, out_shardings=NamedSharding(self.mesh, P()))

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

    def _evaluate_one(self, state: StateT) -> tuple[StateT, tuple[SeedCounts, EvaluationStats]]:
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
        return state, (self._count_one(state), EvaluationStats(evaluation, solved))

    def _count_one(self, state: StateT) -> SeedCounts:
        learner = self._sharded
        stored = learner.dataset_steps(state) if isinstance(learner, LearnsFromDataset) else None
        return SeedCounts(learner.states_discovered(state), learner.table_occupancy(state), state.log, stored)


def _seeds_first(metrics: Metrics) -> tuple[RolloutStats, UpdateStats]:
    """Returns the metrics of a chunk, [K, S, ...], as [S, K, ...]."""
    swapped = jax.tree.map(lambda leaf: jnp.swapaxes(leaf, 0, 1), metrics)
    return swapped.rollout, swapped.update


def _spec(axis: int) -> P:
    """The partition of an array of all seeds, sharded along `axis` after that of seeds; -1 for none."""
    return P(SEEDS) if axis < 0 else P(SEEDS, *[None] * axis, AXIS)


def _strongly_typed(leaf: Array) -> Array:
    """Returns an array without the weak type of a Python number.

    What training returns has none, so with a weak type the whole program would compile twice.
    """
    is_extended = jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.extended)  # random keys
    return leaf if is_extended else jax.lax.convert_element_type(leaf, leaf.dtype)


def _named(key: Key, name: str) -> Key:
    """A key that depends on a name, in the same way on every machine."""
    return jax.random.fold_in(key, jnp.uint32(zlib.crc32(name.encode())))
