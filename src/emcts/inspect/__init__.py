"""A page that shows a search: its tree, how it grew, and why the agent acts as it does.

`episode_page` is imported when it is first used: the page of a tree needs no agents.
"""

import importlib
from typing import TYPE_CHECKING, Any

from emcts.inspect.document import page
from emcts.inspect.growth import Growth, Recorder

if TYPE_CHECKING:
    from emcts.inspect.episode import episode_page as episode_page

__all__ = ("Growth", "Recorder", "episode_page", "page")


def __getattr__(name: str) -> Any:
    if name == "episode_page":
        return importlib.import_module("emcts.inspect.episode").episode_page
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
