"""`ListenSocket`: the socket that listens. It refuses connections before descriptors run out.

Without it, asyncio accepts every connection, and when descriptors run out it stops for a second and logs
each attempt. Some descriptors are a reserve for the store and for tools. A connection that would use the
second half of the reserve is answered with 503 here; when no descriptor is left, a spare one is closed to
accept and answer it. `server_connection.py` refuses those that use the first half.
"""

import errno
import logging
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NoReturn

from holdfast.core.contract import Clock
from holdfast.process.open_files import is_scarce, open_files_limit, reserve

logger = logging.getLogger(__name__)

LAST_SHARE = 0.5
RETRY_SECONDS = 5
LOG_SECONDS = 60.0
FULL = (
    "The server has no room for another connection: it may have {limit} files and sockets open at once, and "
    "some are kept for the store and for tools. Nothing was done. Try again in a moment; close event streams "
    "that nobody reads, or raise the limit (ulimit -n) and start the server again."
)


def full_text() -> str:
    return FULL.format(limit=open_files_limit())


def full_answer() -> bytes:
    """The answer as it goes over the socket."""
    content = full_text().encode()
    head = (
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: text/plain; charset=utf-8\r\n"
        f"retry-after: {RETRY_SECONDS}\r\nconnection: close\r\ncontent-length: {len(content)}\r\n\r\n"
    )
    return head.encode() + content


def room_for_streams(wanted: int) -> int:
    """How many event streams may be open, so that other clients can still connect."""
    return max(1, min(wanted, (open_files_limit() - reserve()) * 3 // 4))


class FullLog:
    """Logs that connections were refused, once a minute at most, with their number."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._refused = 0
        self._logged: float | None = None

    def note(self) -> None:
        self._refused += 1
        now = self._clock.monotonic()
        if self._logged is None or now - self._logged >= LOG_SECONDS:
            logger.warning("web.full", extra={"refused": self._refused, "open_files": open_files_limit()})
            self._logged, self._refused = now, 0


class ListenSocket(socket.socket):
    """A socket that listens; `on_full` is called for each connection that it refuses."""

    def __init__(self, family: int, file: int | None = None) -> None:
        """A new socket, or one that listens already, by its file descriptor."""
        super().__init__(family, socket.SOCK_STREAM, fileno=file)
        self.on_full: Callable[[], None] = lambda: None
        self._spare: int | None = None
        self._stopped = False

    def accept(self) -> tuple[socket.socket, Any]:
        """The next connection; raises `BlockingIOError` when there is none, also after one was refused."""
        if self._spare is None:
            with suppress(OSError):
                self._spare = os.open(os.devnull, os.O_RDONLY)
        try:
            connection, client = super().accept()
        except OSError as cause:
            if cause.errno not in (errno.EMFILE, errno.ENFILE):
                raise
            connection = self._accept_with_spare(cause)
            self._refuse(connection)
        self._stopped = False
        if is_scarce(connection.fileno(), LAST_SHARE):
            self._refuse(connection)
        return connection, client

    def close(self) -> None:
        if self._spare is not None:
            os.close(self._spare)
            self._spare = None
        super().close()

    def _accept_with_spare(self, cause: OSError) -> socket.socket:
        if self._spare is None:
            # asyncio waits a second after the first error, but tries again in the same round.
            self._stopped = not self._stopped
            raise cause if self._stopped else BlockingIOError(errno.EAGAIN, "no descriptor is left")
        os.close(self._spare)
        self._spare = None
        return super().accept()[0]

    def _refuse(self, connection: socket.socket) -> NoReturn:
        self.on_full()
        with suppress(OSError):
            connection.setblocking(False)
            connection.send(full_answer())
            connection.shutdown(socket.SHUT_WR)
        connection.close()
        raise BlockingIOError(errno.EAGAIN, "refused: the server is full")
