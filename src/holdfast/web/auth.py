"""The token: a client that shows it acts for the owner of this assistant.

API clients send it as a bearer. A browser gets it once, with the link that `holdfast web` prints; from then
on the token is in a cookie that no script can read and that no other site can make the browser send.
"""

import hmac
from collections.abc import Collection
from urllib.parse import parse_qs

from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from holdfast.core.secret import Secret
from holdfast.web.problems import respond

COOKIE = "holdfast_token"
A_YEAR = 365 * 24 * 3600
FREE = frozenset({"/healthz"})
"""Paths that need no token. The page's files need none either: they hold no secrets."""


class Auth:
    """Requires the token, except for paths that hold no secrets."""

    def __init__(self, app: ASGIApp, token: Secret, pages: Collection[str], root_path: str = "") -> None:
        self._app = app
        self._token = token.reveal().encode()
        self._pages = pages
        self._root = root_path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not self._token:
            await self._app(scope, receive, send)
            return
        answer = self._answer(scope)
        await (answer or self._app)(scope, receive, send)

    def _answer(self, scope: Scope) -> Response | None:
        """A refusal or a redirect; None lets the request through."""
        if scope["path"] == "/" and scope["method"] == "GET" and b"token=" in scope["query_string"]:
            return self._link(scope)
        if scope["path"] in FREE or (scope["method"] in ("GET", "HEAD") and scope["path"] in self._pages):
            return None
        shown = _shown(scope)
        if not shown:
            return _refusal(scope, "NoToken", "this path needs the token, and the request has none.")
        if not any(self._fits(each) for each in shown):
            return _refusal(scope, "WrongToken", "the token is not this server's.")
        return None

    def _link(self, scope: Scope) -> Response:
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        if not self._fits(given.encode("utf-8", "surrogateescape")):
            return _refusal(scope, "WrongToken", "the token in this link is not this server's.")
        answer = RedirectResponse(f"{self._root}/", 303, headers={"Cache-Control": "no-store"})
        answer.set_cookie(
            COOKIE,
            given,
            max_age=A_YEAR,
            path=self._root or "/",
            secure=scope["scheme"] == "https",
            httponly=True,
            samesite="strict",
        )
        return answer

    def _fits(self, given: bytes) -> bool:
        return hmac.compare_digest(given, self._token)


def _shown(scope: Scope) -> list[bytes]:
    """The tokens in a request: a bearer, else what the cookies hold."""
    tokens: list[bytes] = []
    for name, value in scope["headers"]:
        if name == b"authorization":
            kind, _, token = value.partition(b" ")
            return [token.strip()] if kind.lower() == b"bearer" else []
        if name == b"cookie":
            # The cookie may come twice: two servers below one address have one each.
            pairs = (each.strip().partition(b"=") for each in value.split(b";"))
            tokens += [token.strip(b'"') for given, _, token in pairs if given == COOKIE.encode()]
    return tokens


def _refusal(scope: Scope, reason: str, detail: str) -> Response:
    return respond(
        scope,
        401,
        reason,
        f"{detail} Nothing was changed.",
        "Open the link that `holdfast web` printed, or send the token as Authorization: Bearer TOKEN.",
        headers={"WWW-Authenticate": 'Bearer realm="holdfast"', "Cache-Control": "no-store"},
    )
