"""Serves MCP over streamable HTTP, to clients that show the token and to no others."""

import asyncio
import hmac
import socket
from collections.abc import AsyncIterator, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

import uvicorn
from starlette.responses import JSONResponse

from holdfast.core.errors import InvalidInput
from holdfast.core.secret import Secret

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer
    from starlette.types import ASGIApp, Receive, Scope, Send

GRACE_SECONDS = 2
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


class _HttpServer(uvicorn.Server):
    """Does not handle signals, and sets an event once it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listens = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listens.set()

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


def listening_socket(host: str, port: int) -> socket.socket:
    """A socket that listens on this address; `InvalidInput` says why it can't."""
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as cause:
        raise InvalidInput(
            f"can't listen on {host} port {port}: {cause.strerror or cause}. Choose another with --port."
        ) from cause


@asynccontextmanager
async def run_http(
    server: "MCPServer", host: str, listening: socket.socket, token: Secret
) -> AsyncIterator[asyncio.Task[None]]:
    """The server, while inside; its task ends early only when it fails."""
    config = uvicorn.Config(
        TokenRequired(server.streamable_http_app(host=host), token),
        loop="asyncio",
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
    http = _HttpServer(config)
    running = asyncio.create_task(http.serve([listening]), name="mcp server")
    listens = asyncio.ensure_future(http.listens.wait())
    try:
        await asyncio.wait({running, listens}, return_when=asyncio.FIRST_COMPLETED)
        yield running
    finally:
        listens.cancel()
        http.should_exit = True
        await asyncio.wait([running])
