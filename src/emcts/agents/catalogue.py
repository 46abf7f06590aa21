"""What can be trained, by the names of the command line: environments, agents and presets, in one table each."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from emcts.agents import deep_sea, minatar, subleq
from emcts.agents.agent import Agent
from emcts.agents.choice import choose
from emcts.agents.trainer import SeedTrainer
from emcts.envs.minatar import GAMES

AGENTS: Mapping[str, str] = {
    "e-az": "Epistemic AlphaZero: its search carries uncertainty, and explores by it",
    "az-ube": "AlphaZero that explores by the uncertainty of one step ahead",
    "az": "AlphaZero, which knows of no uncertainty",
}
MINATAR = tuple(f"minatar-{game.replace('_', '-')}" for game in GAMES)
ENVIRONMENTS: Mapping[str, str] = {
    "deep-sea": "one path of many finds the treasure, and every other looks better at first",
    "subleq": "write a program in a language of one instruction",
    **{name: f"the game {name.removeprefix('minatar-')} (needs pgx)" for name in MINATAR},
}

Settings = deep_sea.DeepSeaSettings | subleq.SubleqSettings | minatar.MinAtarSettings


def presets(environment: str) -> tuple[str, ...]:
    """The first is the one to begin with; `paper-...` has the settings of the paper."""
    return tuple(_presets(environment))


def settings(environment: str, agent: str, preset: str | None = None) -> Settings:
    """The values of a preset for an agent."""
    choose(AGENTS, agent, "agent")
    table = _presets(environment)
    return choose(table, next(iter(table)) if preset is None else preset, "preset")


def trainer(environment: str, agent: str, settings: Settings, seeds: tuple[int, ...]) -> SeedTrainer:
    """Trains the agent with these settings."""
    composed = compose(environment, agent, settings)
    chunk = max(1, settings.steps_between_evaluations // composed.steps_per_iteration)
    return SeedTrainer(composed, seeds, settings.total_env_steps, chunk)


def compose(environment: str, agent: str, settings: Settings) -> Agent:
    """The agent itself."""
    choose(AGENTS, agent, "agent")
    choose(ENVIRONMENTS, environment, "environment")
    module: Any = minatar if environment in MINATAR else _MODULES[environment]
    return getattr(module, agent.replace("-", "_"))(settings)


_MODULES = {"deep-sea": deep_sea, "subleq": subleq}


def _presets(environment: str) -> Mapping[str, Settings]:
    choose(ENVIRONMENTS, environment, "environment")
    if environment in MINATAR:
        game = environment.removeprefix("minatar-").replace("-", "_")
        of_game = dataclasses.replace(minatar.PAPER, game=game)
        return {"default": of_game, "paper-minatar": of_game}
    if environment == "subleq":
        return {"default": subleq.BEST, "paper-subleq": subleq.PAPER}
    return {"default": deep_sea.BEST, "paper-deep-sea": deep_sea.PAPER}
