"""Gives every request an id, a line in the log and the security headers.

An unexpected exception ends here: the client gets a problem, the log gets the traceback.
"""

import logging
import re

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holdfast.core.contract import Clock
from holdfast.core.ids import new_id
from holdfast.web.metrics import Metrics
from holdfast.web.problems import respond

logger = logging.getLogger(__name__)

GIVEN_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
CONTENT_SECURITY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; font-src 'self'; "
    "connect-src 'self'; frame-src 'self'; manifest-src 'self'; worker-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
STRICT: tuple[tuple[bytes, bytes], ...] = (
    (b"content-security-policy", CONTENT_SECURITY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), microphone=(), geolocation=()"),
)
QUIET = ("/healthz", "/readyz", "/metrics")
"""Paths that machines ask for every few seconds; logged at debug level."""


class RequestLog:
    """The outermost middleware but one."""

    def __init__(self, app: ASGIApp, clock: Clock, metrics: Metrics) -> None:
        self._app = app
        self._clock = clock
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = next((value for name, value in scope["headers"] if name == b"x-request-id"), b"")
        request_id = given.decode() if GIVEN_ID.fullmatch(given) else new_id()
        scope.setdefault("state", {})["request_id"] = request_id
        answer = _ResponseSender(send, request_id, self._clock)
        begun = self._clock.monotonic()
        try:
            await self._app(scope, receive, answer.send)
        except Exception:
            logger.exception("web.request_failed", extra={"request": request_id, "path": scope["path"]})
            if answer.status:
                raise  # a part of the answer was sent: the connection is closed
            problem = respond(
                scope,
                500,
                "InternalError",
                "an unexpected error occurred. Everything that was acknowledged before is kept.",
                "Look up this request's id in the log, and report the error.",
            )
            await problem(scope, receive, answer.send)
        finally:
            self._note(scope, answer, begun)

    def _note(self, scope: Scope, answer: "_ResponseSender", begun: float) -> None:
        now, status = self._clock.monotonic(), answer.status
        seconds, route = now - begun, getattr(scope.get("route"), "path", "")
        # A stream may last for hours, so the time until its beginning counts.
        until = now if answer.began is None else answer.began
        self._metrics.request(scope["method"], route, status, until - begun)
        # Never the query: a link's token is in it.
        facts = {
            "request": scope["state"]["request_id"],
            "method": scope["method"],
            "path": scope["path"][:200],
            "status": status,
            "ms": round(seconds * 1000, 1),
            "client": (scope.get("client") or ("", 0))[0],
        }
        logger.log(logging.DEBUG if scope["path"] in QUIET else logging.INFO, "web.request", extra=facts)


class _ResponseSender:
    """Adds the headers and keeps the status."""

    def __init__(self, send: Send, request_id: str, clock: Clock) -> None:
        self._send = send
        self._request_id = request_id
        self._clock = clock
        self.status = 0
        self.began: float | None = None

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status, self.began = message["status"], self._clock.monotonic()
            headers = list(message.get("headers", ()))
            # A file with a policy of its own says so: the inside of a preview.
            own = {name.lower() for name, _ in headers}
            headers += [(b"x-request-id", self._request_id.encode())]
            headers += [each for each in STRICT if each[0] not in own]
            message = {**message, "headers": headers}
        await self._send(message)
