"""Runs the application on uvicorn until it is asked to stop, and then ends at once.

Signals belong to the command (`command.py`); a client that sends its request drop by drop, or never reads its
answer, is left after the patience that the settings name.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from holdfast.core.errors import InvalidInput
from holdfast.web.app import build_app
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


def patient_protocol(seconds: float) -> type[H11Protocol]:
    """HTTP that closes a connection whose request does not come within a time."""

    class PatientProtocol(H11Protocol):
        def connection_made(self, transport: Any) -> None:  # noqa: ANN401 - as asyncio calls it
            super().connection_made(transport)
            self._first = self.loop.call_later(seconds, self._give_up)

        def connection_lost(self, exc: Exception | None) -> None:
            self._first.cancel()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            before = self.cycle
            super().data_received(data)
            if self.cycle is not before:
                # A whole head has come; its body and the answer have deadlines of their own.
                self._first.cancel()
            elif not _is_busy(self.cycle):
                self._expect_the_rest()

        def _expect_the_rest(self) -> None:
            """The beginning of another request has come: the rest of it must follow."""
            if self._first.cancelled():
                self._first = self.loop.call_later(seconds, self._give_up)

        def _give_up(self) -> None:
            self._first.cancel()
            self.transport.close()

    return PatientProtocol


def _is_busy(cycle: Any) -> bool:  # noqa: ANN401 - uvicorn says that it is never None, and it is
    return cycle is not None and not cycle.response_complete


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
