"""What an account may ask for, route by route. What is not in the table is refused.

The installation's token may ask for everything and passes. Someone else's conversation is answered exactly as
one that does not exist. Where the table says `SCOPED`, the route itself asks for what the account may see. On
PostgreSQL the server checks what a request reads once more (`limit_reads`).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import Enum

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp, Receive, Scope, Send

from holdfast.core.errors import HoldfastError
from holdfast.host import SessionHost, limit_reads
from holdfast.sessions.contract import OWNER
from holdfast.web.principal import Principal, of_scope
from holdfast.web.problems import on_holdfast_error, respond


class Access(Enum):
    """What an account may ask a route for."""

    FREE = "for every account"
    SCOPED = "what the route finds in the account's scope"
    TURN = "the same, and it begins a turn, which the daily limits may refuse"
    OWN = "its own conversation, which the path names"
    OWN_TURN = "the same, and it asks the model"
    OWN_COPY = "the same, and it stores more, which a limit of storage may refuse"
    OWN_ACCOUNT = "its own account, which the path names; any account for admins"
    MYSELF = "its own account, which no path names"
    ADMIN = "for accounts that are admins"
    INSTALLATION = "for the installation's token alone"


def _each(access: Access, *routes: str) -> dict[str, Access]:
    return dict.fromkeys(routes, access)


ONE = "/api/sessions/{session_id}"
ACCESS: Mapping[str, Access] = {
    **_each(
        Access.FREE,
        "GET /healthz",
        "GET /readyz",
        "GET /openapi.json",
        "HEAD /openapi.json",
        "GET /v1/models",
        "GET /v1/models/{model}",
        "POST /api/invitations/{code}",
        "GET /api/sign-in/ways",
        "POST /api/sign-in/password",
        "GET /api/sign-in/oidc",
        "GET /api/sign-in/oidc/callback",
        "POST /api/sign-out",
    ),
    **_each(
        Access.SCOPED,
        "GET /api/sessions",
        "GET /api/events",
        "GET /api/search",
        "GET /api/usage",
        "GET /api/memory/search",
        "POST /api/memory/forget/preview",
        "POST /api/memory/forget",
        "GET /api/status",
        "GET /api/models",
        "GET /v1/responses/{response_id}",
    ),
    **_each(
        Access.TURN,
        "POST /api/sessions",
        "POST /v1/chat/completions",
        "POST /v1/responses",
    ),
    **_each(
        Access.OWN,
        f"GET {ONE}",
        f"PATCH {ONE}",
        f"DELETE {ONE}",
        f"POST {ONE}/clear",
        f"GET {ONE}/export",
        f"GET {ONE}/messages",
        f"GET {ONE}/context",
        f"GET {ONE}/turns/{{turn_id}}",
        f"POST {ONE}/interrupt",
        f"POST {ONE}/approvals/{{ask_id}}",
        f"GET {ONE}/approvals/{{ask_id}}/before",
        f"POST {ONE}/answers/{{ask_id}}",
        f"DELETE {ONE}/waiting/{{inbox_id}}",
        f"POST {ONE}/resume",
        f"POST {ONE}/drop",
        f"POST {ONE}/run_waiting",
        f"GET {ONE}/changes",
        f"POST {ONE}/undo-files",
        f"GET {ONE}/events",
        f"GET {ONE}/usage",
    ),
    **_each(Access.OWN_TURN, f"POST {ONE}/send", f"POST {ONE}/retry", f"POST {ONE}/compact"),
    **_each(
        Access.OWN_COPY,
        f"POST {ONE}/truncate",
        f"POST {ONE}/branch",
        f"POST {ONE}/undo",
        f"PUT {ONE}/waiting/{{inbox_id}}",
    ),
    **_each(
        Access.OWN_ACCOUNT,
        "GET /api/users/{user_id}/tokens",
        "POST /api/users/{user_id}/tokens",
        "DELETE /api/users/{user_id}/tokens/{token_id}",
    ),
    **_each(Access.MYSELF, "PUT /api/password"),
    **_each(
        Access.ADMIN,
        "GET /api/users",
        "POST /api/users",
        "PATCH /api/users/{user_id}",
        "DELETE /api/users/{user_id}",
        "POST /api/users/invitations",
        "GET /api/users/audit",
    ),
    **_each(
        Access.INSTALLATION,
        "POST /api/sessions/import",
        "GET /metrics",
        "POST /v1/embeddings",
        "PUT /api/models/current",
        "GET /api/memory",
        "GET /api/memory/set-aside",
        "POST /api/memory/set-aside/{delivery_id}/retry",
        "POST /api/memory/set-aside/{delivery_id}/drop",
        "GET /api/memory/forgotten",
        "POST /api/memory/forgotten/{forgetting_id}/retry",
        "GET /api/chats",
        "POST /api/chats/posts/{post_id}/retry",
        "POST /api/chats/posts/{post_id}/drop",
        "POST /api/chats/pairings/{code}/approve",
        "PUT /api/chats/{account}/people/{person:path}",
        "DELETE /api/chats/{account}/people/{person:path}",
        "GET /api/folders",
        "PUT /api/folders/{name:path}",
        "PATCH /api/folders/{name:path}",
        "DELETE /api/folders/{name:path}",
        "GET /api/prompts",
        "PUT /api/prompts/{name:path}",
        "DELETE /api/prompts/{name:path}",
        "GET /api/settings",
        "PATCH /api/settings",
        "POST /api/settings/embedded-model",
    ),
}
"""By the method and the path as the route has it. Pages are for everybody, and need no token."""
OWNED = (Access.OWN, Access.OWN_TURN, Access.OWN_COPY)
ADMINS = (Access.ADMIN, Access.OWN_ACCOUNT)
TURNS = (Access.TURN, Access.OWN_TURN)
MOST_AT_ONCE = 100
"""How many requests of one account, open event streams among them, a process answers at a time."""
ACCOUNTS = (Access.ADMIN, Access.OWN_ACCOUNT, Access.MYSELF)


class AccessGuard:
    """Refuses what an account may not ask for, before the route runs."""

    def __init__(
        self,
        app: ASGIApp,
        host: SessionHost,
        routes: Sequence[BaseRoute],
        access: Mapping[str, Access] = ACCESS,
    ) -> None:
        self._app = app
        self._host = host
        self._routes = routes
        self._access = access
        self._open: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        principal = of_scope(scope) if scope["type"] == "http" else None
        if principal is None or principal.user is None:
            await self._app(scope, receive, send)
            return
        route, parameters = _routed(self._routes, scope)
        if route is None:
            await self._app(scope, receive, send)  # there is nothing at this path, or not with this method
            return
        allowed = self._access.get(f"{scope['method']} {getattr(route, 'path', '')}")
        refused = await self._refusal(scope, principal, allowed, parameters)
        if refused is not None:
            await refused(scope, receive, send)
            return
        self._open[principal.scope] += 1
        try:
            # Accounts and tokens are what no limited read may see.
            with limit_reads(OWNER if allowed in ACCOUNTS else principal.scope):
                await self._app(scope, receive, send)
        finally:
            self._open[principal.scope] -= 1
            self._open += Counter()  # forgets those that have none

    async def _refusal(
        self, scope: Scope, principal: Principal, allowed: Access | None, parameters: Mapping[str, str]
    ) -> Response | None:
        if self._open[principal.scope] >= MOST_AT_ONCE:
            return _too_many(scope)
        if not _may_ask(principal, allowed, parameters):
            return _forbidden(scope, allowed)
        try:
            if allowed in OWNED:
                await principal.require_own(self._host, parameters["session_id"])
            if allowed in TURNS:
                await principal.require_turn(self._host)
            if allowed is Access.OWN_COPY:
                await principal.require_room(self._host)
        except HoldfastError as refused:
            return await on_holdfast_error(Request(scope), refused)
        return None


def _may_ask(principal: Principal, allowed: Access | None, parameters: Mapping[str, str]) -> bool:
    is_admin = principal.user is not None and principal.user.role == "admin"
    if allowed is Access.OWN_ACCOUNT and principal.user is not None:
        return is_admin or parameters["user_id"] == principal.user.id
    return is_admin if allowed is Access.ADMIN else allowed not in (None, Access.INSTALLATION)


def _routed(routes: Sequence[BaseRoute], scope: Scope) -> tuple[BaseRoute | None, dict[str, str]]:
    """The route that answers, found as the router finds it, and what the path names."""
    for each in routes:
        match, found = each.matches(scope)
        if match is Match.FULL:
            return each, found.get("path_params", {})
    return None, {}


def _too_many(scope: Scope) -> Response:
    return respond(
        scope,
        429,
        "TooManyRequests",
        f"this account has {MOST_AT_ONCE} requests or event streams open already. Nothing was changed.",
        "Close some of them, then try again.",
        headers={"Retry-After": "1"},
    )


def _forbidden(scope: Scope, allowed: Access | None) -> Response:
    who = "an admin's account" if allowed in ADMINS else "the installation's token"
    return respond(
        scope,
        403,
        "NotForAccounts",
        f"this is for {who}. Nothing was changed.",
        "Ask who runs this installation.",
    )
