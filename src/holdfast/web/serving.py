"""Runs the application on uvicorn until it is asked to stop, and then ends at once.

Signals belong to the command (`command.py`), what comes over a socket to `connection.py`.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Generator
from contextlib import asynccontextmanager, contextmanager

import uvicorn

from holdfast.core.errors import InvalidInput
from holdfast.web.app import build_app
from holdfast.web.connection import patient_protocol
from holdfast.web.contract import Web

GRACE_SECONDS = 2
"""How long answers that are being written may take at the end."""
KEEP_ALIVE_SECONDS = 75
BACKLOG = 2048


class _Server(uvicorn.Server):
    """Leaves the signals alone, and says when it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listens = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listens.set()

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


def bind(host: str, port: int) -> socket.socket:
    """A socket that listens there; says in words why there can be none."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
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
async def serving(web: Web, listening: socket.socket) -> AsyncIterator[asyncio.Task[None]]:
    """The server, while inside; its task ends early only when it fails."""
    config = uvicorn.Config(
        build_app(web),
        loop="asyncio",
        http=patient_protocol(web.settings.patience_s),
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
