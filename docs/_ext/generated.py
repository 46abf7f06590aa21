"""Writes the parts of pages that are made from the code: settings, presets, options of commands, and the API.

A page says where with a block of the language `{generated}`, which has the name of an entry of `PARTS` and its
arguments:

    ```{generated}
    settings search
    ```

It is replaced by Markdown while the page is read, so that headings, links and the search treat it as any other text.
"""

import re
from collections.abc import Callable
from typing import Any

from api_pages import api
from command_pages import command
from setting_pages import presets, settings

PARTS: dict[str, Callable[..., str]] = {
    "api": api,
    "command": command,
    "presets": presets,
    "settings": settings,
}
BLOCK = re.compile(r"^```\{generated\}\n([^`]*)\n```$", flags=re.MULTILINE)


def expand(text: str) -> str:
    """Returns the Markdown of a page with its generated parts in place."""
    return BLOCK.sub(lambda block: _part(*block[1].split()), text)


def _part(name: str, *arguments: str) -> str:
    if name not in PARTS:
        raise ValueError(f"there is no generated part {name!r}: name one of {', '.join(PARTS)}")
    return PARTS[name](*arguments)


def setup(app: Any) -> dict[str, bool]:
    app.connect("source-read", _expand_source)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _expand_source(app: Any, docname: str, source: list[str]) -> None:
    if BLOCK.search(source[0]):
        app.env.note_reread()  # the code may change where the page does not
        source[0] = expand(source[0])
