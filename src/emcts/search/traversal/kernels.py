"""The backends that run kernels. Apart from `backend`, so that Pallas is imported where it is used alone."""

import functools

import jax

from emcts.search.backup import BackupRules
from emcts.search.inputs import ModelStep
from emcts.search.traversal import fused, pallas, plain
from emcts.search.traversal.backend import Backend, merged_simulate, merging
from emcts.search.traversal.plain import LeafEdge
from emcts.search.traversal.program import plt
from emcts.search.tree import Tree


def can_run() -> bool:
    """Returns whether this JAX has Pallas's Triton backend."""
    return plt is not None


def _backup_by_platform(
    tree: Tree[object], leaf: LeafEdge, step: ModelStep, rules: BackupRules
) -> Tree[object]:
    in_jax = functools.partial(plain.backup, rules=rules)
    on_cuda = functools.partial(pallas.backup, rules=rules) if fused.fits(tree) else in_jax
    return jax.lax.platform_dependent(tree, leaf, step, cuda=on_cuda, default=in_jax)


KERNELS = Backend(merged_simulate, merging(_backup_by_platform), fused.BY_PLATFORM)
INTERPRETED_KERNELS = Backend(
    merged_simulate, merging(functools.partial(pallas.backup, interpret=True)), fused.INTERPRETED
)
