"""Epistemic Monte Carlo tree search in JAX.

All public names of mctx, and the epistemic uncertainty of each value. `train`, `resume`, `load` and
`inspect` are imported when they are first used: the search needs none of what they need.
"""

import importlib
from typing import TYPE_CHECKING, Any

from emcts import interrupts
from emcts.search.backup import Backup, beta_for_confidence, correlated, independent, mean_backup, power_mean
from emcts.search.inputs import check_inputs
from emcts.search.policies import gumbel_muzero_policy, muzero_policy, uct_policy
from emcts.search.qtransforms import (
    qtransform_by_min_max,
    qtransform_by_parent_and_siblings,
    qtransform_completed_by_mix_value,
)
from emcts.search.reuse import subtree
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
from emcts.search.traversal.backend import PLAIN as plain_backend
from emcts.search.traversal.backend import Backend
from emcts.search.tree import SearchSummary, Tree
from emcts.search.ube import ube_root_scores
from emcts.types import (
    ChanceRecurrentFnOutput,
    DecisionRecurrentFnOutput,
    LoopFn,
    PolicyOutput,
    RecurrentFn,
    RecurrentFnOutput,
    RecurrentState,
    RootFnOutput,
    SampledOutcomes,
)

if TYPE_CHECKING:
    from emcts import inspect as inspect
    from emcts.api import load as load
    from emcts.api import resume as resume
    from emcts.api import train as train

interrupts.release()

__version__ = "0.1.0"

__all__ = (
    "Backend",
    "Backup",
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
    "SampledOutcomes",
    "SearchSummary",
    "Tree",
    "beta_for_confidence",
    "check_inputs",
    "correlated",
    "gumbel_muzero_interior_action_selection",
    "gumbel_muzero_policy",
    "gumbel_muzero_root_action_selection",
    "independent",
    "mean_backup",
    "muzero_action_selection",
    "muzero_policy",
    "plain_backend",
    "power_mean",
    "qtransform_by_min_max",
    "qtransform_by_parent_and_siblings",
    "qtransform_completed_by_mix_value",
    "search",
    "stochastic_muzero_policy",
    "subtree",
    "ube_root_scores",
    "uct_action_selection",
    "uct_policy",
)

LAZY = ("load", "resume", "train")  # from `emcts.api`


def __getattr__(name: str) -> Any:
    if name == "inspect":
        return importlib.import_module("emcts.inspect")
    if name in LAZY:
        return getattr(importlib.import_module("emcts.api"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *LAZY, "inspect"})
