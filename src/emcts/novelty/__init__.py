"""Novelty: estimators of local epistemic uncertainty behind one protocol (`emcts.novelty.base`)."""

from emcts.novelty.base import CountsSeen, Fitted, Novelty, RewardNovelty, Table
from emcts.novelty.counts import Counts
from emcts.novelty.ensemble import Ensemble
from emcts.novelty.hash_functions import SimHash, Xxh32Hash, as_bytes, xxh32
from emcts.novelty.hashes import HashCounts, HashSet, bits_for
from emcts.novelty.noise_aware import NoiseAware, RewardMoments
from emcts.novelty.normalised import Normalised
from emcts.novelty.rnd import Rnd

__all__ = [
    "Counts",
    "CountsSeen",
    "Ensemble",
    "Fitted",
    "HashCounts",
    "HashSet",
    "NoiseAware",
    "Normalised",
    "Novelty",
    "RewardMoments",
    "RewardNovelty",
    "Rnd",
    "SimHash",
    "Table",
    "Xxh32Hash",
    "as_bytes",
    "bits_for",
    "xxh32",
]
