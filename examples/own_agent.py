"""Trains Epistemic AlphaZero and AlphaZero on an environment of your own: a long corridor with a key and a door.

python examples/own_agent.py
"""

import numpy as np

from emcts.agents.mcts.variants import VARIANTS, compose
from emcts.agents.presets.default import default_settings
from emcts.agents.task import Task
from emcts.envs import time_limit
from emcts.training.env_factory import SharedEnv
from emcts.training.evaluation import ReturnReached
from emcts.training.seeds import SeedTrainer
from own_environment import KeyCorridor


def first_reward(agent: str, *, length: int, steps: int, seeds: tuple[int, ...]) -> np.ndarray:
    """Trains for so many steps, and returns the step at which each seed first opened the door; NaN for never."""
    env = time_limit(KeyCorridor(length), 3 * length)
    task = Task(SharedEnv(env), max_steps=3 * length, solved=ReturnReached(1.0), bounded_returns=True)
    learner = compose(VARIANTS[agent], task, default_settings(task, steps))
    trainer = SeedTrainer(learner, seeds, steps, iterations_per_chunk=5)
    state, progress = trainer.advance(trainer.init())
    while progress.env_steps < steps:
        state, progress = trainer.advance(state)
    return progress.metrics["first_reward_step"]


def main() -> None:
    for agent in ("e-az", "az"):
        steps = first_reward(agent, length=21, steps=6_000, seeds=(0, 1, 2))
        print(f"{agent}: the door first opened after {steps} steps")


if __name__ == "__main__":
    main()
