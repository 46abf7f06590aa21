"""Simulator steps: the calls of the environment's `step` that planning makes, beside those that act.

One for each simulation of a search, and one for each action of a look one step ahead, where the model's step is a step
of the environment. In an environment of few states Reanalyse searches each state once in an iteration, however often
it was sampled. Replaying what was stored, such as a state of SUBLEQ that is rebuilt by running its program, is no
planning and does not count.
"""

import dataclasses

from emcts.agents.mcts.agent import Agent
from emcts.agents.mcts.targets import NStepUbe, ahead_variance, edge_variance, root_variance


@dataclasses.dataclass(frozen=True)
class SimulatorRates:
    """How many there are, of one seed."""

    acting: int = 0  # for each environment step
    reanalyse: int = 0  # for each iteration that learns
    evaluation: int = 0  # for each step of an evaluation episode


def simulator_rates(agent: Agent) -> SimulatorRates:
    """By the settings of an agent that plans; none where its model does not step the environment."""
    env, world_model, reanalyse = agent.env_factory.example, agent.world_model, agent.reanalyse
    actions = env.num_actions
    if not world_model.uses_simulator:
        return SimulatorRates()
    few = world_model.all_states(env) is not None
    sampled = agent.schedule.updates * agent.memory.batch_size * agent.memory.sequence
    states = env.num_states if few else sampled
    searching = world_model if reanalyse.needs_novelty else world_model.known()
    search = reanalyse.planner.model_steps(actions) if searching.uses_simulator else 0
    return SimulatorRates(
        acting=agent.acting.model_steps(actions),
        reanalyse=states * (search + _ube_steps(agent, actions)),
        evaluation=agent.evaluation.planner.model_steps(actions),
    )


def _ube_steps(agent: Agent, actions: int) -> int:
    """For the UBE target of a state, beyond the search that the other targets come from."""
    reanalyse = agent.reanalyse
    bootstrap = reanalyse.ube.bootstrap if isinstance(reanalyse.ube, NStepUbe) else None
    if bootstrap is ahead_variance:
        return actions
    if bootstrap in (root_variance, edge_variance):
        return (reanalyse.exploring or reanalyse.planner).model_steps(actions)
    return 0
