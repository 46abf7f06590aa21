"""MinAtar: five small Atari games, through pgx.

Licence: pgx is Apache-2.0, but its MinAtar games (`pgx.minatar`) derive from the original and are GPL-3.0, in the same
wheel. They are no part of this package: `pip install "emcts[minatar]"` installs them on request.
"""

import dataclasses
import functools
import importlib

from jaxtyping import Array, Bool, Int

from emcts.envs.adapters.pgx import PgxEnvironment, PgxGame, PgxState
from emcts.envs.base import AnyEnvironment, Outcome
from emcts.envs.wrappers import TimeLimit, TimeLimitState
from emcts.registry import lookup
from emcts.types import Key

CLASSES = {
    "asterix": "MinAtarAsterix",
    "breakout": "MinAtarBreakout",
    "freeway": "MinAtarFreeway",
    "seaquest": "MinAtarSeaquest",
    "space_invaders": "MinAtarSpaceInvaders",
}
GAMES = tuple(CLASSES)

ACTIONS = ("no-op", "left", "up", "right", "down", "fire")
MINIMAL_ACTIONS = {
    "asterix": (0, 1, 2, 3, 4),
    "breakout": (0, 1, 3),
    "freeway": (0, 2, 4),
    "seaquest": (0, 1, 2, 3, 4, 5),
    "space_invaders": (0, 1, 3, 5),
}

MinAtarState = PgxState | TimeLimitState[PgxState]


@dataclasses.dataclass(frozen=True)
class MinAtar:
    """One of the games. Observations are bool [10, 10, channels], rewards the original's, unclipped.

    As in the original, the last action is repeated with probability 0.1, difficulty ramps up, and only Freeway has a
    time limit: 2,500 frames, after which it terminates. `max_steps` truncates any game after so many.
    `minimal_actions` leaves out the actions that do nothing in this game.
    """

    game: str = "breakout"  # or asterix, freeway, seaquest, space_invaders
    sticky_action_prob: float = 0.1  # with which the last action is repeated
    max_steps: int | None = None  # after which an episode is truncated
    minimal_actions: bool = True  # else all six in every game

    def __post_init__(self) -> None:
        lookup(CLASSES, self.game, "MinAtar game")
        if not 0 <= self.sticky_action_prob <= 1:
            raise ValueError(f"sticky_action_prob is {self.sticky_action_prob}: give a probability, 0 to 1")
        _ = self.inner  # a missing package or a bad limit is an error here, not at the first step

    @functools.cached_property
    def inner(self) -> AnyEnvironment:
        """The game of pgx."""
        game = PgxEnvironment(_load(self.game, self.sticky_action_prob, self.minimal_actions))
        return game if self.max_steps is None else TimeLimit(game, self.max_steps)

    @property
    def num_actions(self) -> int:
        return self.inner.num_actions

    def init(self, key: Key) -> MinAtarState:
        return self.inner.init(key)

    def step(self, state: MinAtarState, action: Int[Array, ""], key: Key) -> tuple[MinAtarState, Outcome]:
        return self.inner.step(state, action, key)

    def observe(self, state: MinAtarState) -> Bool[Array, "10 10 C"]:
        return self.inner.observe(state)

    def legal(self, state: MinAtarState) -> Bool[Array, "A"]:
        return self.inner.legal(state)

    def action_names(self, state: MinAtarState) -> tuple[str, ...]:
        return tuple(ACTIONS[one] for one in MINIMAL_ACTIONS[self.game]) if self.minimal_actions else ACTIONS


def _load(game: str, sticky_action_prob: float, minimal_actions: bool) -> PgxGame:
    try:
        module = importlib.import_module(f"pgx.minatar.{game}")
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            'MinAtar needs the package pgx, which is not installed: pip install "emcts[minatar]" '
            "(its MinAtar games are GPL-3.0)"
        ) from error
    make = getattr(module, CLASSES[game])
    return make(use_minimal_action_set=minimal_actions, sticky_action_prob=sticky_action_prob)
