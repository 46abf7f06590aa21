"""Agents that have learned nothing, but search: one of each kind serves all tests."""

import functools

from emcts.agents.trained import TrainedAgent, of_seed
from emcts.inspect.episode import Episode
from emcts.inspect.session import Session
from tests.agents.tiny import trainer


@functools.cache
def agent(environment: str, name: str) -> TrainedAgent:
    one = trainer(environment, name)
    return TrainedAgent(one.learner, of_seed(one.init(), 0), 0, 0)


@functools.cache
def session(environment: str = "deep-sea", name: str = "e-az", explore: bool = True) -> Session:
    return Session(agent(environment, name), explore)


@functools.cache
def episode() -> Episode:
    """An episode of five moves in Deep Sea."""
    return Episode.play(session())
