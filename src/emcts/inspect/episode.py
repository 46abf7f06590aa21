"""An episode of a trained agent, with the search of each move, as one page."""

import dataclasses

from emcts.agents.trained import TrainedAgent
from emcts.inspect.document import Data, Page, fitted
from emcts.inspect.records import EVERYTHING, Limits
from emcts.inspect.session import EpisodePosition, Move, Session

MAX_MOVES = 100


@dataclasses.dataclass(frozen=True)
class Episode:
    """The moves of an episode, and the position after the last of them."""

    session: Session
    moves: tuple[Move, ...]
    end: EpisodePosition

    @classmethod
    def play(cls, session: Session, max_moves: int = MAX_MOVES) -> "Episode":
        """Plays until the episode is over, for at most `max_moves`."""
        if max_moves < 1:
            raise ValueError(f"max_moves is {max_moves}: give at least 1")
        position, moves = session.begin(), list[Move]()
        while not position.over and len(moves) < min(max_moves, session.learner.evaluation.max_steps):
            moves.append(session.move(position, len(moves)))
            position = session.step(position, moves[-1].action, len(moves) - 1)
        return cls(session, tuple(moves), position)

    def data(self, title: str, subtitle: str = "", limits: Limits = EVERYTHING) -> Data:
        """Returns what the page shows."""
        session = self.session
        moves = [session.describe(move, limits) for move in self.moves]
        return {
            "title": title,
            "subtitle": subtitle,
            "notes": self._notes(),
            "grid": session.grid,
            "maps": session.maps,
            "episodes": [{"title": self._summary(), "moves": [*moves, session.describe_position(self.end)]}],
        }

    def page(self, title: str, subtitle: str = "") -> Page:
        """Returns the page of the episode, thinned out if it is too large."""
        return Page(fitted(lambda limits: self.data(title, subtitle, limits)))

    def _summary(self) -> str:
        session = self.session
        kind = "explores" if session.explore else "exploits"
        ended = self.end.over or "not over yet"
        return (
            f"An episode that {kind}, with beta {session.acting_beta:g}: {len(self.moves)} moves, "
            f"return {self.end.episode_return:.4g}, {ended}"
        )

    def _notes(self) -> list[str]:
        notes = []
        if len(self.session.betas) == 1:
            notes.append("This agent estimates no uncertainty: each move is searched with beta 0 alone.")
        if not self.end.over:
            notes.append(f"The episode goes on after these {len(self.moves)} moves.")
        return notes


def episode_page(
    agent: TrainedAgent,
    *,
    explore: bool = False,
    start: int = 0,
    simulations: int | None = None,
    max_moves: int = MAX_MOVES,
    title: str = "An episode",
) -> Page:
    """Plays an episode with a trained agent, and returns a page with the search of each move, as `emcts inspect` does.

    With `explore`, the agent acts as in training, else as in evaluation. `start` is the random seed of the episode, and
    `simulations` those of each search, by default as many as the agent makes.
    """
    episode = Episode.play(Session(agent, explore, start, simulations), max_moves)
    return episode.page(title, f"seed {agent.seed}, step {agent.env_steps:,}")
