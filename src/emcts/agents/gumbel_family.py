"""AZ, AZ+UBE and E-AZ with Gumbel's search, where rewards are known and states are new or not (SUBLEQ, MinAtar)."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float

from emcts.agents.agent import Agent, Evaluation, Lanes, LossWeights, Memory, Schedule, Seen
from emcts.agents.judging import SolvedShare
from emcts.agents.planners import Gumbel, Planner, UbeAtRoot
from emcts.agents.targets import Reanalyse, largest_edge, value_rule
from emcts.agents.worlds import Worlds
from emcts.envs.base import is_deterministic
from emcts.models.judges import DenseJudge, Unaware
from emcts.models.minds import Mind
from emcts.models.networks import Networks
from emcts.models.true import TrueMind
from emcts.novelty import HashCounts, HashSet, Novelty, bits_for
from emcts.registry import lookup
from emcts.types import Key

MOST_BITS = {"set": 31, "counts": 27}  # 256 MB each


@dataclasses.dataclass(frozen=True)
class GumbelSettings:
    """Of a training. Steps are those of all episodes, of one seed."""

    total_env_steps: int = 2_000_000
    """when training ends"""
    steps_between_evaluations: int = 20_480
    beta: float = 1.0
    """what a standard deviation is worth: episodes have betas evenly spaced from 0 to this"""
    episodes: int = 128
    """that run side by side"""
    exploiting_episodes: int = 1
    """of those: with a beta of 0, and the policy that exploits"""
    novelty: str = "set"
    """set (new until first seen) or counts (falling with the visits)"""
    hash_bits: int | None = None
    """the table has 2 to the power of this many places; if not given, ten for every step, in at most 256 MB a seed"""
    seen: str = "acting"
    """a state stops being new once it was met (acting) or trained on (training)"""
    discount: float = 0.97
    simulations: int = 32
    width: int = 256
    """of the hidden layers"""
    learning_rate: float = 1e-3
    batch_size: int = 4096
    replay_capacity: int = 200_000
    priority_exponent: float = 0.6
    correction: tuple[float, float] = (0.0, 0.0)
    """exponent of the importance weights, at the start and at the end"""
    exploration_temperature: float = 1.0
    """of the softmax over scores that the exploration policy learns"""
    caution: float = 0.0
    """weights losses by 0.5 + sigmoid(-this * std): above 0, what is uncertain counts less"""
    moves_per_iteration: int = 32
    updates_per_iteration: int = 4
    target_every: int = 1
    """iterations after which the target network becomes the network"""
    warm_up: int = 5000
    reanalyse_beta: float = 0.0
    """below 0, targets are pessimistic"""
    evaluation_beta: float = 0.0
    evaluation_episodes: int = 32

    def resolved(self) -> "GumbelSettings":
        """The settings with a number of bits, where they leave it open."""
        return dataclasses.replace(self, hash_bits=table_bits(self)) if self.novelty in MOST_BITS else self


@dataclasses.dataclass(frozen=True)
class Problem:
    """What a world asks of this family: `look` is what of a state can be new, and `observe` what networks see."""

    worlds: Worlds
    make_networks: Callable[[Key, bool], Networks]  # with the heads of uncertainty, or without
    observe: Callable[[Any, Any], Array]
    look: Callable[[Any, Any], Array]
    leaf_factor: Callable[[Any], Float[Array, ""]]
    largest_variance: float
    longest_episode: int
    solved: SolvedShare | None


def az(settings: GumbelSettings, problem: Problem) -> Agent:
    """AlphaZero with Gumbel's search."""
    lanes = Lanes((0.0,) * settings.episodes, (False,) * settings.episodes)
    return _agent(settings, problem, Gumbel(settings.simulations), lanes, Unaware(), uncertain=False)


def az_ube(settings: GumbelSettings, problem: Problem) -> Agent:
    """AlphaZero that explores by the score of one step ahead; its search knows of no uncertainty."""
    acting = UbeAtRoot(Gumbel(settings.simulations))
    return _agent(settings, problem, acting, lanes_of(settings), novelty_of(settings), uncertain=True)


def e_az(settings: GumbelSettings, problem: Problem) -> Agent:
    """Epistemic AlphaZero: its search explores, with a policy of its own."""
    acting = Gumbel(settings.simulations)
    return _agent(settings, problem, acting, lanes_of(settings), novelty_of(settings), uncertain=True)


def _agent(
    settings: GumbelSettings,
    problem: Problem,
    acting: Planner,
    lanes: Lanes,
    novelty: Novelty,
    *,
    uncertain: bool,
) -> Agent:
    mind = TrueMind(
        DenseJudge(novelty, problem.observe, problem.look),
        settings.discount,
        problem.leaf_factor,
        problem.largest_variance,
    )
    return compose(settings, problem, acting, lanes, mind, lambda key: problem.make_networks(key, uncertain))


def compose(
    settings: GumbelSettings,
    problem: Problem,
    acting: Planner,
    lanes: Lanes,
    mind: Mind,
    make_networks: Callable[[Key], Any],
) -> Agent:
    """What agents of this family have in common, with or without the true model."""
    seen = {"acting": Seen.ACTING, "training": Seen.TRAINING}
    return Agent(
        worlds=problem.worlds,
        mind=mind,
        make_networks=make_networks,
        acting=acting,
        lanes=lanes,
        seen=lookup(seen, settings.seen, "seen"),
        reanalyse=Reanalyse(
            planner=Gumbel(settings.simulations),
            value=value_rule(deterministic=is_deterministic(problem.worlds.example)),
            ube=largest_edge,
            beta=settings.reanalyse_beta,
            exploration_beta=settings.beta,
            exploration_temperature=settings.exploration_temperature,
        ),
        weights=LossWeights(caution=settings.caution),
        optimiser=optax.adam(settings.learning_rate),
        memory=Memory(
            capacity=settings.replay_capacity,
            batch_size=settings.batch_size,
            priority_exponent=settings.priority_exponent,
            correction=settings.correction,
        ),
        schedule=Schedule(
            settings.moves_per_iteration,
            settings.updates_per_iteration,
            warm_up=settings.warm_up,
            target_every=settings.target_every,
        ),
        evaluation=Evaluation(
            Gumbel(settings.simulations, gumbel_scale=0.0),
            settings.evaluation_episodes,
            max_steps=problem.longest_episode,
            beta=settings.evaluation_beta,
            solved=problem.solved,
        ),
    )


def lanes_of(settings: GumbelSettings) -> Lanes:
    """Betas from 0 up, evenly spaced; the first episodes exploit."""
    exploiting = settings.exploiting_episodes
    if not 1 <= exploiting <= settings.episodes:
        raise ValueError(
            f"exploiting_episodes is {exploiting}: give 1 to {settings.episodes}, the number of episodes"
        )
    exploring = np.linspace(0, settings.beta, settings.episodes - exploiting + 1)[1:]
    betas = (0.0,) * exploiting + tuple(float(beta) for beta in exploring)
    return Lanes(betas, tuple(lane >= exploiting for lane in range(settings.episodes)))


def novelty_of(settings: GumbelSettings) -> Novelty:
    """By the name in the settings."""
    tables: dict[str, Callable[[int], Novelty]] = {
        "set": HashSet,
        "counts": lambda bits: HashCounts(bits, epsilon=1.0),
    }
    return lookup(tables, settings.novelty, "novelty")(table_bits(settings))


def table_bits(settings: GumbelSettings) -> int:
    """Those of the settings, or as many as the run needs: every step may lead to a state that is new."""
    if settings.hash_bits is not None:
        return settings.hash_bits
    return bits_for(settings.total_env_steps, MOST_BITS[settings.novelty])


def constant_factor(factor: float) -> Callable[[Any], Float[Array, ""]]:
    """A leaf rule's `c` that is the same for all states."""
    return lambda leaf: jnp.float32(factor)
