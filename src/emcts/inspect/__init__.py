"""A page that shows a search: its tree, how it grew, and why the agent acts as it does."""

from emcts.inspect.growth import Growth, Recorder
from emcts.inspect.document import page

__all__ = ("Growth", "Recorder", "page")
