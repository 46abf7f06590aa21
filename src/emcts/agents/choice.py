"""Names at the command line, looked up in one table each."""

import difflib
from collections.abc import Mapping
from typing import TypeVar

T = TypeVar("T")


def choose(table: Mapping[str, T], name: str, what: str) -> T:
    """The entry of that name; an unknown one gets an error that lists those there are."""
    if name in table:
        return table[name]
    near = difflib.get_close_matches(name, table, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise ValueError(f"unknown {what} {name!r}: {hint}Choose one of {', '.join(table)}")
