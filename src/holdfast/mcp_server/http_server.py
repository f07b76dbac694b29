"""Serves MCP over streamable HTTP, to clients that show the token and to no others."""

import asyncio
import hmac
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

from starlette.responses import JSONResponse

from holdfast.core.secret import Secret
from holdfast.process.http_server import serving
from holdfast.process.listen_socket import ListenSocket

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
    server: "MCPServer", host: str, listening: ListenSocket, token: Secret, client_timeout_s: float
) -> AbstractAsyncContextManager["asyncio.Task[None]"]:
    """The server, while inside; its task ends early only when it fails."""
    app = TokenRequired(server.streamable_http_app(host=host), token)
    return serving(app, listening, name="mcp server", client_timeout_s=client_timeout_s, lifespan="on")
