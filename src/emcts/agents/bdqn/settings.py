"""The settings of Bootstrapped DQN in each environment, and the learner that they make."""

import dataclasses

import optax

from emcts.agents.bdqn.evaluation import GreedyEvaluation
from emcts.agents.bdqn.learner import Bdqn
from emcts.agents.bdqn.networks import BootstrappedEnsemble
from emcts.agents.mcts.agent import Schedule
from emcts.envs import MinAtar, Subleq
from emcts.training.env_factory import DeepSeaFactory, EnvFactory, Programs, SharedEnv
from emcts.training.evaluation import SolvedFraction, episodes_solved


@dataclasses.dataclass(frozen=True)
class BdqnSettings:
    """bsuite's defaults, but for the two that the paper changed: an ensemble of 10 and batches of 1280."""

    total_env_steps: int = 100_000
    """when training ends"""
    steps_between_evaluations: int = 1000
    ensemble_size: int = 10
    hidden: tuple[int, ...] = (50, 50)
    """units of each hidden layer"""
    prior_scale: float = 5.0
    """what the prior of a member counts for in its values"""
    mask_probability: float = 1.0
    """with which a member learns from a step"""
    noise_scale: float = 0.0
    """of noise on the rewards that a member learns from"""
    discount: float = 0.99
    learning_rate: float = 1e-3
    batch_size: int = 1280
    replay_capacity: int = 10_000
    warm_up: int = 128
    """steps before the first update"""
    moves_per_update: int = 1
    target_every: int = 4
    """updates after which the target networks become the networks"""
    evaluation_episodes: int = 1


@dataclasses.dataclass(frozen=True)
class DeepSeaBdqnSettings(BdqnSettings):
    """Of a training in Deep Sea. Steps are those of one seed."""

    size: int = 10
    stochastic: bool = False
    total_env_steps: int = 20_000
    """when training ends"""


@dataclasses.dataclass(frozen=True)
class SubleqBdqnSettings(BdqnSettings):
    """Of a training on a SUBLEQ task. Steps are those of one seed."""

    task: str = "identity"
    word_size: int = 16
    max_words: int = 10
    signed: bool = False


@dataclasses.dataclass(frozen=True)
class MinAtarBdqnSettings(BdqnSettings):
    """Of a training on a game of MinAtar. Steps are those of one seed."""

    game: str = "breakout"
    sticky_action_prob: float = 0.1
    evaluation_steps: int = 1000
    """after which an evaluation episode is cut off"""


PAPER = DeepSeaBdqnSettings(size=40, total_env_steps=400_000)
"""The paper's, for as many episodes as bsuite plays: 10,000."""


def in_deep_sea(settings: DeepSeaBdqnSettings) -> Bdqn:
    env_factory = DeepSeaFactory(settings.size, settings.stochastic)
    return _bdqn(settings, env_factory, settings.size, episodes_solved)


def in_subleq(settings: SubleqBdqnSettings) -> Bdqn:
    env = Subleq(settings.task, settings.word_size, settings.max_words, settings.signed)
    return _bdqn(settings, Programs(env), settings.max_words + 1, episodes_solved)


def in_minatar(settings: MinAtarBdqnSettings) -> Bdqn:
    env = MinAtar(settings.game, settings.sticky_action_prob)
    return _bdqn(settings, SharedEnv(env), settings.evaluation_steps, None)


def _bdqn(
    settings: BdqnSettings, env_factory: EnvFactory, longest_episode: int, solved: SolvedFraction | None
) -> Bdqn:
    return Bdqn(
        env_factory=env_factory,
        ensemble=BootstrappedEnsemble(
            settings.ensemble_size,
            settings.hidden,
            settings.prior_scale,
            mask_probability=settings.mask_probability,
            noise_scale=settings.noise_scale,
        ),
        discount=settings.discount,
        optimiser=optax.adam(settings.learning_rate),
        replay_capacity=settings.replay_capacity,
        batch_size=settings.batch_size,
        schedule=Schedule(settings.moves_per_update, 1, settings.warm_up, settings.target_every),
        evaluation=GreedyEvaluation(settings.evaluation_episodes, longest_episode, solved),
    )
