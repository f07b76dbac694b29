"""A proxy that counts what a program and PostgreSQL say to each other.

`Q` and `E` from the program are statements; a round trip is the program speaking after the server has spoken
last. What a transaction cost is also kept by what it asked (`Traffic.kinds`): the names of its queries, or
the first words of a statement that has no name.
"""

import asyncio
import re
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from functools import cache

from holdfast.sessions.queries import load_queries

PARSE, BIND, QUERY, EXECUTE = b"PBQE"
FLUSH = b"H\0\0\0\4"
"""psycopg sends it after a Sync, at times by itself, and the server has nothing to say to it."""
BEGIN, ENDS = "begin", ("commit", "rollback")
LONGEST_LABEL = 40
QUESTION = 8
CHUNK = 65536


@dataclass(slots=True)
class Kind:
    """What the transactions that asked the same cost together."""

    transactions: int = 0
    statements: int = 0
    round_trips: int = 0
    sent: int = 0
    received: int = 0

    def since(self, before: "Kind") -> "Kind":
        return Kind(*(getattr(self, each.name) - getattr(before, each.name) for each in fields(self)))


@dataclass(slots=True)
class Traffic:
    """Counted over all connections since the start."""

    statements: int = 0
    round_trips: int = 0
    sent: int = 0
    received: int = 0
    connections: int = 0
    kinds: dict[str, Kind] = field(default_factory=lambda: defaultdict(Kind))
    """By the queries of a transaction, in order."""

    def since(self, before: "Traffic") -> "Traffic":
        kinds = {name: kind.since(before.kinds.get(name, Kind())) for name, kind in list(self.kinds.items())}
        return Traffic(
            self.statements - before.statements,
            self.round_trips - before.round_trips,
            self.sent - before.sent,
            self.received - before.received,
            self.connections - before.connections,
            kinds,
        )

    def copy(self) -> "Traffic":
        return self.since(Traffic())


class Frames:
    """Finds the messages in what a program sends; the first has no letter, nor the questions before it."""

    def __init__(self) -> None:
        self._buffer = b""
        self._is_first = True

    def messages(self, chunk: bytes) -> Iterator[tuple[int, bytes]]:
        self._buffer += chunk
        while True:
            start = 0 if self._is_first else 1
            if len(self._buffer) < start + 4:
                return
            length = int.from_bytes(self._buffer[start : start + 4])
            if len(self._buffer) < start + length:
                return
            if not self._is_first:
                yield self._buffer[0], self._buffer[5 : start + length]
            # A connection may ask for encryption first: eight bytes, to which the answer here is no.
            self._is_first = self._is_first and length == QUESTION
            self._buffer = self._buffer[start + length :]


class Transactions:
    """Tells to which transaction of one connection each message belongs."""

    def __init__(self, kinds: dict[str, Kind]) -> None:
        self._kinds = kinds
        self._prepared: dict[bytes, str] = {}
        self._bound = ""
        self._asked: list[str] = []
        self._is_over = True
        self.current = Kind()

    def note(self, letter: int, body: bytes) -> bool:
        """Take in a message of the program; whether it is a statement."""
        if letter == PARSE:
            name, query, _ = body.split(b"\0", 2)
            self._prepared[name] = label(query.decode(errors="replace"))
        elif letter == BIND:
            self._bound = self._prepared.get(body.split(b"\0", 2)[1], "?")
        elif letter == QUERY:
            self._add(label(body.rstrip(b"\0").decode(errors="replace")))
        elif letter == EXECUTE:
            self._add(self._bound)
        return letter in (QUERY, EXECUTE)

    def _add(self, asked: str) -> None:
        if self._is_over:
            self.close()
        self._is_over = asked in ENDS or (self._is_over and asked != BEGIN)
        self._asked.append(asked)
        self.current.statements += 1

    def close(self) -> None:
        """What was counted so far belongs to the transaction that has ended."""
        named = [each for each in self._asked if each not in (BEGIN, "mark", *ENDS)]
        if self._asked:
            total = self._kinds[" + ".join(dict.fromkeys(named)) or self._asked[0]]
            total.transactions += 1
            for name in ("statements", "round_trips", "sent", "received"):
                setattr(total, name, getattr(total, name) + getattr(self.current, name))
        self._asked, self.current = [], Kind()


@cache
def _names() -> dict[str, str]:
    found = vars(load_queries("postgres", "psycopg")).items()
    return {_shape(each.sql): name for name, each in found if getattr(each, "sql", None)}


def _shape(sql: str) -> str:
    """Without its parameters and constants, which the server's statistics leave out."""
    return " ".join(re.sub(r"%\(\w+\)s|\$\d+|'(?:[^']|'')*'|\b\d+\b", "$", sql).split())


@cache
def label(sql: str) -> str:
    """The name of a query, or the first words of another statement."""
    shape = _shape(sql)
    if shape.startswith("begin "):
        return BEGIN
    if "pg_current_xact_id()" in shape:
        return "mark"
    return _names().get(shape, shape[:LONGEST_LABEL] or "nothing")


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
        transactions = Transactions(self.traffic.kinds)

        async def program_to_server() -> None:
            while chunk := await reader.read(CHUNK):
                is_turn = spoke_last[0] == "server" and chunk != FLUSH
                if is_turn:
                    spoke_last[0] = "program"
                self.traffic.round_trips += is_turn
                self.traffic.sent += len(chunk)
                for letter, body in frames.messages(chunk):
                    self.traffic.statements += transactions.note(letter, body)
                transactions.current.round_trips += is_turn
                transactions.current.sent += len(chunk)
                await _pass_on(chunk, far_writer)
            far_writer.close()

        async def server_to_program() -> None:
            while chunk := await far_reader.read(CHUNK):
                spoke_last[0] = "server"
                self.traffic.received += len(chunk)
                transactions.current.received += len(chunk)
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
