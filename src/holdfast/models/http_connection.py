"""`HttpConnection`: HTTP/1.1 over one connection, read with a parser written in C.

`stream_transport.py` opens connections and keeps the idle ones.
"""

import asyncio
from typing import cast

import httptools
import httpx2

MAX_UNREAD_BYTES = 1_000_000
"""When more bytes of a body wait for their reader, reading from the network stops."""
INTERIM = range(100, 200)


class HttpConnection(asyncio.Protocol):
    """One connection: a request, then its answer while it arrives. It can be used again for the next one."""

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
        self._arrival: asyncio.Future[None] | None = None
        self._read_timeout: float | None = None
        self._read_timer: asyncio.TimerHandle | None = None
        self._pause_timer: asyncio.TimerHandle | None = None

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    @property
    def descriptor(self) -> int:
        return self._transport.get_extra_info("socket").fileno() if self._transport is not None else -1

    @property
    def can_be_kept(self) -> bool:
        return self.is_whole and self.is_open and self._is_to_be_kept

    def send(self, head: bytes, body: bytes) -> None:
        """Send the next request."""
        self._begin()
        if self._transport is not None:
            self._transport.resume_reading()
            self._transport.write(head + body)

    def become_idle(self) -> None:
        """Wait for the next request. If the server closes the connection meanwhile, this is noticed."""
        self.idle_since = self.loop.time()
        if self._transport is not None:
            self._transport.resume_reading()

    def take(self) -> bytes:
        """The bytes of the body that arrived since the last call."""
        if len(self._unread) == 1:
            taken = self._unread.pop()
        else:
            taken, self._unread = b"".join(self._unread), []
        if self._size > MAX_UNREAD_BYTES and self._transport is not None:
            self._transport.resume_reading()
        self._size = 0
        return taken

    def pause_reading(self, seconds: float) -> None:
        """Read nothing from the network for this time, so that the next read gets more bytes at once."""
        if self._transport is not None and self._pause_timer is None and not self.is_whole:
            self._transport.pause_reading()
            self._pause_timer = self.loop.call_later(seconds, self._release)

    async def wait_for_data(self, seconds: float | None) -> None:
        """Wait until data arrives; raises httpx's error when the connection fails or the time runs out."""
        if self.failure is None:
            self._arrival = self.loop.create_future()
            self._read_timeout = seconds
            if self._pause_timer is None:
                self._wait_from_now()
            try:
                await self._arrival
            finally:
                self._arrival = None
                if self._read_timer is not None:
                    self._read_timer.cancel()
                    self._read_timer = None
        if self.failure is not None and not self._unread:
            raise self.failure

    def close(self) -> None:
        if self._pause_timer is not None:
            self._pause_timer.cancel()
        if self._transport is not None:
            self._transport.abort()

    # as asyncio calls it

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if self.is_whole:
            self.close()  # there is no open request, so the server is out of step
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as cause:
            self._fail(httpx2.RemoteProtocolError(f"the server's answer can't be read: {cause}"))
            self.close()
            return
        if self._size > MAX_UNREAD_BYTES and self._transport is not None:
            self._transport.pause_reading()
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        if self.has_head and exc is None and self._ends_with_the_connection():
            self.is_whole = True
        if not self.is_whole:
            message = str(exc) if exc is not None else "the server closed the connection in mid-answer"
            self._fail(httpx2.ReadError(message) if exc else httpx2.RemoteProtocolError(message))
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
            self.headers.clear()  # this was an interim answer; the final one follows

    # inside

    def _ends_with_the_connection(self) -> bool:
        names = {name.lower() for name, _ in self.headers}
        return not names & {b"content-length", b"transfer-encoding"}

    def _release(self) -> None:
        self._pause_timer = None
        if self._transport is not None:
            self._transport.resume_reading()
        if self._arrival is not None:
            self._wait_from_now()

    def _wait_from_now(self) -> None:
        # While reading is paused, the silence of the server is not counted.
        if self._read_timeout is not None:
            self._read_timer = self.loop.call_later(self._read_timeout, self._give_up)

    def _give_up(self) -> None:
        self._fail(httpx2.ReadTimeout("nothing came in time"))
        self.close()
        self._wake()

    def _fail(self, failure: Exception) -> None:
        self.failure = self.failure or failure

    def _wake(self) -> None:
        if self._arrival is not None and not self._arrival.done():
            self._arrival.set_result(None)
