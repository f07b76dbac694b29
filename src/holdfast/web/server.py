"""Runs the application on uvicorn until it is asked to stop, and then ends at once.

`command.py` handles signals, `connection.py` reads from the sockets.
"""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Generator
from contextlib import asynccontextmanager, contextmanager

import uvicorn

from holdfast.core.clock import SystemClock
from holdfast.core.errors import InvalidInput
from holdfast.web.app import build_app
from holdfast.web.connection import http_protocol
from holdfast.web.contract import WebParts
from holdfast.web.listener import FullLog, ListenSocket

GRACE_SECONDS = 2
"""How long open responses may take at the end."""
KEEP_ALIVE_SECONDS = 75
BACKLOG = 2048


class _Server(uvicorn.Server):
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


def bind(host: str, port: int) -> ListenSocket:
    """A socket that listens on this address; `InvalidInput` says why it can't."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = ListenSocket(family)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(BACKLOG)
    except OSError as cause:
        listening.close()
        raise InvalidInput(
            f"can't listen on {host} port {port}: {cause.strerror or cause}. "
            "Choose another with --host and --port."
        ) from cause
    return listening


def inherit(file: int) -> ListenSocket:
    """The socket that another process listens on and has handed down."""
    with socket.socket(fileno=os.dup(file)) as known:
        family = known.family
    return ListenSocket(family, file)


@asynccontextmanager
async def run_server(web: WebParts, listening: ListenSocket) -> AsyncIterator[asyncio.Task[None]]:
    """The server, while inside; its task ends early only when it fails."""
    listening.on_full = FullLog(SystemClock()).note
    config = uvicorn.Config(
        build_app(web),
        loop="asyncio",
        http=http_protocol(web.settings.client_timeout_s, listening.on_full),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=GRACE_SECONDS,
        backlog=BACKLOG,
    )
    server = _Server(config)
    running = asyncio.create_task(server.serve([listening]), name="web server")
    try:
        await server.listens.wait()
        yield running
    finally:
        web.streams.close()
        server.should_exit = True
        await asyncio.wait([running])
