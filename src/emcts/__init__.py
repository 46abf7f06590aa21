"""Epistemic Monte Carlo tree search in JAX.

Everything mctx offers under the same names, and beside each value the epistemic uncertainty of it.
"""

from emcts.search.policies import gumbel_muzero_policy, muzero_policy, uct_policy
from emcts.search.propagation import beta_for_confidence, correlated, independent
from emcts.search.qtransforms import (
    qtransform_by_min_max,
    qtransform_by_parent_and_siblings,
    qtransform_completed_by_mix_value,
)
from emcts.search.search import search
from emcts.search.selection import (
    GumbelMuZeroExtraData,
    InteriorActionSelectionFn,
    RootActionSelectionFn,
    gumbel_muzero_interior_action_selection,
    gumbel_muzero_root_action_selection,
    muzero_action_selection,
    uct_action_selection,
)
from emcts.search.stochastic import stochastic_muzero_policy
from emcts.search.tree import SearchSummary, Tree
from emcts.search.ube import ube_root_scores
from emcts.search.walkers import PLAIN as plain_walker
from emcts.search.walkers import Walker
from emcts.types import (
    ChanceRecurrentFnOutput,
    DecisionRecurrentFnOutput,
    LoopFn,
    PolicyOutput,
    RecurrentFn,
    RecurrentFnOutput,
    RecurrentState,
    RootFnOutput,
)

__version__ = "0.1.0"

__all__ = (
    "ChanceRecurrentFnOutput",
    "DecisionRecurrentFnOutput",
    "GumbelMuZeroExtraData",
    "InteriorActionSelectionFn",
    "LoopFn",
    "PolicyOutput",
    "RecurrentFn",
    "RecurrentFnOutput",
    "RecurrentState",
    "RootActionSelectionFn",
    "RootFnOutput",
    "SearchSummary",
    "Tree",
    "Walker",
    "beta_for_confidence",
    "correlated",
    "gumbel_muzero_interior_action_selection",
    "gumbel_muzero_policy",
    "gumbel_muzero_root_action_selection",
    "independent",
    "muzero_action_selection",
    "muzero_policy",
    "plain_walker",
    "qtransform_by_min_max",
    "qtransform_by_parent_and_siblings",
    "qtransform_completed_by_mix_value",
    "search",
    "stochastic_muzero_policy",
    "ube_root_scores",
    "uct_action_selection",
    "uct_policy",
)
