"""What an agent thinks with: networks and a novelty estimator, made into a model that a search can plan with."""

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

from jaxtyping import Array, Bool, Float, Int, PyTree

from emcts.envs.base import AnyEnvironment
from emcts.models.evaluators import Batch, StateEstimate, Transition
from emcts.models.networks import Networks, Raw
from emcts.novelty import Novelty
from emcts.types import Key, RecurrentFn, RecurrentFnOutput, Replaceable, RootFnOutput, record

Prior = Callable[[StateEstimate], Float[Array, "B A"]]


@runtime_checkable
class PlanningModel(Protocol):
    """A model at one moment of training. States are the environment's; what a search walks over is the model's own."""

    def root(self, states: Any, prior: Prior) -> RootFnOutput: ...

    def recurrent_fn(self, prior: Prior) -> RecurrentFn: ...

    def illegal(self, states: Any) -> Bool[Array, "B A"]:
        """The actions that a search must not take from these states."""

    def estimate(self, states: Any) -> StateEstimate:
        """What is thought of a batch of states without a search."""

    def step(self, states: Any, actions: Int[Array, "B"], key: Key) -> RecurrentFnOutput:
        """One step from each state, without a prior."""


@record
class Unrolled(Replaceable):
    """What is said of K states in a row, before it is decoded; a head that there is not says None.

    `consistency` is how far a model strayed from the states that were, and `counts` which of the K are of one episode.
    """

    raw: Raw  # [K]
    reward: Any  # [K] or None
    continuation: Any  # [K] or None: whether the episode goes on after the action
    consistency: Float[Array, "K"]
    counts: Bool[Array, "K"]


@runtime_checkable
class WorldModel(Protocol):
    """Turns networks and the state of a novelty estimator into a planning model, and says how they learn."""

    @property
    def novelty(self) -> Novelty: ...

    @property
    def discount(self) -> float: ...

    @property
    def uses_simulator(self) -> bool:
        """Whether a step of its models takes a step of the environment."""

    def heads(self, networks: Any) -> Networks:
        """Those that losses are of."""

    def models(self, env: AnyEnvironment, networks: Any) -> Callable[[PyTree], PlanningModel]:
        """The model, given the state of the novelty estimator, which changes more often than the networks."""

    def known(self) -> "Mind":
        """The same mind without novelty, for searches that have no use for it."""

    def unroll(
        self,
        env: AnyEnvironment,
        networks: Any,
        states: Any,
        actions: Int[Array, "K"],
        over: Bool[Array, "K"],
    ) -> Unrolled:
        """What losses are made of: what is said of the states of one story, given its actions."""

    def look(self, env: AnyEnvironment, networks: Any, novelty: PyTree, moves: Transition) -> PyTree:
        """The novelty estimator once it was shown these moves."""

    def record_rewards(self, env: AnyEnvironment, novelty: PyTree, moves: Transition) -> PyTree:
        """The novelty estimator once it was told what these moves paid: once for each that was made."""

    def all_states(self, env: AnyEnvironment) -> Batch | None:
        """All states, by their index, where the world has so few that each is better thought of once; else None."""
