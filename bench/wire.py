"""A proxy that counts what a program and PostgreSQL say to each other.

It knows the outer form of the protocol alone: a message is a letter and a length. `Q` and `E` from the
program are statements; a round trip is the program speaking after the server has spoken last.
"""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields

STATEMENTS = frozenset(b"QE")
QUESTION = 8
CHUNK = 65536


@dataclass(slots=True)
class Traffic:
    """Counted over all connections since the start."""

    statements: int = 0
    round_trips: int = 0
    sent: int = 0
    received: int = 0
    connections: int = 0

    def since(self, before: "Traffic") -> "Traffic":
        return Traffic(*(getattr(self, each.name) - getattr(before, each.name) for each in fields(self)))

    def copy(self) -> "Traffic":
        return self.since(Traffic())


class Frames:
    """Finds the messages in what a program sends; the first has no letter, nor the questions before it."""

    def __init__(self) -> None:
        self._buffer = b""
        self._is_first = True
        self._left = 0

    def letters(self, chunk: bytes) -> Iterator[int]:
        self._buffer += chunk
        while True:
            skipped = min(self._left, len(self._buffer))
            self._buffer, self._left = self._buffer[skipped:], self._left - skipped
            start = 0 if self._is_first else 1
            if self._left or len(self._buffer) < start + 4:
                return
            length = int.from_bytes(self._buffer[start : start + 4])
            if not self._is_first:
                yield self._buffer[0]
            # A connection may ask for encryption first: eight bytes, to which the answer here is no.
            self._is_first, self._left = self._is_first and length == QUESTION, start + length


class CountingProxy:
    """Stands on a port of its own in front of a server without TLS."""

    def __init__(self, host: str, port: int) -> None:
        self.traffic = Traffic()
        self.port = 0
        self._server = (host, port)
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve(self, ready: threading.Event, stop: asyncio.Event) -> None:
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        ready.set()
        await stop.wait()
        server.close()
        for task in (left := list(self._tasks)):
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - it runs in one
        self._tasks.add(task)
        self.traffic.connections += 1
        far_reader, far_writer = await asyncio.open_connection(*self._server)
        frames, spoke_last = Frames(), ["server"]

        async def program_to_server() -> None:
            while chunk := await reader.read(CHUNK):
                if spoke_last[0] == "server":
                    self.traffic.round_trips += 1
                spoke_last[0] = "program"
                self.traffic.sent += len(chunk)
                self.traffic.statements += sum(letter in STATEMENTS for letter in frames.letters(chunk))
                await _pass_on(chunk, far_writer)
            far_writer.close()

        async def server_to_program() -> None:
            while chunk := await far_reader.read(CHUNK):
                spoke_last[0] = "server"
                self.traffic.received += len(chunk)
                await _pass_on(chunk, writer)
            writer.close()

        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(program_to_server())
                both.create_task(server_to_program())
        except* ConnectionError:
            pass  # one end hung up in mid-word
        finally:
            writer.close()
            far_writer.close()
            self._tasks.discard(task)


async def _pass_on(chunk: bytes, writer: asyncio.StreamWriter) -> None:
    if writer.is_closing():
        raise ConnectionResetError
    writer.write(chunk)
    await writer.drain()


@contextmanager
def counting_proxy(host: str, port: int) -> Iterator[CountingProxy]:
    """A proxy on a thread of its own."""
    proxy, ready = CountingProxy(host, port), threading.Event()
    loop, stop = asyncio.new_event_loop(), asyncio.Event()
    thread = threading.Thread(
        target=loop.run_until_complete, args=(proxy.serve(ready, stop),), name="counting-proxy"
    )
    thread.start()
    ready.wait()
    try:
        yield proxy
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()
