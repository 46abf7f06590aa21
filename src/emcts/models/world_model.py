"""World models: networks and a novelty estimator, made into a model that a search can plan with."""

from collections.abc import Callable
from typing import Protocol, TypeVar, runtime_checkable

from jaxtyping import Array, Bool, Float, Int, PyTree

from emcts.envs.base import AnyEnvironment
from emcts.models.evaluators import StateEstimate, Transition
from emcts.models.networks import Networks, RawOutputs
from emcts.novelty import Novelty
from emcts.types import Key, RecurrentFn, RecurrentFnOutput, Replaceable, RootFnOutput, Scalar, record

State_contra = TypeVar("State_contra", contravariant=True)
Prior = Callable[[StateEstimate], Float[Array, "B A"]]


@runtime_checkable
class PlanningModel(Protocol[State_contra]):
    """A model with the networks of one moment. States are the environment's; a search's embeddings are the model's."""

    @property
    def return_range(self) -> Scalar:
        """The unit of the return: variances are shares of its square, and scores are compared in terms of it."""

    def root(self, states: State_contra, prior: Prior) -> RootFnOutput: ...

    def recurrent_fn(self, prior: Prior) -> RecurrentFn: ...

    def invalid_actions(self, states: State_contra) -> Bool[Array, "B A"]:
        """Returns the actions that a search must not take from these states."""

    def estimate(self, states: State_contra) -> StateEstimate:
        """Estimates a batch of states without a search."""

    def stands_for(self, embeddings: PyTree, states: State_contra) -> Bool[Array, "B"]:
        """Returns whether the node of each embedding may be the root of a search of that state."""

    def step(self, states: State_contra, actions: Int[Array, "B"], key: Key) -> RecurrentFnOutput:
        """Takes one step from each state, without a prior."""


@record
class Unroll(Replaceable):
    """The outputs for K consecutive states, undecoded; None for a head that there is not.

    `consistency` is the distance of predicted states from the encoded ones, and `valid` marks the states of the first
    episode.
    """

    raw: RawOutputs  # [K]
    reward: Float[Array, "K outputs"] | None
    continuation: Float[Array, "K 1"] | None  # whether the episode continues after the action
    consistency: Float[Array, "K"]
    valid: Bool[Array, "K"]


@runtime_checkable
class WorldModel(Protocol[State_contra]):
    """Makes planning models from networks and the state of a novelty estimator, and unrolls and updates these."""

    @property
    def novelty(self) -> Novelty: ...

    @property
    def discount(self) -> float: ...

    @property
    def simulator_steps(self) -> int:
        """The steps of the environment that a step of its planning models takes; 0 if it takes none."""

    @property
    def reads_state_after(self) -> bool:
        """Whether `update_novelty` reads the states that transitions lead to."""

    def heads(self, networks: PyTree) -> Networks:
        """Returns the heads that losses are computed for."""

    def return_range(self, networks: PyTree) -> Scalar:
        """Returns the unit of the return."""

    def planning_models(
        self, env: AnyEnvironment, networks: PyTree
    ) -> Callable[[PyTree], PlanningModel[State_contra]]:
        """Returns the planning model, given the novelty state, which changes more often than the networks."""

    def without_novelty(self) -> "WorldModel[State_contra]":
        """Returns the same model with a novelty of 0, for searches that use no variance: other ones may be 0, too."""

    def unroll(
        self,
        env: AnyEnvironment,
        networks: PyTree,
        states: State_contra,
        actions: Int[Array, "K"],
        over: Bool[Array, "K"],
    ) -> Unroll:
        """Returns the outputs that losses are computed from, for the states of one trajectory and its actions."""

    def update_novelty(
        self, env: AnyEnvironment, networks: PyTree, novelty: PyTree, transitions: Transition
    ) -> PyTree:
        """Returns the novelty state after an update with these transitions."""

    def update_statistics(
        self, env: AnyEnvironment, networks: PyTree, transitions: Transition, returns: Float[Array, "B"]
    ) -> PyTree:
        """Returns the networks with their statistics after these transitions, once for each that was experienced.

        `returns` are the discounted sums of the rewards of each episode up to there.
        """

    def record_rewards(self, env: AnyEnvironment, novelty: PyTree, transitions: Transition) -> PyTree:
        """Returns the novelty state after the rewards were recorded: once for each transition that was experienced."""

    def all_states(self, env: AnyEnvironment) -> PyTree | None:
        """Returns all states by their index if the environment is tabular, to evaluate each once; else None."""
