"""Training from the replay of another run, without acting: what is read of that run, and whether it fits."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import Bool, PyTree

from emcts.runs.checkpoints import Checkpoints, StoredArrays
from emcts.runs.config import Config, flat, plain
from emcts.runs.folder import Folder
from emcts.runs.leaves import describe
from emcts.training.dataset import Dataset, in_order, laid_out, of_all_seeds
from emcts.training.progress import Trainer
from emcts.training.replay import StoredTransition
from emcts.training.seeds import SeedTrainer

RUN, STEPS, FRACTION = "offline", "offline_steps", "targets.fraction"  # settings
REPLAY, TRANSITIONS, PARAMS = ".replay", ".replay.transitions", ".env_params"
POLICY = ".policy"


@dataclasses.dataclass(frozen=True)
class Source:
    """A run whose replay another one learns from: its seeds, and the arrays of its newest intact checkpoint."""

    path: str
    seeds: tuple[int, ...]
    stored: StoredArrays

    @property
    def steps(self) -> int:
        """The number of transitions of each seed."""
        return int(self._stored[0].sum())

    @property
    def _stored(self) -> Bool[np.ndarray, "S T E"]:
        """Which places of the replay have a transition: any but those have priority 0."""
        return self.stored.arrays[f"{REPLAY}.priorities"] > 0

    def dataset(self, seed: int, like: StoredTransition, steps: int | None) -> Dataset:
        """Returns the transitions of a seed, laid out for a replay like [S, T, E, ...]."""
        row, cursors = self.seeds.index(seed), self.stored.arrays[f"{REPLAY}.cursor"]
        leaves = [_of_leaf(self, leaf.path, leaf.shape[3:], leaf.dtype)[row] for leaf in describe(like, "")]
        ring = jax.tree.unflatten(jax.tree.structure(like), leaves)
        return laid_out(in_order(ring, self._stored[row], int(cursors[row]), steps), like.action.shape[2])


def refuse_without_dataset(agent: str, settings: Any) -> None:
    """Raises for the settings of an agent that can only act."""
    if not hasattr(settings, RUN):
        raise ValueError(f"{agent} learns from no replay of another run: take an agent that plans")


def resolve_offline(config: Config, settings: Any) -> tuple[Config, Any]:
    """Returns a new run with the number of transitions that it learns from, after all checks of where they are.

    An agent that acts is returned as it is.
    """
    steps = getattr(settings, STEPS, None)
    if getattr(settings, RUN, None) is None:
        if steps is not None:
            raise ValueError(f"offline_steps is {steps}, without a run to learn from: give offline too")
        return config, settings
    source = _open(config)
    if (steps or 1) > source.steps:
        raise ValueError(
            f"offline_steps is {steps:,}, and the replay of {source.path} has {source.steps:,} transitions of a seed: "
            "give fewer"
        )
    steps = steps or source.steps
    if steps > settings.replay.capacity:
        raise ValueError(
            f"replay.capacity is {settings.replay.capacity:,}, and there are {steps:,} transitions to learn from in "
            f"{source.path}: raise it, or lower offline_steps"
        )
    settings = dataclasses.replace(settings, offline_steps=steps)
    return dataclasses.replace(config, settings=plain(settings)), settings


def first_state(trainer: Trainer, config: Config) -> PyTree:
    """Returns the state that a run begins with: with the dataset in it, if it learns from one."""
    state: Any = trainer.init()
    if config.settings.get(RUN) is None:
        return state
    source, steps = _open(config), config.settings.get(STEPS)
    if not isinstance(trainer, SeedTrainer):
        raise ValueError(f"{type(trainer).__name__} learns from no dataset")
    _refuse_other_params(source, config.seeds, state.env_params)
    like = jax.eval_shape(lambda: state).replay.transitions
    assert steps is None or isinstance(steps, int)
    return trainer.fill(state, of_all_seeds([source.dataset(seed, like, steps) for seed in config.seeds]))


def _open(config: Config) -> Source:
    """Reads the run that a new one learns from, and compares their environments and seeds."""
    path = str(config.settings[RUN])
    folder = Folder.open(Path(path))
    source = folder.config()
    if source.environment != config.environment:
        raise ValueError(f"{path} was trained on {source.environment}, not on {config.environment}")
    theirs, ours = (dict(flat({"env": one.settings["env"]})) for one in (source, config))
    for name in sorted(theirs.keys() | ours.keys()):
        if theirs.get(name) != ours.get(name):
            raise ValueError(
                f"{path} was trained with {name} {theirs.get(name)!r}, not {ours.get(name)!r}: give the same"
            )
    missing = [seed for seed in config.seeds if seed not in source.seeds]
    if missing:
        raise ValueError(
            f"{path} has no seed {missing[0]}, and each seed learns from the replay of its own: "
            f"give some of {', '.join(map(str, source.seeds))}"
        )
    if source.agent == "bdqn" and dict(flat(config.settings)).get(FRACTION) != 1:
        raise ValueError(
            f"{path} is of bdqn, which stores no policies, and some of the targets would be stored ones: "
            "give targets.fraction 1"
        )
    stored = Checkpoints(folder.checkpoints).arrays((REPLAY, PARAMS))
    if stored is None:
        raise ValueError(f"{path} has no checkpoint that can be read: continue it with `emcts resume {path}`")
    found = Source(path, source.seeds, stored)
    if not found.steps:
        raise ValueError(f"the replay of {path} is empty: continue it with `emcts resume {path}`")
    return found


def _of_leaf(source: Source, name: str, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Returns an array of the transitions of all seeds, [S, T, E, ...], if it is as it has to be."""
    found = source.stored.arrays.get(TRANSITIONS + name)
    if found is None:
        raise ValueError(f"the replay of {source.path} has no {name[1:]}: another version of emcts made it")
    if name == POLICY and found.shape[3:] == (0,):
        return np.full((*found.shape[:3], *shape), 1 / shape[0], dtype)  # of bdqn; no target reads it
    if (found.shape[3:], str(found.dtype)) != (shape, dtype):
        raise ValueError(
            f"{name[1:]} of the replay of {source.path} is {found.dtype}{list(found.shape[3:])}, and {dtype}"
            f"{list(shape)} here: another version of the environment made it"
        )
    return found


def _refuse_other_params(source: Source, seeds: Sequence[int], params: PyTree) -> None:
    """Raises if the environment of a seed is not the one that its data are from, such as another map."""
    ours: Mapping[str, np.ndarray] = dict(
        zip((leaf.path for leaf in describe(params, PARAMS)), jax.tree.leaves(params), strict=True)
    )
    rows = [source.seeds.index(seed) for seed in seeds]
    for name, array in ours.items():
        found = source.stored.arrays.get(name)
        if found is None or not np.array_equal(found[rows], np.asarray(array)):
            raise ValueError(
                f"{source.path} was trained on other maps of the environment: {name[1:]} differs"
            )
