"""How unknown a state or a transition is: estimators of local uncertainty behind one protocol."""

from emcts.novelty.base import Fitted, Novelty
from emcts.novelty.counts import Counts
from emcts.novelty.ensemble import Ensemble
from emcts.novelty.hash_functions import SimHash, xxh32_hash
from emcts.novelty.hashes import HashCounts, HashSet, bits_for
from emcts.novelty.noise_aware import NoiseAware, RewardMoments
from emcts.novelty.normalised import Normalised
from emcts.novelty.rnd import Rnd
from emcts.novelty.xxh32 import as_bytes, xxh32

__all__ = [
    "Counts",
    "Ensemble",
    "Fitted",
    "HashCounts",
    "HashSet",
    "NoiseAware",
    "Normalised",
    "Novelty",
    "RewardMoments",
    "Rnd",
    "SimHash",
    "as_bytes",
    "bits_for",
    "xxh32",
    "xxh32_hash",
]
