"""Novelty: estimators of local epistemic uncertainty behind one protocol (`emcts.novelty.base`)."""

from emcts.novelty.base import CountsSeen, Fitted, FromSample, Novelty, NoveltyTable, RewardNovelty, Table
from emcts.novelty.counts import Counts
from emcts.novelty.ensemble import Ensemble
from emcts.novelty.hash_functions import SimHash, Xxh32Hash, as_bytes, xxh32
from emcts.novelty.hashes import HashCounts, HashSet, bits_for
from emcts.novelty.noise_aware import NoiseAware, RewardMoments
from emcts.novelty.normalised import Normalised
from emcts.novelty.rnd import Rnd
from emcts.novelty.whitened import Binned, Moments, RandomFeatures, Whitened

__all__ = [
    "Binned",
    "Counts",
    "CountsSeen",
    "Ensemble",
    "Fitted",
    "FromSample",
    "HashCounts",
    "HashSet",
    "Moments",
    "NoiseAware",
    "Normalised",
    "Novelty",
    "NoveltyTable",
    "RandomFeatures",
    "RewardMoments",
    "RewardNovelty",
    "Rnd",
    "SimHash",
    "Table",
    "Whitened",
    "Xxh32Hash",
    "as_bytes",
    "bits_for",
    "xxh32",
]
