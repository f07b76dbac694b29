"""`Connection`: HTTP/1.1 over one connection, read with a parser in C. `wire.py` makes and keeps them."""

import asyncio
from typing import cast

import httptools
import httpx2

MOST_UNREAD = 1_000_000
"""Bytes of a body that may wait for their reader before no more are taken from the network."""
INTERIM = range(100, 200)


class Connection(asyncio.Protocol):
    """One connection: a request, then its answer as it comes; again while both sides keep it open."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.idle_since = 0.0
        self._transport: asyncio.Transport | None = None
        self._begin()

    def _begin(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.has_head = False
        self.is_whole = False
        self._is_to_be_kept = False
        self.failure: Exception | None = None
        self._unread: list[bytes] = []
        self._size = 0
        self._woken: asyncio.Future[None] | None = None
        self._patience: float | None = None
        self._stall: asyncio.TimerHandle | None = None
        self._held: asyncio.TimerHandle | None = None

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    @property
    def can_be_kept(self) -> bool:
        return self.is_whole and self.is_open and self._is_to_be_kept

    def send(self, head: bytes, body: bytes) -> None:
        """Begin another exchange."""
        self._begin()
        if self._transport is not None:
            self._transport.resume_reading()
            self._transport.write(head + body)

    def rest(self) -> None:
        """Wait for the next exchange, and notice meanwhile if the server closes."""
        self.idle_since = self.loop.time()
        if self._transport is not None:
            self._transport.resume_reading()

    def take(self) -> bytes:
        """What has come of the body since the last time."""
        if len(self._unread) == 1:
            taken = self._unread.pop()
        else:
            taken, self._unread = b"".join(self._unread), []
        if self._size > MOST_UNREAD and self._transport is not None:
            self._transport.resume_reading()
        self._size = 0
        return taken

    def hold(self, seconds: float) -> None:
        """Take nothing from the network for so long: what comes gathers there, and is read in one go."""
        if self._transport is not None and self._held is None and not self.is_whole:
            self._transport.pause_reading()
            self._held = self.loop.call_later(seconds, self._release)

    async def more(self, seconds: float | None) -> None:
        """Wait until something has come; raises httpx's error when nothing does."""
        if self.failure is None:
            self._woken = self.loop.create_future()
            self._patience = seconds
            if self._held is None:
                self._wait_from_now()
            try:
                await self._woken
            finally:
                self._woken = None
                if self._stall is not None:
                    self._stall.cancel()
                    self._stall = None
        if self.failure is not None and not self._unread:
            raise self.failure

    def close(self) -> None:
        if self._held is not None:
            self._held.cancel()
        if self._transport is not None:
            self._transport.abort()

    # as asyncio calls it

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if self.is_whole:
            self.close()  # nothing was asked: who sends now is not in step with us
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as cause:
            self._fail(httpx2.RemoteProtocolError(f"the server's answer can't be read: {cause}"))
            self.close()
            return
        if self._size > MOST_UNREAD and self._transport is not None:
            self._transport.pause_reading()
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        if self.has_head and exc is None and self._ends_with_the_connection():
            self.is_whole = True
        if not self.is_whole:
            said = str(exc) if exc is not None else "the server closed the connection in mid-answer"
            self._fail(httpx2.ReadError(said) if exc else httpx2.RemoteProtocolError(said))
        self._wake()

    # as the parser calls it

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        self.status = self._parser.get_status_code()
        self.has_head = self.status not in INTERIM

    def on_body(self, body: bytes) -> None:
        self._unread.append(body)
        self._size += len(body)

    def on_message_complete(self) -> None:
        if self.has_head:
            self.is_whole = True
            self._is_to_be_kept = bool(self._parser.should_keep_alive())
        else:
            self.headers.clear()  # an interim answer: the one that counts follows

    # inside

    def _ends_with_the_connection(self) -> bool:
        names = {name.lower() for name, _ in self.headers}
        return not names & {b"content-length", b"transfer-encoding"}

    def _release(self) -> None:
        self._held = None
        if self._transport is not None:
            self._transport.resume_reading()
        if self._woken is not None:
            self._wait_from_now()

    def _wait_from_now(self) -> None:
        # The server's silence begins to count when it could be heard.
        if self._patience is not None:
            self._stall = self.loop.call_later(self._patience, self._give_up)

    def _give_up(self) -> None:
        self._fail(httpx2.ReadTimeout("nothing came in time"))
        self.close()
        self._wake()

    def _fail(self, failure: Exception) -> None:
        self.failure = self.failure or failure

    def _wake(self) -> None:
        if self._woken is not None and not self._woken.done():
            self._woken.set_result(None)
