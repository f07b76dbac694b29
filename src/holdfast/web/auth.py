"""Who may come in: a client that shows the installation's token acts for the owner of this assistant.

One that shows a token of an account acts for that account. API clients send it as a bearer. A browser gets
the installation's once, with the link that `holdfast web` prints or by signing in on the page; from then on
it is in a cookie that no script can read and that no other site can make the browser send. An account's token
is taken on the page alone, and the cookie has one of the browser's own instead. No link takes it: with a link
another site could sign a browser in to an account of its choice.
"""

import asyncio
import functools
import hmac
import logging
from collections.abc import Awaitable, Callable, Collection
from urllib.parse import parse_qs

from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holdfast.core.errors import StoreFailure
from holdfast.core.secret import Secret
from holdfast.sessions.audit_log import INSTALLATION, AuditLog
from holdfast.sessions.users import TOKEN_PREFIX
from holdfast.web.account_tokens import REMEMBERED_SECONDS, AccountTokens
from holdfast.web.contract import WebParts
from holdfast.web.principal import INSTALLATION_ITSELF, Principal, put_into
from holdfast.web.problems import respond
from holdfast.web.sign_in.accounts import SIGN_IN_SECONDS
from holdfast.web.sign_in.attempts import Attempts
from holdfast.web.sign_in.paths import SIGN_IN_PATHS
from holdfast.web.sign_in.proxied_accounts import NoAccount
from holdfast.web.sign_in.session_cookie import COOKIE, cookies_named, set_session_cookie
from holdfast.web.sign_in.user_header import Proxied, proxied
from holdfast.web.sign_in.ways import SignInWays

logger = logging.getLogger(__name__)

A_YEAR = 365 * 24 * 3600
SIGN_IN = "/api/sign-in"
MOST_SHOWN = 4
"""How many cookies of one request are looked at."""
UNCACHED = {"Cache-Control": "no-store"}
HEALTH = "/healthz"
FREE = frozenset({HEALTH, *SIGN_IN_PATHS})
"""Paths that need no token. The page's files need none either: they hold no secrets."""
INVITATIONS = "/api/invitations/"
"""Below it the code of an invitation is the secret."""


LetIn = tuple[Principal, Callable[[], Awaitable[bool]]]
"""For whom a request acts, and whether that still holds."""


class Auth:
    """Requires a token, except for paths that hold no secrets, and finds out for whom the request acts."""

    def __init__(self, app: ASGIApp, web: WebParts, pages: Collection[str], ways: SignInWays) -> None:
        self._app = app
        self._proxied = ways.proxied
        self._sign_ins = ways.sign_ins
        self._token = web.token.reveal().encode()
        self._pages = pages
        self._root = web.settings.root_path
        self._host = web.host
        self._accounts = AccountTokens(web.host, web.clock)
        self._refused = Attempts(web.clock)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if not self._token:
            put_into(scope, INSTALLATION_ITSELF)
            await self._app(scope, receive, send)
            return
        answer = await self._answer(scope)
        if isinstance(answer, Response):
            await answer(scope, receive, send)
        elif answer is None or answer[0].user is None:
            await self._app(scope, receive, send)
        else:
            await _WhileItCounts(answer[1], receive, send).run(self._app, scope)

    async def _answer(self, scope: Scope) -> "Response | LetIn | None":
        """A refusal or a redirect, or who is let in; None where nothing needs to be shown."""
        if (said := proxied(scope)) is not None:
            return None if self._is_open(scope) else await self._by_proxy(scope, said)
        if scope["path"] == "/" and scope["method"] == "GET" and b"token=" in scope["query_string"]:
            return await self._link(scope)
        if scope["path"] == SIGN_IN and scope["method"] == "POST":
            return await self._sign_in(scope)
        if _is_free(scope) or self._is_open(scope):
            return None
        shown = _shown(scope)
        if not shown:
            return _refusal(scope, "NoToken", "this path needs the token, and the request has none.")
        for each in shown[:MOST_SHOWN]:
            if (principal := await self._principal(each)) is not None:
                put_into(scope, principal)
                return principal, functools.partial(self._counts, each)
        return _refusal(scope, "WrongToken", "the token is not this server's.")

    def _is_open(self, scope: Scope) -> bool:
        """Whether a path has no secrets."""
        page = scope["method"] in ("GET", "HEAD") and scope["path"] in self._pages
        return page or scope["path"] == HEALTH

    async def _by_proxy(self, scope: Scope, said: Proxied) -> "Response | LetIn":
        """The account that a trusted proxy names, and nobody else."""
        try:
            principal = await self._proxied.principal(said)
        except NoAccount as refused:
            return refused.response(scope)
        put_into(scope, principal)
        return principal, functools.partial(self._proxied.counts, said)

    async def _counts(self, token: bytes) -> bool:
        return await self._accounts.principal(token) is not None

    async def _principal(self, given: bytes) -> Principal | None:
        return INSTALLATION_ITSELF if self._fits(given) else await self._accounts.principal(given)

    async def _link(self, scope: Scope) -> Response:
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        token = given.encode("utf-8", "surrogateescape")
        if self._fits(token):
            await self._note(INSTALLATION, "sign-in", INSTALLATION, _client(scope))
            answer = RedirectResponse(f"{self._root}/", 303, headers=UNCACHED)
            return self._with_cookie(scope, answer, token.decode("latin-1"), A_YEAR)
        await self._note_refusal(scope)
        if _is_browser(scope):
            # A person gets the page that explains it and has a field for the token.
            return RedirectResponse(f"{self._root}/#/sign-in/link", 303, headers=UNCACHED)
        if given.startswith(TOKEN_PREFIX):
            return _refusal(scope, "WrongToken", "tokens of accounts are not taken from links.")
        return _refusal(scope, "WrongToken", "the token in this link is not this server's.")

    async def _sign_in(self, scope: Scope) -> Response:
        """The page sends the token that a person wrote as a bearer; the answer has the cookie."""
        shown, answer = _bearer(scope), Response(status_code=204, headers=UNCACHED)
        if shown is not None and self._fits(shown):
            await self._note(INSTALLATION, "sign-in", INSTALLATION, _client(scope))
            return self._with_cookie(scope, answer, shown.decode("latin-1"), A_YEAR)
        if shown is not None:
            issued = await self._issued_for(shown, _client(scope))
            if issued is not None:
                return self._with_cookie(scope, answer, issued.reveal(), SIGN_IN_SECONDS)
            await self._note_refusal(scope)
        return _refusal(scope, "WrongToken", "this is not the token of this server.")

    async def _issued_for(self, shown: bytes, client: str) -> Secret | None:
        """A browser's own token, for an account's. A browser's own gets no other: it would never end."""
        principal = await self._accounts.asked(shown)
        if principal is None or principal.user is None or principal.let_in_by != "token":
            return None
        return await self._sign_ins.token_for(principal.user, f"token, from {client}")

    async def _note_refusal(self, scope: Scope) -> None:
        """Whoever guesses all day finds no token, but must not push everything else out of the log."""
        if self._refused.begin(None, _client(scope)) == 0:
            await self._note("", "sign-in.refused", "", _client(scope))

    async def _note(self, actor: str, action: str, target: str, where: str) -> None:
        try:
            await self._host.accounts.audit(AuditLog.record, actor, action, target, where)
        except StoreFailure:
            # The page must open just then: it says what is wrong with the store.
            logger.warning("web.sign_in_not_noted", exc_info=True, extra={"action": action, "client": where})

    def _with_cookie(self, scope: Scope, answer: Response, token: str, seconds: int) -> Response:
        return set_session_cookie(scope, answer, token, seconds, self._root or "/")

    def _fits(self, given: bytes) -> bool:
        return hmac.compare_digest(given, self._token)


class _WhileItCounts:
    """The answer to an account, which ends when it is let in no more: an event stream stays open long."""

    def __init__(self, counts: Callable[[], Awaitable[bool]], receive: Receive, send: Send) -> None:
        self._counts = counts
        self._receive = receive
        self._send = send
        self._loop = asyncio.get_running_loop()
        self._looked = self._loop.time()
        self._ended = asyncio.Event()
        self._started = False

    async def run(self, app: ASGIApp, scope: Scope) -> None:
        self._scope = scope
        await app(scope, self.receive, self.send)

    async def receive(self) -> Message:
        """What the client sends; once the token counts no more, that it has gone."""
        coming = asyncio.ensure_future(self._receive())
        ended = asyncio.ensure_future(self._ended.wait())
        try:
            await asyncio.wait([coming, ended], return_when=asyncio.FIRST_COMPLETED)
            return {"type": "http.disconnect"} if self._ended.is_set() else await coming
        finally:
            ended.cancel()
            coming.cancel()

    async def send(self, message: Message) -> None:
        if self._ended.is_set():
            return
        if await self._still_counts():
            self._started = True
            await self._send(message)
            return
        self._ended.set()
        if self._started:
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})
        else:
            refused = _refusal(self._scope, "WrongToken", "the token is not this server's.")
            await refused(self._scope, self._receive, self._send)

    async def _still_counts(self) -> bool:
        if self._loop.time() - self._looked < REMEMBERED_SECONDS:
            return True
        self._looked = self._loop.time()
        return await self._counts()


def _is_free(scope: Scope) -> bool:
    return scope["path"] in FREE or (scope["method"] == "POST" and scope["path"].startswith(INVITATIONS))


def _client(scope: Scope) -> str:
    return str((scope.get("client") or ("",))[0])


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
    return [token.encode("latin-1") for token in cookies_named(scope, COOKIE)]


def _refusal(scope: Scope, reason: str, detail: str) -> Response:
    return respond(
        scope,
        401,
        reason,
        f"{detail} Nothing was changed.",
        "Open the link that `holdfast web` printed, or send the token as Authorization: Bearer TOKEN.",
        headers={"WWW-Authenticate": 'Bearer realm="holdfast"', **UNCACHED},
    )
