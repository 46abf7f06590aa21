"""A page that shows a search: its tree, how it grew, and why the agent acts as it does."""

from emcts.inspect.document import page
from emcts.inspect.growth import Growth, Recorder

__all__ = ("Growth", "Recorder", "page")
