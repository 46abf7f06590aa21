"""Bootstrapped DQN in Deep Sea, bsuite's own agent and ours: steps until it is solved.

    python -m benchmarks.bdqn_bsuite bsuite --sizes 10 14 --seeds 5 --out bdqn.csv
    python -m benchmarks.bdqn_bsuite emcts --sizes 10 14 --seeds 5 --out bdqn.csv

Both have the same settings, and for each seed the same action map. Solved is what bsuite scores: fewer than 90% of all
episodes so far have left the path. A run ends there, or after `episodes`. Rows are added to the file as runs end.
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

from emcts.agents.bdqn.settings import DeepSeaBdqnSettings, in_deep_sea
from emcts.training.env_factory import DeepSeaFactory
from emcts.training.loop import run_chunk

GOOD_SHARE = 0.1  # of all episodes: more than this is what bsuite calls solved


@dataclasses.dataclass(frozen=True)
class Row:
    """One run. Steps are empty if it did not come to that."""

    agent: str
    size: int
    seed: int
    batch_size: int
    first_reward_step: int | None
    solved_step: int | None
    episodes: int
    treasures: int


def bsuite_episodes(settings: DeepSeaBdqnSettings, seed: int) -> Iterator[bool]:
    """Whether each episode brings the treasure, played by bsuite's agent in bsuite's loop."""
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
    world = DeepSea(settings.size, mapping_seed=seed)
    sizes = [*settings.hidden, world.action_spec().num_values]

    def network(observation: jax.Array) -> jax.Array:
        x = hk.Flatten()(observation)
        learned, prior = hk.nets.MLP(sizes), hk.nets.MLP(sizes)
        return learned(x) + settings.prior_scale * jax.lax.stop_gradient(prior(x))

    agent = BootstrappedDqn(
        obs_spec=world.observation_spec(),
        action_spec=world.action_spec(),
        network=network,
        num_ensemble=settings.ensemble_size,
        batch_size=settings.batch_size,
        discount=settings.discount,
        replay_capacity=settings.replay_capacity,
        min_replay_size=settings.warm_up,
        sgd_period=settings.moves_per_update,
        target_update_period=settings.target_every,
        optimizer=optax.adam(settings.learning_rate),
        mask_prob=settings.mask_probability,
        noise_scale=settings.noise_scale,
        seed=seed,
    )
    bad = 0
    while True:
        experiment.run(agent, world, num_episodes=1)
        before, bad = bad, world.bsuite_info()["total_bad_episodes"]
        yield bad == before


def emcts_episodes(settings: DeepSeaBdqnSettings, seed: int, per_chunk: int = 10) -> Iterator[bool]:
    """The same of our agent."""
    init, advance = _programs(settings)
    state = init(jax.random.key(seed), DeepSeaFactory(settings.size).draw(seed))
    moves = per_chunk * settings.size
    first = 0
    while True:
        learning = jnp.arange(first + 1, first + moves + 1) >= settings.warm_up
        state, metrics = advance(state, learning, jnp.zeros(moves))
        yield from np.asarray(metrics.played.success).reshape(per_chunk, settings.size)[:, -1].tolist()
        first += moves


@functools.cache
def _programs(settings: DeepSeaBdqnSettings) -> tuple[Any, Any]:
    learner = in_deep_sea(settings)
    return jax.jit(learner.init), jax.jit(functools.partial(run_chunk, learner), donate_argnums=0)


AGENTS: dict[str, Callable[[DeepSeaBdqnSettings, int], Iterator[bool]]] = {
    "bsuite": bsuite_episodes,
    "emcts": emcts_episodes,
}


def measure(agent: str, settings: DeepSeaBdqnSettings, seed: int, episodes: int) -> Row:
    """Plays until it is solved, or for so many episodes."""
    found: list[bool] = []
    solved = False
    for treasure in AGENTS[agent](settings, seed):
        found.append(treasure)
        solved = sum(found) > GOOD_SHARE * len(found)
        if solved or len(found) == episodes:
            break
    return Row(
        agent=agent,
        size=settings.size,
        seed=seed,
        batch_size=settings.batch_size,
        first_reward_step=settings.size * (found.index(True) + 1) if any(found) else None,
        solved_step=settings.size * len(found) if solved else None,
        episodes=len(found),
        treasures=sum(found),
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
        settings = DeepSeaBdqnSettings(size=size, batch_size=batch_size, ensemble_size=ensemble_size)
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
