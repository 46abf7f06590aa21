"""The page in a real browser: what it shows is what the search computed."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import emcts
from tests.inspect.agents import episode
from tests.inspect.browser import chromium
from tests.inspect.test_growth import recorded, search

NAMES = ["north", "<b>east</b>", "south"]
Open = Callable[..., Any]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as one:
        yield one


@pytest.fixture
def open_page(browser: Any, tmp_path: Path) -> Iterator[Open]:
    """Opens a page from disk. The test fails if the page reports an error, or asks for anything else."""
    problems: list[str] = []
    contexts = []

    def opened(html: str, **options: Any) -> Any:
        file = tmp_path / "page.html"
        file.write_text(html)
        contexts.append(browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options}))
        one = contexts[-1].new_page()
        one.on("console", lambda message: problems.append(f"{message.type}: {message.text}"))
        one.on("pageerror", lambda error: problems.append(str(error)))
        one.on(
            "request",
            lambda asked: problems.append(asked.url) if asked.url[:5] not in ("file:", "data:") else None,
        )
        one.goto(file.as_uri())
        one.wait_for_selector("#tree [data-index]")
        return one

    yield opened
    for context in contexts:
        context.close()
    assert problems == []


def node_count(page: Any) -> int:
    return int(page.get_attribute("#tree svg", "data-nodes"))


def slide(page: Any, simulation: int) -> None:
    page.evaluate(
        "n => { const s = document.getElementById('slider'); s.value = n; s.dispatchEvent(new Event('input')); }",
        simulation,
    )


def details(page: Any) -> dict[str, str]:
    fields = page.eval_on_selector_all(
        "#details [data-field]", "all => all.map(e => [e.dataset.field, e.lastChild.textContent])"
    )
    return dict(fields)


def test_the_tree_has_the_nodes_of_the_search_and_the_slider_takes_them_away(open_page: Open) -> None:
    tree, growth = recorded("puct")
    page = open_page(emcts.inspect.page(tree, growth=growth, actions=NAMES))
    nodes = int((tree.node_visits[0] > 0).sum())
    assert node_count(page) == nodes
    page.click("text=All nodes")
    assert page.locator("#tree [data-index]").count() == nodes
    for simulation in (0, 1, 7):
        slide(page, simulation)
        visits = np.asarray(growth.visits)[0, simulation]
        assert node_count(page) == page.locator("#tree [data-index]").count() == int((visits > 0).sum())
        assert details(page)["visits"] == str(visits[0])
        assert float(details(page)["q"]) == pytest.approx(float(growth.values[0, simulation, 0]), rel=1e-3)
        assert page.inner_text("#clock") == f"{simulation} of 24 simulations"
    tried = int((tree.summary().visit_counts[0] > 0).sum())
    assert page.locator("path.curve").count() == 2 * tried


def test_numbers_are_those_of_the_summary(open_page: Open) -> None:
    tree, _ = recorded("puct")
    summary = tree.summary()
    page = open_page(emcts.inspect.page(tree, 1, actions=NAMES))
    for action, name in enumerate(NAMES):
        cells = page.locator(f"tr[data-action='{action}'] td").all_inner_texts()
        assert cells[0].removeprefix("▸ ") == name
        assert int(cells[1]) == summary.visit_counts[1, action]
        q, std = (float(part) for part in cells[3].split(" ± "))
        assert q == pytest.approx(float(summary.qvalues[1, action]), rel=1e-3)
        assert std == pytest.approx(float(summary.qvalues_std[1, action]), rel=5e-2)
        score = float(summary.qvalues[1, action] + 0.5 * summary.qvalues_std[1, action])
        assert float(cells[4]) == pytest.approx(score, rel=1e-2)


def test_a_node_is_selected_by_a_click_and_by_keys(open_page: Open) -> None:
    tree, _ = recorded("puct")
    page = open_page(emcts.inspect.page(tree))
    best = next(child for child in tree.read(0).children if child.children)
    page.click(f"#node-{best.index}")
    shown = details(page)
    assert shown["visits"] == str(best.visits)
    for name, value in (
        ("q", best.qvalue),
        ("std", best.qvalue_std),
        ("q + 0.5 · std", best.score),
        ("prior", best.prior),
        ("reward", best.reward),
        ("reward variance", best.reward_variance),
        ("discount", best.discount),
    ):
        assert float(shown[name]) == pytest.approx(value, rel=1e-3), name
    page.focus("#tree")
    page.keyboard.press("ArrowLeft")  # closes it
    assert page.get_attribute(f"#node-{best.index}", "aria-expanded") == "false"
    page.keyboard.press("ArrowLeft")
    assert page.get_attribute("#node-0", "aria-selected") == "true"
    page.keyboard.press("ArrowDown")
    assert page.get_attribute(f"#node-{tree.read(0).children[0].index}", "aria-selected") == "true"


def test_a_tree_alone_says_that_its_curves_are_not_known(open_page: Open) -> None:
    page = open_page(emcts.inspect.page(search("gumbel")))
    assert "Only the finished tree is known" in page.inner_text("#app")
    slide(page, 3)
    assert node_count(page) <= 4
    assert page.locator("path.curve").count() == 0


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (800, "light"), (1280, "dark")])
def test_an_episode_at_three_widths(open_page: Open, width: int, scheme: str) -> None:
    played = episode()
    page = open_page(
        played.page("e-az on deep-sea"), viewport={"width": width, "height": 800}, color_scheme=scheme
    )
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator("[data-move]").count() == len(played.moves) + 1
    assert page.locator("canvas").count() == 4
    page.click("[data-move='2']")
    move = played.moves[2]
    assert "row 2" in page.inner_text("#facts")
    cards = page.locator(".card")
    assert [float(cards.nth(k).get_attribute("data-beta")) for k in range(cards.count())] == list(move.betas)
    cards.nth(0).locator("button").click()
    assert node_count(page) == int((move.searched.tree.node_visits[0] > 0).sum())
    colours = "(style => [style.backgroundColor, style.color])(getComputedStyle(document.body))"
    ground, ink = page.evaluate(colours)
    brightness = [sum(int(part) for part in one[4:-1].split(",")) for one in (ground, ink)]
    assert (brightness[0] < brightness[1]) == (scheme == "dark")
