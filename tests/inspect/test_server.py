"""The live server: it searches as a `Session` does, tells what is wrong, and answers nobody else."""

import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
import uvicorn

from emcts.inspect.server import MOST_BODY, Live, make_app, own_hosts
from tests.inspect.agents import episode, session
from tests.inspect.browser import chromium

TOKEN = "let-me-in"
SEARCH = {"actions": [], "beta": "0.5", "simulations": 12, "rule": "agent"}


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    played = episode()
    live = Live(session(), played)
    config = uvicorn.Config(lambda: None, host="127.0.0.1", port=0, log_level="error")
    listening = config.bind_socket()
    port = listening.getsockname()[1]
    config.app = make_app(live, played.data("live"), TOKEN, own_hosts("127.0.0.1", port))
    config.factory = False
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.02)
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join(10)


def ask(url: str, body: object = None, **headers: str) -> tuple[int, str]:
    data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data, given)) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def search(address: str, **changes: Any) -> tuple[int, Any]:
    status, text = ask(f"{address}/api/search", {**SEARCH, **changes}, X_Inspect_Token=TOKEN)
    return status, json.loads(text)


def test_a_search_is_that_of_the_session(address: str) -> None:
    one = session()
    status, answer = search(address)
    assert status == 200
    expected: Any = one.describe(one.move(one.begin(), 0, (0.5,), "agent", 12))["searches"]
    (found,) = answer["searches"]
    assert found["nodes"] == json.loads(json.dumps(expected[0]["nodes"]))
    assert found["root"]["visits"] == expected[0]["root"]["visits"]


def test_moves_that_are_played_lead_to_the_end(address: str) -> None:
    actions: list[int] = []
    for _ in range(5):
        body = {**SEARCH, "actions": actions, "action": 1}
        status, text = ask(f"{address}/api/play", body, X_Inspect_Token=TOKEN)
        assert status == 200
        actions.append(1)
    assert json.loads(text)["over"] == "terminated"
    status, answer = search(address, actions=actions)
    assert status == 400
    assert "episode is over" in answer["error"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"beta": "much"}, "beta is 'much': give a number"),
        ({"beta": "nan"}, "beta is nan"),
        ({"beta": 1e300}, "give a number from"),
        ({"simulations": 0}, "whole number from 1"),
        ({"simulations": 1.5}, "whole number from 1"),
        ({"simulations": 10**9}, "whole number from 1"),
        ({"rule": "magic"}, "rule is 'magic': give one of agent, gumbel, puct, uct"),
        ({"rule": []}, "rule is []"),
        ({"actions": "up"}, "must be a list"),
        ({"actions": [7]}, "action 7 does not exist"),
        ({"actions": [True]}, "action True does not exist"),
        ({"actions": [0] * 6}, "must be a list of at most 5"),
    ],
)
def test_bad_input_gets_a_message(address: str, changes: Any, message: str) -> None:
    status, answer = search(address, **changes)
    assert status == 400
    assert message in answer["error"]


@pytest.mark.parametrize("body", [b"{", b"[]", b"[" * 60_000, b" " * (MOST_BODY + 1)])
def test_what_is_no_request_gets_a_message(address: str, body: bytes) -> None:
    status, text = ask(f"{address}/api/search", body, X_Inspect_Token=TOKEN)
    assert status == 400
    assert json.loads(text)["error"].startswith("The request ")


def test_others_are_refused(address: str) -> None:
    port = address.rpartition(":")[2]
    assert ask(f"{address}/?token={TOKEN}")[0] == 200
    assert ask(f"{address}/?token={TOKEN}", Host=f"localhost:{port}")[0] == 200
    assert ask(f"{address}/?token={TOKEN}", Origin=address)[0] == 200
    for status, text in (
        ask(address),
        ask(f"{address}/?token=wrong"),
        ask(f"{address}/?token=%C3%A9"),
        ask(f"{address}/?token={TOKEN}", Host="elsewhere.example"),
        ask(f"{address}/?token={TOKEN}", Origin="http://elsewhere.example"),
        ask(f"{address}/api/search", SEARCH),
        ask(f"{address}/api/search", SEARCH, X_Inspect_Token="wrong"),
        ask(f"{address}/api/play", SEARCH, X_Inspect_Token=TOKEN, Origin="null"),
    ):
        assert status == 403
        assert "emcts inspect --serve" in text
        assert TOKEN not in text


def test_the_page_searches_again_in_a_browser(address: str) -> None:
    with chromium() as browser:
        page = browser.new_page()  # type: ignore[attr-defined]
        assert page.goto(f"{address}/?token=wrong").status == 403
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(f"{address}/?token={TOKEN}")
        page.wait_for_selector("#search")
        before = page.locator(".card").count()
        for given in ("0.5", "-40"):
            page.fill("#beta", given)
            page.click("#search")
            page.wait_for_selector(f".card[data-beta='{given}']")
        assert page.locator(".card").count() == before + 2
        one = session()
        for beta in (0.5, -40.0):
            card = page.locator(f".card[data-beta='{beta:g}']")
            visits = one.move(one.begin(), 0, (beta,)).searched.tree.summary().visit_counts[0]
            for action in range(2):
                assert (
                    int(card.locator(f"tr[data-action='{action}'] td").nth(1).inner_text()) == visits[action]
                )
        rows = [page.locator(f".card[data-beta='{given}'] tbody").inner_text() for given in ("0.5", "-40")]
        assert rows[0] != rows[1]
        page.fill("#simulations", "-3")
        page.click("#search")
        page.wait_for_selector("#message:not(:empty)")
        assert "simulations is -3" in page.inner_text("#message")
        page.fill("#simulations", "12")
        page.click("[data-play='1']")
        page.wait_for_selector("[data-move='1'][aria-current='true']")
        assert "row 1" in page.inner_text("#facts")
        assert errors == []
