"""The page: one HTML file with its data, styles and program in it, which loads nothing else."""

import base64
import hashlib
import html
import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from importlib import resources
from typing import Any

import jax
import numpy as np

from emcts.inspect.growth import Growth
from emcts.inspect.pictures import Render, drawing
from emcts.inspect.records import EVERYTHING, Limits, search_record
from emcts.inspect.sentences import why
from emcts.search.reading import TreeNode
from emcts.search.tree import Tree
from emcts.types import JSON, PolicyOutput

MOST_BYTES = 5_000_000
SCRIPTS = (
    *(
        "numbers.js",
        "colours.js",
        "search.js",
        "layout.js",
        "tree.js",
        "details.js",
        "curves.js",
        "compare.js",
    ),
    *("pictures.js", "strip.js", "maps.js", "live.js", "main.js"),
)
Data = dict[str, JSON]
MakeData = Callable[[Limits], Data]
# Tried one after the other until the page is small enough.
LIMITS = (
    EVERYTHING,
    Limits(growth_depth=2),
    Limits(nodes=300, growth_depth=1),
    Limits(nodes=100, growth_depth=1),
    Limits(nodes=30, growth_depth=0),
)


class Page(str):
    """The text of a page. A notebook shows it in a frame of its own."""

    def _repr_html_(self) -> str:
        frame = 'sandbox="allow-scripts" style="width:100%;height:820px;border:1px solid #8888"'
        return f'<iframe srcdoc="{html.escape(self)}" {frame}></iframe>'


def page(
    search_tree: Tree[Any] | PolicyOutput[Tree[Any]],
    batch_index: int = 0,
    actions: Sequence[str] | None = None,
    render: Render | None = None,
    *,
    growth: Growth | None = None,
    title: str = "A search",
) -> Page:
    """Returns a page that shows one tree of a batch, as HTML: write it to a file, and open that in a browser.

    A notebook shows it where it is the last line of a cell.

    `actions` are their names. `render` draws the state that was searched, given the root's embedding, as text or as an
    image [H, W, 3] of uint8. With `growth`, from a `Recorder`, the page shows the curves of the root's actions too.
    """
    chosen: int | None = None
    if isinstance(search_tree, PolicyOutput):
        chosen = int(np.atleast_1d(search_tree.action)[batch_index])
        search_tree = search_tree.search_tree
    if not isinstance(search_tree, Tree):
        raise TypeError(
            f"page shows a search_tree, or the output of a policy, got {type(search_tree).__name__}"
        )
    tree = search_tree
    names = list(actions) if actions is not None else []
    root = tree.read(batch_index)
    if chosen is None:
        chosen = root.children[0].action if root.children else None
    picture = None if render is None else drawing(render(_embedding(tree, batch_index)))

    def label(node: TreeNode) -> str:
        return node.label(names)

    def data(limits: Limits) -> Data:
        record = search_record(tree, batch_index, growth, label, names, limits)
        move = {
            "picture": picture,
            "action": chosen,
            "labels": record["root"]["labels"],
            "searches": [{**record, "name": f"beta {record['beta']:g}", "action": chosen}],
            "acting": 0,
            "sentence": why(record, chosen),
        }
        return {"title": title, "episodes": [{"title": title, "moves": [move]}]}

    return Page(fitted(data))


def fitted(make: MakeData, most_bytes: int = MOST_BYTES) -> str:
    """Returns the page with as much of the data as it has room for. A note on it says what was left out."""
    written = ""
    for limits in LIMITS:
        data = make(limits)
        notes = [*data.get("notes", ()), *_left_out(limits, most_bytes)]  # type: ignore[misc]
        written = write({**data, "notes": notes})
        if len(written.encode()) <= most_bytes:
            return written
    raise ValueError(
        f"the page would have {len(written.encode()):,} bytes, more than {most_bytes:,}, however little of each tree "
        "is kept: give fewer moves (--max-moves)"
    )


def write(data: Mapping[str, JSON], live: Mapping[str, JSON] | None = None) -> str:
    """Returns the page of such data. With `live` it may ask the server that it came from, and no other."""
    title = html.escape(str(data["title"]))
    script = "\n".join(_asset(name) for name in SCRIPTS)
    style = _asset("page.css")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data:; "
        f"connect-src {chr(39)}{'none' if live is None else 'self'}{chr(39)}; base-uri 'none'; form-action 'none'"
    )
    parts = {
        "TITLE": title,
        "POLICY": policy,
        "STYLE": style,
        "DATA": pack({**data, "live": live}),
        "SCRIPT": script,
    }
    text = _asset("page.html")
    for name, content in parts.items():
        text = text.replace(f"<!--{name}-->", content, 1)
    return text


def pack(data: Mapping[str, JSON]) -> str:
    """Returns data as compressed JSON in letters, digits and +/=: nothing in it can end an element."""
    encoded = json.dumps(data, separators=(",", ":"), allow_nan=False).encode()
    return base64.b64encode(zlib.compress(encoded, 9)).decode()


def unpack(text: str) -> Any:
    """Returns the data of a page."""
    _, _, rest = text.partition('<script type="application/octet-stream" id="data">')
    return json.loads(zlib.decompress(base64.b64decode(rest.partition("<")[0])))


def _left_out(limits: Limits, most_bytes: int) -> list[str]:
    if limits == EVERYTHING:
        return []
    size = f"To keep this page below {most_bytes / 1e6:g} MB"
    parts = []
    if limits.nodes is not None:
        parts.append(f"trees have only their {limits.nodes} most visited nodes")
    if limits.growth_depth == 0:
        parts.append("the slider moves the numbers of the root alone")
    elif limits.growth_depth is not None:
        parts.append(
            f"the slider moves the numbers of the first {limits.growth_depth} levels alone; deeper nodes appear in "
            "their order, with their final numbers"
        )
    return [f"{size}, {', and '.join(parts)}."]


def _embedding(tree: Tree[Any], batch_index: int) -> Any:
    index = (batch_index, Tree.ROOT_INDEX) if tree.beta.ndim else (Tree.ROOT_INDEX,)
    return jax.tree.map(lambda leaf: leaf[index], tree.embeddings)


def _asset(name: str) -> str:
    return resources.files("emcts.inspect").joinpath("assets", name).read_text(encoding="utf-8")
