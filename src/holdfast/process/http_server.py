"""Runs an application on uvicorn until its program is done with it. Signals stay with the program.

Every server gets `ListenSocket`, which refuses connections before descriptors run out, and
`ServerConnection`, which gives up on clients that are too slow.

It is imported only where a server starts: uvicorn takes a while to load.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import uvicorn

from holdfast.core.clock import SystemClock
from holdfast.core.errors import InvalidInput
from holdfast.process.listen_socket import FullLog, ListenSocket
from holdfast.process.server_connection import http_protocol

GRACE_SECONDS = 2
"""How long open responses may take at the end."""
BACKLOG = 2048
CLIENT_TIMEOUT_S = 20.0


class HttpServer(uvicorn.Server):
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


def listen(host: str, port: int) -> ListenSocket:
    """A socket that listens on this address; `InvalidInput` says why it can't."""
    listening = ListenSocket(socket.AF_INET6 if ":" in host else socket.AF_INET)
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


@asynccontextmanager
async def serving(
    app: Callable[..., Any],
    listening: ListenSocket,
    *,
    name: str,
    client_timeout_s: float = CLIENT_TIMEOUT_S,
    before_stop: Callable[[], None] = lambda: None,
    **options: Any,  # noqa: ANN401 - options of uvicorn
) -> AsyncIterator[asyncio.Task[None]]:
    """The server, while inside; its task ends early only when it fails.

    A client that sends its request or reads its answer more slowly than `client_timeout_s` is disconnected.
    """
    listening.on_full = FullLog(SystemClock()).note
    config = uvicorn.Config(
        app,
        http=http_protocol(client_timeout_s, listening.on_full),
        loop="asyncio",
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=GRACE_SECONDS,
        backlog=BACKLOG,
        **options,
    )
    server = HttpServer(config)
    running = asyncio.create_task(server.serve([listening]), name=name)
    listens = asyncio.ensure_future(server.listens.wait())
    try:
        await asyncio.wait({running, listens}, return_when=asyncio.FIRST_COMPLETED)
        yield running
    finally:
        listens.cancel()
        before_stop()
        server.should_exit = True
        await asyncio.wait([running])
