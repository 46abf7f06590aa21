"""Epistemic AlphaZero and AlphaZero in a world of your own: a long corridor with a key and a door.

python examples/own_agent.py
"""

import numpy as np

from emcts.agents import gumbel_family, own
from emcts.agents.gumbel_family import GumbelSettings
from emcts.agents.mcts.learner import MctsLearner
from emcts.envs import time_limit
from emcts.training.seeds import SeedTrainer
from own_environment import KeyCorridor

SETTINGS = GumbelSettings(
    total_env_steps=6_000,
    episodes=8,
    simulations=16,
    batch_size=256,
    replay_capacity=20_000,
    moves_per_iteration=16,
    updates_per_iteration=4,
    warm_up=256,
    novelty="counts",
    hash_bits=12,
    evaluation_episodes=1,
)


def train(name: str, settings: GumbelSettings, *, length: int, seeds: tuple[int, ...]) -> SeedTrainer:
    """An agent by its name in `gumbel_family`, in a corridor of that length."""
    env = time_limit(KeyCorridor(length), 3 * length)
    problem = own.problem(env, longest_episode=3 * length, solved_return=1.0)
    agent = getattr(gumbel_family, name)(settings, problem)
    return SeedTrainer(MctsLearner(agent), seeds, settings.total_env_steps, iterations_per_chunk=5)


def first_reward(trainer: SeedTrainer) -> np.ndarray:
    """The step at which each seed first opened the door; NaN for never."""
    state = trainer.init()
    env_steps = 0
    while env_steps < trainer.total_env_steps:
        state, progress = trainer.advance(state)
        env_steps = progress.env_steps
    return progress.metrics["first_reward_step"]


def main() -> None:
    for name in ("e_az", "az"):
        steps = first_reward(train(name, SETTINGS, length=21, seeds=(0, 1, 2)))
        print(f"{name}: the door first opened after {steps} steps")


if __name__ == "__main__":
    main()
