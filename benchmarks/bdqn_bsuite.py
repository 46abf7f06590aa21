"""Bootstrapped DQN on Deep Sea, bsuite's own agent and ours: steps until it is solved.

    python -m benchmarks.bdqn_bsuite bsuite --sizes 10 14 --seeds 5 --out bdqn.csv
    python -m benchmarks.bdqn_bsuite emcts --sizes 10 14 --seeds 5 --out bdqn.csv

Both have the same settings, and for each seed the same action map. Solved is what bsuite scores: fewer than 90% of all
episodes so far have left the path. A run ends there, or after `episodes`. Rows are appended to the file as runs end.
"""

import csv
import dataclasses
import functools
import importlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import tyro
from jaxtyping import PyTree

from emcts.agents.bdqn.settings import BdqnSettings
from emcts.agents.catalogue import Registered
from emcts.runs.config import override
from emcts.training.learner import Learner
from emcts.training.loop import run_chunk

SOLVED_FRACTION = 0.1  # of all episodes that reach the goal: above it, bsuite counts Deep Sea as solved
Settings = BdqnSettings[PyTree]


@dataclasses.dataclass(frozen=True)
class RunResult:
    """One run. Steps are None if the event has not happened."""

    agent: str
    size: int
    seed: int
    batch_size: int
    first_reward_step: int | None
    solved_step: int | None
    episodes: int
    successes: int


def deep_sea_settings(size: int, *, batch_size: int = 1280, ensemble_size: int = 10) -> Settings:
    """Returns the default settings of BDQN on Deep Sea, with these numbers."""
    changes = {"env.size": size, "replay.batch_size": batch_size, "ensemble.size": ensemble_size}
    return override(Registered().settings("deep-sea", "bdqn"), changes)


def bsuite_episodes(settings: Settings, seed: int) -> Iterator[bool]:
    """Yields whether each episode reaches the goal, with bsuite's agent in bsuite's loop."""
    try:
        hk: Any = importlib.import_module("haiku")
        import optax
        from bsuite.baselines import experiment
        from bsuite.baselines.jax.boot_dqn import BootstrappedDqn
        from bsuite.environments.deep_sea import DeepSea
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"{error.name} is missing. bsuite's agent needs more than bsuite: pip install bsuite dm-haiku rlax"
        ) from error
    np.random.seed(seed)  # noqa: NPY002  bsuite draws its heads and batches from it
    env, ensemble = DeepSea(settings.env.size, mapping_seed=seed), settings.ensemble
    sizes = [*ensemble.hidden, env.action_spec().num_values]

    def network(observation: jax.Array) -> jax.Array:
        x = hk.Flatten()(observation)
        learned, prior = hk.nets.MLP(sizes), hk.nets.MLP(sizes)
        return learned(x) + ensemble.prior_scale * jax.lax.stop_gradient(prior(x))

    agent = BootstrappedDqn(
        obs_spec=env.observation_spec(),
        action_spec=env.action_spec(),
        network=network,
        num_ensemble=ensemble.size,
        batch_size=settings.replay.batch_size,
        discount=settings.discount,
        replay_capacity=settings.replay.capacity,
        min_replay_size=settings.schedule.warmup_steps,
        sgd_period=settings.schedule.rollout_length,
        target_update_period=settings.schedule.target_period,
        optimizer=optax.adam(settings.optimiser.learning_rate),
        mask_prob=ensemble.mask_probability,
        noise_scale=ensemble.noise_scale,
        seed=seed,
    )
    bad = 0
    while True:
        experiment.run(agent, env, num_episodes=1)
        before, bad = bad, env.bsuite_info()["total_bad_episodes"]
        yield bad == before


def emcts_episodes(settings: Settings, seed: int, per_chunk: int = 10) -> Iterator[bool]:
    """Yields the same for our agent."""
    learner = _learner(settings)
    init, advance = _programs(settings)
    state = init(jax.random.key(seed), learner.env_factory.params(seed))
    size = settings.env.size
    steps = per_chunk * size
    first = 0
    while True:
        learning = jnp.arange(first + 1, first + steps + 1) >= settings.schedule.warmup_steps
        state, metrics = advance(state, learning, jnp.zeros(steps))
        yield from np.asarray(metrics.rollout.success).reshape(per_chunk, size)[:, -1].tolist()
        first += steps


@functools.cache
def _learner(settings: Settings) -> Learner[PyTree]:
    return Registered().compose("deep-sea", "bdqn", settings)


@functools.cache
def _programs(settings: Settings) -> tuple[Callable[..., PyTree], Callable[..., tuple[PyTree, PyTree]]]:
    learner = _learner(settings)
    return jax.jit(learner.init), jax.jit(functools.partial(run_chunk, learner), donate_argnums=0)


AGENTS: dict[str, Callable[[Settings, int], Iterator[bool]]] = {
    "bsuite": bsuite_episodes,
    "emcts": emcts_episodes,
}


def measure(agent: str, settings: Settings, seed: int, episodes: int) -> RunResult:
    """Runs episodes until Deep Sea is solved, or for so many episodes."""
    successes: list[bool] = []
    solved = False
    for success in AGENTS[agent](settings, seed):
        successes.append(success)
        solved = sum(successes) > SOLVED_FRACTION * len(successes)
        if solved or len(successes) == episodes:
            break
    size = settings.env.size
    return RunResult(
        agent=agent,
        size=size,
        seed=seed,
        batch_size=settings.replay.batch_size,
        first_reward_step=size * (successes.index(True) + 1) if any(successes) else None,
        solved_step=size * len(successes) if solved else None,
        episodes=len(successes),
        successes=sum(successes),
    )


def main(
    agent: tyro.conf.Positional[str],
    /,
    *,
    sizes: tuple[int, ...] = (10, 14, 20),
    seeds: int = 5,
    first_seed: int = 0,
    batch_size: int = 1280,
    ensemble_size: int = 10,
    episodes: int = 10_000,
    out: Path = Path("bdqn.csv"),
) -> None:
    """Runs `agent`, bsuite or emcts, for every size and so many seeds from the first on."""
    if agent not in AGENTS:
        raise SystemExit(f"unknown agent {agent!r}: give {' or '.join(AGENTS)}")
    for size in sizes:
        settings = deep_sea_settings(size, batch_size=batch_size, ensemble_size=ensemble_size)
        for seed in range(first_seed, first_seed + seeds):
            row = dataclasses.asdict(measure(agent, settings, seed, episodes))
            print(", ".join(f"{name} {value}" for name, value in row.items()), flush=True)
            new = not out.exists()
            with out.open("a", newline="") as file:
                writer = csv.DictWriter(file, row)
                if new:
                    writer.writeheader()
                writer.writerow(row)


if __name__ == "__main__":
    tyro.cli(main)
