"""The live page: a local server that plays moves and searches again, for whoever has the token in its address.

It answers its own page alone. Requests with another host or origin in their headers are refused: other pages in the
same browser, and names that lead to this machine, can reach a loopback address too.
"""

import hmac
import json
import math
import secrets
import socket
import threading
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from emcts.inspect.document import Data, write
from emcts.inspect.episode import Episode
from emcts.inspect.session import RULES, EpisodePosition, Move, Session
from emcts.types import JSON

LOOPBACK = "127.0.0.1"
MOST_SIMULATIONS, MOST_BETA, MOST_BODY, MOST_KEPT = 1000, 1e6, 65536, 4096
TOKEN_HEADER = "x-inspect-token"
Answer = dict[str, JSON]
HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class Refused(ValueError):
    """Input that the page should be told about."""


class Live:
    """What the server knows: a `Session`, and the positions that were reached from its start."""

    def __init__(self, session: Session, episode: Episode) -> None:
        self.session = session
        self._lock = threading.Lock()  # one search at a time
        self._positions: dict[tuple[int, ...], EpisodePosition] = {(): session.begin()}
        reached: tuple[int, ...] = ()
        for move, position in zip(
            episode.moves, [*(m.position for m in episode.moves[1:]), episode.end], strict=True
        ):
            reached = (*reached, move.action)
            self._positions[reached] = position

    def search(self, body: Answer) -> Answer:
        """Searches the state that the actions lead to, with the given beta, simulations and rule."""
        with self._lock:
            actions = self._actions(body.get("actions"))
            move = self._searched(actions, body)
            described: Any = self.session.describe(move)
            count = f"{self._simulations(body)} simulations"
            return {"searches": [{**one, "name": f"{one['name']}, {count}"} for one in described["searches"]]}

    def play(self, body: Answer) -> Answer:
        """Takes one more action, and searches the state that it leads to, unless the episode is over."""
        with self._lock:
            actions = self._actions(body.get("actions"))
            action = self._legal(actions, body.get("action"))
            position = self._reach((*actions, action))
            if position.over:
                return self.session.describe_position(position)
            return self.session.describe(self._searched((*actions, action), body))

    def _searched(self, actions: tuple[int, ...], body: Answer) -> Move:
        position = self._reach(actions)
        if position.over:
            raise Refused("The episode is over in this state: there is nothing to search.")
        beta = _number(body.get("beta"), "beta")
        if not math.isfinite(beta) or abs(beta) > MOST_BETA:
            raise Refused(f"beta is {body.get('beta')}: give a number from {-MOST_BETA:g} to {MOST_BETA:g}.")
        rule = body.get("rule")
        if not isinstance(rule, str) or rule not in RULES:
            raise Refused(f"rule is {rule!r}: give one of {', '.join(RULES)}.")
        return self.session.move(position, len(actions), (beta,), rule, self._simulations(body))

    def _simulations(self, body: Answer) -> int:
        count = _number(body.get("simulations"), "simulations")
        if count != count // 1 or not 1 <= count <= MOST_SIMULATIONS:
            given = body.get("simulations")
            raise Refused(f"simulations is {given}: give a whole number from 1 to {MOST_SIMULATIONS}.")
        return int(count)

    def _actions(self, given: object) -> tuple[int, ...]:
        most = self.session.learner.evaluation.max_steps
        if not isinstance(given, list) or len(given) > most:
            raise Refused(f"actions must be a list of at most {most} actions.")
        actions: tuple[int, ...] = ()
        for one in given:
            actions = (*actions, self._legal(actions, one))
        return actions

    def _legal(self, actions: tuple[int, ...], action: object) -> int:
        """An action that is legal in the state that the others lead to."""
        count = self.session.agent.env.num_actions
        if not isinstance(action, int) or isinstance(action, bool) or not 0 <= action < count:
            raise Refused(f"action {action!r} does not exist: give a number from 0 to {count - 1}.")
        position = self._reach(actions)
        if position.over:
            raise Refused(f"The episode is over after {len(actions)} moves: no action can follow.")
        if not self.session.legal(position)[action]:
            raise Refused(f"{self.session.names(position.state)[action]} is not legal in this state.")
        return action

    def _reach(self, actions: tuple[int, ...]) -> EpisodePosition:
        if actions not in self._positions:
            before = self._reach(actions[:-1])
            if len(self._positions) >= MOST_KEPT:
                self._positions = {(): self._positions[()]}
            self._positions[actions] = self.session.step(before, actions[-1], len(actions) - 1)
        return self._positions[actions]


def make_app(live: Live, data: Data, token: str, hosts: frozenset[str]) -> Starlette:
    """Returns the application. `hosts` are the values of the Host header that are its own."""

    def page() -> str:
        settings: Answer = {
            "token": token,
            "beta": live.session.acting_beta,
            "simulations": live.session.search_planner.num_simulations,
            "rule": next(iter(RULES)),
            "rules": list(RULES),
        }
        return write(data, settings)

    async def show(request: Request) -> Response:
        if (refusal := _refusal(request, request.query_params.get("token", ""), token, hosts)) is not None:
            return PlainTextResponse(refusal, 403, HEADERS)
        return HTMLResponse(page(), headers=HEADERS)

    def answering(act: Callable[[Answer], Answer]) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            if (
                refusal := _refusal(request, request.headers.get(TOKEN_HEADER, ""), token, hosts)
            ) is not None:
                return JSONResponse({"error": refusal}, 403, HEADERS)
            try:
                return JSONResponse(await run_in_threadpool(act, await _body(request)), headers=HEADERS)
            except Refused as error:
                return JSONResponse({"error": str(error)}, 400, HEADERS)

        return answer

    return Starlette(
        routes=[
            Route("/", show),
            Route("/api/search", answering(live.search), methods=["POST"]),
            Route("/api/play", answering(live.play), methods=["POST"]),
        ]
    )


def serve(live: Live, data: Data, host: str, port: int, announce: Callable[[str], None]) -> None:
    """Serves the page until it is interrupted. `announce` is given its address, with the token."""
    import uvicorn

    token = secrets.token_urlsafe(24)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((host, port))
        except OSError as error:
            raise OSError(f"cannot listen on {host}, port {port}: {error.strerror or error}") from error
        bound = listening.getsockname()[1]
        app = make_app(live, data, token, own_hosts(host, bound))
        announce(f"http://{f'[{host}]' if ':' in host else host}:{bound}/?token={token}")
        uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False)).run(sockets=[listening])


def own_hosts(host: str, port: int) -> frozenset[str]:
    """Returns what a browser may name the server: the address that was asked for, and localhost."""
    names = {f"[{host}]" if ":" in host else host, LOOPBACK, "localhost", "[::1]"}
    return frozenset(f"{name}:{port}" for name in names)


def _refusal(request: Request, given: str, token: str, hosts: frozenset[str]) -> str | None:
    """Why a request is refused; None if it is not."""
    host, origin = request.headers.get("host", ""), request.headers.get("origin")
    if host.lower() not in hosts:
        return "This server has another name: open the address that `emcts inspect --serve` printed."
    if origin is not None and origin.lower() != f"http://{host.lower()}":
        return "Requests of other pages are refused: open the address that `emcts inspect --serve` printed."
    if not hmac.compare_digest(given.encode(), token.encode()):
        return "The token is missing or wrong: open the whole address that `emcts inspect --serve` printed."
    return None


async def _body(request: Request) -> Answer:
    parts = b""
    async for part in request.stream():
        parts += part
        if len(parts) > MOST_BODY:
            raise Refused(f"The request has more than {MOST_BODY:,} bytes.")
    try:
        body = json.loads(parts)
    except (ValueError, RecursionError):
        raise Refused("The request is not JSON.") from None
    if not isinstance(body, dict):
        raise Refused("The request is not a JSON object.")
    return body


def _number(given: object, name: str) -> float:
    """A number, also as the text of a field."""
    try:
        if isinstance(given, str | int | float) and not isinstance(given, bool):
            return float(given)
    except (ValueError, OverflowError):
        pass
    raise Refused(f"{name} is {given!r}: give a number.")
