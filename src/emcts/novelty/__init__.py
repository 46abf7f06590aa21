"""How unknown a state or a transition is: estimators of local uncertainty behind one protocol."""

from emcts.novelty.base import Novelty
from emcts.novelty.counts import Counts
from emcts.novelty.xxh32 import as_bytes, xxh32

__all__ = ["Counts", "Novelty", "as_bytes", "xxh32"]
