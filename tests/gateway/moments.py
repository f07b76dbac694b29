"""Moments at which a gateway can be killed: between two steps of a message's way, seen from outside.

`MomentProxy` stands between the gateway and a platform's server and reads what passes. A call can be caught
before the platform has it, or after, before the gateway knows.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Self

LOOPBACK = "127.0.0.1"
CHUNK, HEAD = 1 << 16, 400
TEXT_FRAME = 0x81


class Moments:
    """At the moment that is armed the stroke falls, once."""

    def __init__(self, strike: Callable[[], Awaitable[None]]) -> None:
        self._strike = strike
        self._armed = ""
        self._falling: asyncio.Task[None] | None = None
        self.struck = asyncio.Event()

    def arm(self, moment: str) -> asyncio.Event:
        """Strike at the next such moment; the event is set when it is done."""
        self._armed = moment
        self.struck = asyncio.Event()
        return self.struck

    def disarm(self) -> None:
        self._armed = ""

    async def reached(self, moment: str) -> bool:
        """Called when something happens; whether the stroke fell now."""
        if not moment or moment != self._armed:
            return False
        self._armed = ""
        # The stroke ends the connection whose handler calls this, and with it the handler.
        self._falling = asyncio.create_task(self._fall(self.struck))
        await asyncio.shield(self._falling)
        return True

    async def _fall(self, struck: asyncio.Event) -> None:
        await self._strike()
        struck.set()


@dataclass(frozen=True)
class Marks:
    """How calls of a platform's protocol are known in the bytes that pass."""

    up: Mapping[bytes, str]
    """What the gateway writes: a pattern in the head of a call, and its name."""
    delivery: bytes
    """What is in a person's message on its way to the gateway."""
    acknowledges_by_frame: bool = False


class MomentProxy:
    """Passes bytes on between the gateway and a server on loopback."""

    def __init__(self, port: Callable[[], int], marks: Marks, moments: Moments, host: str = LOOPBACK) -> None:
        """`host` is the address at which the gateway reaches it."""
        self._host = host
        self._upstream = port
        self._marks = marks
        self._moments = moments
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, self._host, 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exception: object) -> None:
        if self._server is not None:
            self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            with suppress(OSError, asyncio.CancelledError):
                upstream = await asyncio.open_connection(LOOPBACK, self._upstream())
                await _Connection(self._marks, self._moments).run((reader, writer), upstream)
        finally:
            self._tasks.discard(task)
            writer.close()


METHODS = (b"GET ", b"POST ", b"PUT ", b"PATCH ", b"DELETE ")
Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class _Connection:
    def __init__(self, marks: Marks, moments: Moments) -> None:
        self._marks = marks
        self._moments = moments
        self._call = ""

    async def run(self, client: Ends, server: Ends) -> None:
        pumps = [
            asyncio.create_task(self._pump(client[0], server[1], self._up)),
            asyncio.create_task(self._pump(server[0], client[1], self._down)),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for _, writer in (client, server):
                writer.transport.abort()
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)

    async def _pump(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        is_end: Callable[[bytes], Awaitable[bool]],
    ) -> None:
        with suppress(OSError):
            while data := await reader.read(CHUNK):
                if await is_end(data):
                    return
                writer.write(data)
                await writer.drain()

    async def _up(self, data: bytes) -> bool:
        head = data[:HEAD]
        call = next((name for mark, name in self._marks.up.items() if re.search(mark, head)), "")
        if not call and self._marks.acknowledges_by_frame and data[0] == TEXT_FRAME:
            return await self._moments.reached("before acknowledge")
        if call == "acknowledge":
            return await self._moments.reached("before acknowledge")
        # The body of a call may come by itself, after its head.
        if call or head.startswith(METHODS):
            self._call = call
        return bool(call) and await self._moments.reached(f"before {call}")

    async def _down(self, data: bytes) -> bool:
        call, self._call = self._call, ""
        if call and await self._moments.reached(f"after {call}"):
            return True
        return self._marks.delivery in data and await self._moments.reached("at delivery")
