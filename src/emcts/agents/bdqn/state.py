"""The training state of Bootstrapped DQN: its members, the episode that one of them plays, and the replay."""

from jaxtyping import Array, Bool, Float, Int, PyTree

from emcts.agents.bdqn.networks import Layers
from emcts.models.statistics import Statistics
from emcts.training.log import TrainingLog
from emcts.training.replay import Replay, StoredTransition
from emcts.types import Key, Replaceable, record


@record
class BootstrapTransition(StoredTransition):
    """A transition with the state after it, and what each member learns from it. Its `policy` is empty."""

    after: PyTree
    mask: Bool[Array, "... K"]  # whether a member learns from it
    noise: Float[Array, "... K"]  # on its reward


@record
class BdqnEpisode(Replaceable):
    """The episode being played. `held` is the member that plays it, number `head`, as it was at its start."""

    state: PyTree
    episode_return: Float[Array, ""]
    discounted: Float[Array, ""]  # with the last reward in full, and those before it discounted
    head: Int[Array, ""]
    held: Layers


@record
class BdqnState(Replaceable):
    """Everything that training changes."""

    key: Key
    evaluation_key: Key
    env_params: PyTree
    networks: Layers  # [K]
    priors: Layers  # [K]
    target: Layers  # [K]
    optimiser: PyTree
    episode: BdqnEpisode
    replay: Replay
    log: TrainingLog
    statistics: Statistics | None


@record
class BdqnLosses(Replaceable):
    """The mean loss over members."""

    value: Float[Array, "..."]


@record
class BdqnStats(Replaceable):
    """The losses of an update."""

    total: Float[Array, "..."]
    losses: BdqnLosses
    clipped_targets: None = None
