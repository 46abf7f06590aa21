"""The settings of agents that plan: small groups, shared by all tasks. Field `x` of group `g` is the flag `--g.x`."""

import dataclasses
from typing import Generic, TypeVar

from emcts.agents.mcts.agent import LossWeights
from emcts.novelty import bits_for
from emcts.registry import lookup

MAX_BITS = {"hash-set": 31, "hash-counts": 27}  # of hash tables: 256 MB each


@dataclasses.dataclass(frozen=True)
class SearchSettings:
    """The search that acts. Evaluation uses Gumbel's search without noise."""

    simulations: int = 50
    """number of simulations of each search: in acting, for targets and in evaluation"""
    discount: float = 0.995
    """discount of rewards per step, in searches and targets"""
    policy: str = "puct"
    """rule of the search that acts: puct, gumbel, or uct, which has no prior and does not normalise values"""
    temperature: float = 0.0
    """temperature with which puct samples actions by visits in exploiting episodes; 0 takes the most visited one"""
    gumbel_scale: float = 1.0
    """scale of the Gumbel noise at the root, for policy gumbel"""
    dirichlet_fraction: float = 0.25
    """share of Dirichlet noise in puct's prior at the root, for agents without uncertainty"""
    outcomes: int | None = 1
    """number of outcomes of each action that a search in a simulator samples; left out, 1 if the environment is
    deterministic, else 8"""
    backup_exponent: float | None = 1.0
    """exponent of the power mean by which a search that acts backs up stds: 1 is the mean of the paper, much more the
    maximum; left out, 16 in e-az and e-mz, whose searches read stds"""
    reuse: bool = False
    """whether the searches of an episode go on in one tree from move to move, while the networks stay the same"""


@dataclasses.dataclass(frozen=True)
class ExplorationSettings:
    """How episodes explore."""

    beta: float | None = None
    """beta of episodes that explore, the weight of a std in a score; left out, 1, and 10 if rewards are stochastic"""
    betas: str = "constant"
    """betas of the exploring episodes: constant (all the same) or spaced (evenly, from 0 to beta)"""
    num_exploiting: int = 1
    """number of the parallel episodes that exploit; the others explore"""
    policy_head: bool = False
    """whether an exploration policy is learned, as the prior of episodes that explore"""
    temperature: float = 1.0
    """temperature of the softmax over scores that the exploration policy learns"""


@dataclasses.dataclass(frozen=True)
class NoveltySettings:
    """The estimator of local uncertainty."""

    kind: str | None = "counts"
    """estimator: counts, hash-set (novel until first seen), hash-counts, rnd or ensemble; left out, what suits the
    environment"""
    input: str | None = None
    """part of a state that can be novel, by name, several joined by +; left out, the environment's default"""
    update: str | None = None
    """when novelty is updated, acting or training; left out, acting for counts and hashes, training for networks"""
    return_range: float | None = 1.0
    """unit of returns and, squared, of variances; left out, the range of the discounted returns so far"""
    unseen_variance: float = 1.0
    """variance of what was never seen, in units of the squared return range"""
    max_variance: float | None = None
    """largest variance of a value, in these units; predictions above it are clipped; left out, no limit"""
    leaf_horizon: str | None = "episode"
    """steps that uncertainty accumulates behind a leaf: episode (to its end), endless, or single; left out, what suits
    the environment"""
    reward_noise: bool = True
    """whether the noise of rewards is estimated, in finite environments: without noise it changes nothing"""
    count_epsilon: float = 0.01
    """epsilon of counts: variances are proportional to 1 / (n + epsilon) after n visits"""
    hash_bits: int | None = None
    """binary logarithm of the number of entries of the hash table; left out, ten for every step, in at most 256 MB a
    seed"""
    hash: str | None = None
    """hash function: xxh32 (of the bytes: what differs has another hash) or simhash (of the direction: what is similar
    shares one); left out, what suits the environment (built-in ones: xxh32)"""
    simhash_bits: int = 32
    """bits of simhash: with more, inputs must be more alike to share a hash"""
    bins: float | None = None
    """cells per standard deviation of random observations, in a grid of which the cell is hashed; with 0, numbers are
    hashed as they are; left out, what suits the environment (built-in ones: 0)"""
    features: int | None = None
    """number of random Fourier features of whitened inputs that rnd and ensemble read, 0 for the inputs as they are;
    left out, 256 of observations, and 0 of latent states"""
    feature_length: float = 0.4
    """fraction of the distance of two typical inputs from which on features tell them apart"""
    rnd_width: int = 1024
    """units of the hidden layers of rnd's predictor; its target and the outputs of both have half as many"""
    ensemble_size: int = 10
    """number of members of the ensemble"""
    ensemble_hidden: tuple[int, ...] = (64, 64)
    """units of the hidden layers of each member"""
    ensemble_prior: float = 1.0
    """weight of the random network that is added to each member: members differ by it where they saw nothing"""
    learning_rate: float = 5e-4
    """learning rate of rnd and ensemble"""
    adam_epsilon: float = 0.01
    """epsilon of Adam for rnd and ensemble: with less, what is sampled rarely is never quite learned"""
    power: float = 2.0
    """power to which variances of rnd and ensemble are raised, so that the half learned counts for little"""
    saturation: float | None = 0.4
    """fraction of the initial error of rnd and ensemble from which on a transition is fully novel; left out, there is
    no such limit"""

    def table_bits(self, steps: int) -> int:
        """Returns the given number of bits, or as many as a run needs: every step may lead to a new state."""
        if self.hash_bits is not None:
            return self.hash_bits
        return bits_for(steps, lookup(MAX_BITS, self.kind, "novelty.kind with a table"))


@dataclasses.dataclass(frozen=True)
class NetworkSettings:
    """The networks of agents that plan with a simulator."""

    torso: str = "paper"
    """layers that read observations: paper (separate networks for vectors, one convolution for images) or shared, which
    reads any observation"""
    width: int = 256
    """units of the hidden layers"""
    depth: int = 2
    """number of hidden layers before those of the heads"""
    channels: int = 16
    """number of channels of the first convolution, for images"""
    normalise_observations: bool = False
    """whether networks read numbers in units of the mean and the standard deviation that were observed"""
    support: str = "paper"
    """atoms of the value, reward and UBE heads: paper (21, from -117 to 117) or wide (255, from -1e6 to 1e6)"""


@dataclasses.dataclass(frozen=True)
class LearnedModelSettings:
    """The learned model, and its networks."""

    kind: str | None = "abstracted"
    """kind of the model: abstracted (latent states that serve values, rewards and policies) or anchored (states of the
    environment, or observations); left out, what suits the environment"""
    latent: int = 100
    """number of elements of an abstracted latent state"""
    torso: str = "paper"
    """layers of the representation: paper (one convolution for images) or shared, which reads any observation"""
    channels: int = 16
    """number of channels of the first convolution, for images"""
    normalise_observations: bool = False
    """whether networks read numbers in units of the mean and the standard deviation that were observed"""
    representation: tuple[int, ...] = (256,)
    """units of the hidden layers of the abstracted model's representation; with torso paper, unless it reads images"""
    dynamics: tuple[int, ...] = (256, 256)
    """units of the hidden layers of the dynamics"""
    heads: tuple[int, ...] = (128, 128)
    """units of the hidden layers of the heads for value, policy, reward and continuation"""
    ube_head: tuple[int, ...] = (128, 128, 128)
    """units of the hidden layers of the UBE head"""
    support: str = "paper"
    """atoms of the value, reward and UBE heads: paper (21, from -117 to 117) or wide (255, from -1e6 to 1e6)"""
    beyond_known: bool = False
    """whether uncertainty is maximal behind the first unknown transition of a plan (appendix B of the paper)"""


@dataclasses.dataclass(frozen=True)
class TargetSettings:
    """The targets of Reanalyse."""

    search: str = "gumbel"
    """rule of the search that makes targets: gumbel or puct"""
    value_steps: int | None = 0
    """number of rewards of the replay in a value target; 0 searches, and takes the 1-step target if that is larger and
    the environment deterministic; left out, what suits the environment"""
    ube: str = "lookahead"
    """last part of a UBE target: lookahead (one step), root or edge (of an exploring search), search-edge (of the
    search for the other targets), or path (lookahead at each of the ube_steps, where environments are deterministic)"""
    ube_steps: int = 0
    """number of steps of the replay in a UBE target before that"""
    ube_depth: int | None = 1
    """number of steps after which lookahead in a simulator reads the UBE head; each costs a pass over all states of a
    finite environment, elsewhere a factor of the number of actions; left out, the longest episode of a finite
    environment, elsewhere 1"""
    fraction: float = 1.0
    """fraction of the policy targets that are searched anew; the others are those of acting"""
    beta: float = 0.0
    """beta of the search that makes targets; below 0 they are pessimistic"""
    uniform_fraction: float = 0.0
    """fraction of the uniform policy in the prior of the search for targets and in evaluation; with 0, these searches
    cannot take an action again that the policy head has once excluded, whatever its value"""


@dataclasses.dataclass(frozen=True)
class ReplaySettings:
    """The replay, and how it is sampled."""

    capacity: int = 100_000
    """number of steps in the replay of a seed"""
    batch_size: int = 256
    """number of states in the batch of an update"""
    sequence: int = 1
    """number of consecutive states of a sample: the steps that a learned model is unrolled for"""
    priority: str = "surprise"
    """quantity that decides how often a step is sampled: value-error, or surprise"""
    priority_exponent: float = 0.6
    """exponent of the priorities; 0 samples uniformly"""
    importance: tuple[float, float] = (0.0, 0.0)
    """exponent of the importance weights, at the start and at the end of training"""
    recent: int = 0
    """number of the last steps that a novelty estimator gets again with each batch, if training updates it"""


@dataclasses.dataclass(frozen=True)
class OptimiserSettings:
    """Adam."""

    learning_rate: float = 1e-3
    """learning rate of Adam"""


@dataclasses.dataclass(frozen=True)
class ScheduleSettings:
    """When the agent acts and learns."""

    num_envs: int = 2
    """number of parallel episodes of a seed"""
    rollout_length: int = 5
    """number of steps of each episode in an iteration"""
    updates: int = 20
    """number of updates of the networks in an iteration"""
    warmup_steps: int = 100
    """number of environment steps before the first update"""
    target_period: int = 1
    """number of iterations after which the networks are copied to the target networks"""


@dataclasses.dataclass(frozen=True)
class EvaluationSettings:
    """Evaluation by greedy episodes."""

    every: int | None = 200
    """environment steps between evaluations; left out, 2,048, or more where a run would have over 50 of them"""
    episodes: int = 1
    """number of episodes of an evaluation"""
    beta: float = 0.0
    """beta of evaluation: above 0 it explores, below 0 it avoids uncertainty"""
    max_steps: int | None = None
    """steps after which an evaluation episode is cut off; left out, the environment's longest episode"""
    solved_return: float | None = None
    """mean return from which a seed counts as solved; left out, what the environment says, or else all episodes must be
    a success"""
    baseline_return: float | None = None
    """return above which an episode is a success; left out, a positive reward is, unless many steps have a reward or an
    episode goes on after a positive one: then the best of some random episodes"""

    @property
    def has_no_solution(self) -> bool:
        """Whether the task can only be played better: no return counts as solved."""
        return self.baseline_return is not None and self.solved_return is None


EnvT = TypeVar("EnvT")
ModelT = TypeVar("ModelT", NetworkSettings, LearnedModelSettings)


@dataclasses.dataclass(frozen=True)
class Settings(Generic[EnvT, ModelT]):
    """All settings of a training. Steps are environment steps of one seed, all parallel episodes counted."""

    steps: int
    """environment steps of each seed: training ends with the first iteration that reaches them, and is evaluated"""
    env: EnvT
    model: ModelT
    search: SearchSettings = SearchSettings()
    exploration: ExplorationSettings = ExplorationSettings()
    novelty: NoveltySettings = NoveltySettings()
    targets: TargetSettings = TargetSettings()
    replay: ReplaySettings = ReplaySettings()
    loss: LossWeights = dataclasses.field(default_factory=LossWeights)
    optimiser: OptimiserSettings = OptimiserSettings()
    schedule: ScheduleSettings = ScheduleSettings()
    evaluation: EvaluationSettings = EvaluationSettings()
    offline: str | None = None
    """folder of another run, whose replay the agent learns from without acting; left out, it acts"""
    offline_steps: int | None = None
    """number of the first transitions of that replay to learn from; left out, all"""

    def with_table_bits(self) -> "Settings[EnvT, ModelT]":
        """Returns the settings with a size of the hash table, if there is one: a longer run keeps it."""
        if self.novelty.kind not in MAX_BITS:
            return self
        bits = self.novelty.table_bits(self.steps)
        return dataclasses.replace(self, novelty=dataclasses.replace(self.novelty, hash_bits=bits))
