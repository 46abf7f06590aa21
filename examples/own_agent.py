"""Trains Epistemic AlphaZero and AlphaZero on an environment of your own: a long corridor with a key and a door.

python examples/own_agent.py
"""

from collections.abc import Sequence

import emcts
from own_environment import KeyCorridor


def first_success(
    agent: str, *, length: int, steps: int, seeds: Sequence[int], **settings: object
) -> list[int | None]:
    """Trains for so many steps, and returns the step at which each seed first opened the door; None for never."""
    run = emcts.train(KeyCorridor(length), agent, seeds=seeds, steps=steps, time_limit=3 * length, **settings)
    return [seed["first_reward_step"] for seed in run.summary()["seeds"]]


def main() -> None:
    for agent in ("e-az", "az"):
        steps = first_success(agent, length=21, steps=6_000, seeds=(0, 1, 2))
        print(f"{agent}: the door first opened after {steps} steps")


if __name__ == "__main__":
    main()
