"""Limits for a client: requests a second, bytes of a body, and the time to send it.

Bytes are counted as they arrive. A Content-Length above the limit is refused before the body is read.
"""

import asyncio
import re
from collections import OrderedDict
from contextlib import suppress

from starlette.requests import Request
from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holdfast.core.contract import Clock
from holdfast.web.problems import ProblemRaised, on_http_error, respond

MEGABYTE = 1_000_000
LARGER: tuple[tuple[re.Pattern[str], int], ...] = (
    (re.compile(r"/api/sessions/import"), 200 * MEGABYTE),
    (re.compile(r"/api/sessions(/[^/]+/(send|waiting/[^/]+))?"), 20 * MEGABYTE),
    (re.compile(r"/v1/.*"), 20 * MEGABYTE),
)
BURST_SECONDS = 10.0
MOST_CLIENTS = 10_000
SLOWEST = 100_000
"""Bytes a second that a body must arrive with on average."""
MOST_DRAINED, DRAIN_SECONDS = 64 * MEGABYTE, 2.0
"""How much of a refused body is read and dropped, so that its sender reads the answer."""


def most_bytes(path: str) -> int:
    """The most bytes of a body for this path."""
    return next((most for pattern, most in LARGER if pattern.fullmatch(path)), MEGABYTE)


class RateLimit:
    """A token bucket for each client."""

    def __init__(self, app: ASGIApp, clock: Clock, per_second: float) -> None:
        self._app = app
        self._clock = clock
        self._rate = per_second
        self._most = max(1.0, per_second * BURST_SECONDS)
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        wait = 0.0 if scope["type"] != "http" else self._take(scope.get("client"))
        if wait <= 0:
            await self._app(scope, receive, send)
            return
        seconds = str(int(wait) + 1)
        problem = respond(
            scope,
            429,
            "TooManyRequests",
            f"this client sent more than {self._rate:g} requests a second. This request was not read.",
            f"Wait {seconds} s before the next request; the setting web.requests_per_s is the limit.",
            headers={"Retry-After": seconds},
        )
        await problem(scope, receive, send)

    def _take(self, client: tuple[str, int] | None) -> float:
        """0, or the seconds until the next request is allowed."""
        who = client[0] if client else ""
        now = self._clock.monotonic()
        held, since = self._buckets.pop(who, (self._most, now))
        held = min(self._most, held + (now - since) * self._rate)
        wait = max(0.0, (1 - held) / self._rate)
        self._buckets[who] = (held if wait else held - 1, now)
        if len(self._buckets) > MOST_CLIENTS:
            self._buckets.popitem(last=False)
        return wait


class BodyLimit:
    """Refuses a body that is too large or comes too slowly."""

    def __init__(self, app: ASGIApp, patience: float) -> None:
        self._app = app
        self._patience = patience

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        most = most_bytes(scope["path"])
        said = next((value for name, value in scope["headers"] if name == b"content-length"), b"")
        body = _CountedBody(receive, send, most, self._patience)
        if said.isdigit() and int(said) > most:
            body.refused = True
            scope["route"] = _route(scope)  # nothing has routed it yet, and it counts under its route
            problem = await on_http_error(Request(scope), _too_large(most))
            await problem(scope, receive, body.send)
        else:
            await self._app(scope, body.receive, body.send)


class _CountedBody:
    """A body as it comes."""

    def __init__(self, receive: Receive, send: Send, most: int, patience: float) -> None:
        self.refused = False
        self._receive = receive
        self._send = send
        self._most = most
        self._left = most
        self._patience = patience
        self._until: float | None = None
        self._done = False

    async def receive(self) -> Message:
        if self._done:
            # After the body only a disconnect can come.
            return await self._receive()
        loop = asyncio.get_running_loop()
        if self._until is None:
            self._until = loop.time() + self._patience
        try:
            async with asyncio.timeout_at(self._until):
                message = await self._receive()
        except TimeoutError:
            raise ProblemRaised(
                408,
                "TooSlow",
                "the request's body came too slowly. Nothing of it was kept.",
                "Send it again, faster; the setting web.client_timeout_s is the time allowed.",
                {"Connection": "close"},
            ) from None
        size = len(message.get("body", b""))
        self._left -= size
        if self._left < 0:
            self.refused = True
            raise _too_large(self._most)
        # A large body gets more time, but no client can hold a request open without end.
        self._until += size / SLOWEST
        self._done = not message.get("more_body", False)
        return message

    async def send(self, message: Message) -> None:
        """Send the answer. A client that is still sending a refused body reads the answer only afterwards."""
        if self.refused and message["type"] == "http.response.body" and not message.get("more_body"):
            await self._send({**message, "more_body": True})
            await self._drain()
            message = {"type": "http.response.body", "body": b"", "more_body": False}
        await self._send(message)

    async def _drain(self) -> None:
        left = MOST_DRAINED
        with suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_SECONDS):
                while left > 0:
                    message = await self._receive()
                    left -= len(message.get("body", b""))
                    if not message.get("more_body", False):
                        return


def _route(scope: Scope) -> BaseRoute | None:
    routes: list[BaseRoute] = scope["app"].router.routes
    return next((each for each in routes if each.matches(scope)[0] is Match.FULL), None)


def _too_large(most: int) -> ProblemRaised:
    return ProblemRaised(
        413,
        "TooLarge",
        f"a body here may have {most // MEGABYTE} MB at most. Nothing of it was kept.",
        "Send less at once.",
        {"Connection": "close"},
    )
