"""Serves MCP over streamable HTTP, to clients that show the token and to no others.

Names, origins and proxies are checked as `holdfast web` checks them, with its settings (`web.allowed_hosts`,
`web.allowed_origins`, `web.trusted_proxies`).
"""

import asyncio
import hmac
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

from mcp.server.transport_security import TransportSecuritySettings
from starlette.responses import JSONResponse, Response

from holdfast.core.secret import Secret
from holdfast.core.settings import WebSettings
from holdfast.process.forwarded_headers import ForwardedHeaders
from holdfast.process.http_server import serving
from holdfast.process.listen_socket import ListenSocket
from holdfast.process.origin_guard import OriginGuard

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer
    from starlette.types import ASGIApp, Receive, Scope, Send

REFUSED = {
    "error": "Show the token of this server: Authorization: Bearer TOKEN. Nothing was done. "
    "The person who started `holdfast mcp serve --http` has it."
}


class TokenRequired:
    """Passes on the requests that show the token."""

    def __init__(self, app: "ASGIApp", token: Secret) -> None:
        self._app = app
        self._expected = b"Bearer " + token.reveal().encode()

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        if scope["type"] != "lifespan":
            shown = dict(scope.get("headers") or ()).get(b"authorization", b"")
            if not hmac.compare_digest(shown, self._expected):
                refusal = JSONResponse(REFUSED, 401, {"WWW-Authenticate": "Bearer"})
                await refusal(scope, receive, send)
                return
        await self._app(scope, receive, send)


def run_http(
    server: "MCPServer", host: str, listening: ListenSocket, token: Secret, web: WebSettings
) -> AbstractAsyncContextManager["asyncio.Task[None]"]:
    """The server, while inside; its task ends early only when it fails."""
    # The SDK's own check takes no name but loopback's, and no origin with TLS.
    unchecked = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    app = TokenRequired(server.streamable_http_app(host=host, transport_security=unchecked), token)
    guard = OriginGuard(app, host, web.allowed_hosts, web.allowed_origins, _refuse)
    outer = ForwardedHeaders(guard, web.trusted_proxies, web.root_path)
    return serving(outer, listening, name="mcp server", client_timeout_s=web.client_timeout_s, lifespan="on")


def _refuse(_: "Scope", status: int, reason: str, detail: str, next_: str) -> Response:
    return JSONResponse({"error": f"{detail} {next_}", "reason": reason}, status)
