"""The token: a client that shows it acts for the owner of this assistant.

API clients send it as a bearer. A browser gets it once, with the link that `holdfast web` prints or by
signing in on the page; from then on the token is in a cookie that no script can read and that no other site
can make the browser send.
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
SIGN_IN = "/api/sign-in"
UNCACHED = {"Cache-Control": "no-store"}
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
        if scope["path"] == SIGN_IN and scope["method"] == "POST":
            return self._sign_in(scope)
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
            if _is_browser(scope):
                # A person gets the page that explains it and has a field for the token.
                return RedirectResponse(f"{self._root}/#/sign-in/link", 303, headers=UNCACHED)
            return _refusal(scope, "WrongToken", "the token in this link is not this server's.")
        answer = RedirectResponse(f"{self._root}/", 303, headers=UNCACHED)
        return self._with_cookie(scope, answer)

    def _sign_in(self, scope: Scope) -> Response:
        """The page sends the token that a person wrote as a bearer; the answer puts it into the cookie."""
        shown = _bearer(scope)
        if shown is None or not self._fits(shown):
            return _refusal(scope, "WrongToken", "this is not the token of this server.")
        return self._with_cookie(scope, Response(status_code=204, headers=UNCACHED))

    def _with_cookie(self, scope: Scope, answer: Response) -> Response:
        answer.set_cookie(
            COOKIE,
            self._token.decode(),
            max_age=A_YEAR,
            path=self._root or "/",
            secure=scope["scheme"] == "https",
            httponly=True,
            samesite="strict",
        )
        return answer

    def _fits(self, given: bytes) -> bool:
        return hmac.compare_digest(given, self._token)


def _is_browser(scope: Scope) -> bool:
    return any(name == b"accept" and b"text/html" in value for name, value in scope["headers"])


def _bearer(scope: Scope) -> bytes | None:
    """The token of an Authorization header; empty for another kind, None without the header."""
    for name, value in scope["headers"]:
        if name == b"authorization":
            kind, _, token = value.partition(b" ")
            return token.strip() if kind.lower() == b"bearer" else b""
    return None


def _shown(scope: Scope) -> list[bytes]:
    """The tokens in a request: a bearer, else what the cookies hold."""
    bearer = _bearer(scope)
    if bearer is not None:
        return [bearer] if bearer else []
    tokens: list[bytes] = []
    for name, value in scope["headers"]:
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
        headers={"WWW-Authenticate": 'Bearer realm="holdfast"', **UNCACHED},
    )
