"""The page as a file: it has its data in it, loads nothing, runs no text of the data, and is small enough."""

import base64
import hashlib
import html as html_module
import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import emcts
from emcts.inspect import document
from tests.inspect.test_growth import recorded, search

HOSTILE = ["</script><script>alert(1)</script>", '"><img src=x onerror=alert(2)>', "<!--SCRIPT-->"]


def test_the_data_of_a_page_is_what_was_put_in() -> None:
    tree, growth = recorded("puct")
    html = emcts.inspect.page(tree, 1, actions=HOSTILE, growth=growth, title=HOSTILE[0])
    data = document.unpack(html)
    (move,) = data["episodes"][0]["moves"]
    assert data["title"] == HOSTILE[0]
    assert move["labels"] == HOSTILE
    assert move["searches"][0]["root"]["visits"] == tree.summary().visit_counts[1].tolist()
    assert data["live"] is None


def test_text_of_the_data_is_never_markup() -> None:
    html = emcts.inspect.page(search("puct"), actions=HOSTILE, title="</title><script>alert(3)</script>")
    assert "&lt;/title&gt;&lt;script&gt;alert(3)" in html
    assert html.count("alert(") == 1
    assert len(re.findall(r"<script\b", html)) == 2
    assert html.count("</script>") == 2


def test_a_page_loads_nothing_and_runs_its_own_script_alone() -> None:
    html = emcts.inspect.page(search("puct"))
    script = html.rpartition("<script>")[2].partition("</script>")[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in html
    assert "default-src 'none'" in html
    assert "connect-src 'none'" in html
    addresses = set(re.findall(r"https?://[^\s\"'`)]+", html))
    assert addresses == {"http://www.w3.org/2000/svg"}


def test_an_output_is_shown_with_the_action_that_it_chose() -> None:
    out = search("gumbel")
    move = document.unpack(emcts.inspect.page(out, 1))["episodes"][0]["moves"][0]
    assert move["action"] == int(out.action[1])
    tree_alone = document.unpack(emcts.inspect.page(out.search_tree, 1))["episodes"][0]["moves"][0]
    assert tree_alone["action"] == out.search_tree.read(1).children[0].action


def test_render_draws_the_embedding_of_the_root() -> None:
    html = emcts.inspect.page(search("puct"), 1, render=lambda state: f"state {int(state)}")
    assert document.unpack(html)["episodes"][0]["moves"][0]["picture"] == {"kind": "text", "text": "state 1"}
    image = emcts.inspect.page(search("puct"), render=lambda state: jnp.zeros((4, 6, 3), jnp.uint8))
    picture = document.unpack(image)["episodes"][0]["moves"][0]["picture"]
    assert (picture["kind"], picture["width"], picture["height"]) == ("image", 6, 4)


def test_one_tree_without_a_batch_is_shown() -> None:
    tree = search("puct").search_tree
    one = jax.tree.map(lambda leaf: leaf[1], tree)
    assert document.unpack(emcts.inspect.page(one)) == document.unpack(emcts.inspect.page(tree, 1))


def test_what_is_no_tree_is_refused() -> None:
    not_a_tree: Any = {"visits": 3}
    with pytest.raises(TypeError, match="search_tree"):
        emcts.inspect.page(not_a_tree)
    with pytest.raises(ValueError, match="batch_index is 7"):
        emcts.inspect.page(search("puct").search_tree, 7)


def test_a_page_that_is_too_large_is_thinned_out_and_says_so() -> None:
    random = np.random.default_rng(0)

    def data(limits: Any) -> document.Data:
        kept = 20_000 if limits.nodes is None else limits.nodes
        return {"title": "large", "notes": ["first"], "episodes": [], "noise": random.random(kept).tolist()}

    html = document.fitted(data, most_bytes=120_000)
    found = document.unpack(html)
    assert len(html.encode()) <= 120_000
    assert len(found["noise"]) == 300
    assert found["notes"][0] == "first"
    assert "300 most visited nodes" in found["notes"][1]
    with pytest.raises(ValueError, match="--max-moves"):
        document.fitted(data, most_bytes=1000)


def test_a_page_that_fits_has_everything() -> None:
    tree, growth = recorded("puct")
    html = emcts.inspect.page(tree, growth=growth)
    data = document.unpack(html)
    assert data["notes"] == []
    (one,) = data["episodes"][0]["moves"][0]["searches"]
    assert one["growth"]["complete"]
    assert len(one["nodes"]["index"]) == one["total_nodes"] == int((tree.node_visits[0] > 0).sum())


def test_notebooks_show_outputs_and_pages() -> None:
    out = search("puct")
    shown = out._repr_html_()
    assert out.search_tree._repr_html_() in shown
    assert html_module.escape(str(out.action)) in shown
    page = emcts.inspect.page(out)
    frame = page._repr_html_()
    assert html_module.unescape(frame.partition('srcdoc="')[2].partition('"')[0]) == page
