"""Tables of named things: every name that a user may give is an entry of one of them."""

import difflib
from collections.abc import Mapping
from typing import TypeVar

T = TypeVar("T")


def lookup(table: Mapping[str, T], name: str | None, what: str, others: str = "") -> T:
    """Returns the entry of a table. An unknown name raises an error that lists the names there are, and `others`."""
    if name is None:
        raise ValueError(f"{what} is left open: choose one of {', '.join(table)}")
    if name in table:
        return table[name]
    near = difflib.get_close_matches(name, table, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    more = f"; {others}" if others else ""
    raise ValueError(f"unknown {what} {name!r}: {hint}Choose one of {', '.join(table)}{more}")
