"""`LoopbackServer`: a minimal HTTP server that can misbehave on purpose.

One request a connection, on 127.0.0.1 or another address, on a free port. A handler gets the request and an
`HttpAnswer` to write to; when the client goes away, the handler is cancelled.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request; header names are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    abandoned: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the client closed the connection before its answer was complete."""

    def json(self) -> Any:  # noqa: ANN401 - a body is whatever the client sent
        return json.loads(self.body)


class HttpAnswer:
    """The answer that a handler writes: one `reply`; or `start`, any number of `send`, and `end` or `cut`."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self.started = False

    async def reply(self, status: int, body: object, headers: Mapping[str, str] | None = None) -> None:
        """Send a whole answer; a body that isn't bytes is sent as JSON."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self._head(
            status,
            {"content-type": "application/json", "content-length": str(len(content)), **(headers or {})},
        )
        self._writer.write(content)
        await self._writer.drain()

    async def start(self, headers: Mapping[str, str]) -> None:
        """Send the head of an answer whose body comes in pieces."""
        self._head(200, {"transfer-encoding": "chunked", **headers})
        await self._writer.drain()

    async def send(self, piece: bytes) -> None:
        self._writer.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
        await self._writer.drain()

    async def end(self) -> None:
        self._writer.write(b"0\r\n\r\n")
        await self._writer.drain()

    def cut(self) -> None:
        """Break the connection now."""
        self.started = True
        self._writer.transport.abort()

    def _head(self, status: int, headers: Mapping[str, str]) -> None:
        self.started = True
        reason = HTTPStatus(status).phrase if status in HTTPStatus._value2member_map_ else "Unknown"
        lines = [f"{name}: {value}" for name, value in {**headers, "connection": "close"}.items()]
        self._writer.write("\r\n".join([f"HTTP/1.1 {status} {reason}", *lines, "", ""]).encode())


Handler = Callable[[HttpRequest, HttpAnswer], Awaitable[None]]


class LoopbackServer:
    """Serves until it is closed; `requests` holds the requests that it received, if they are kept."""

    def __init__(
        self, handler: Handler, *, host: str = "127.0.0.1", port: int = 0, keep: bool = True
    ) -> None:
        self._handler = handler
        self._host = host
        self._keep = keep
        self._port = port
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self.requests: list[HttpRequest] = []

    @property
    def url(self) -> str:
        return f"http://{self._host}:{self._port}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, self._host, self._port)
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exception: object) -> None:
        if self._server is not None:
            self._server.close()
        for connection in list(self._connections):
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        me = asyncio.current_task()
        assert me is not None  # noqa: S101 - a callback of start_server is always a task
        self._connections.add(me)
        try:
            request = await read_request(reader)
            if request is not None:
                if self._keep:
                    self.requests.append(request)
                await self._answer(request, reader, HttpAnswer(writer))
        except (ConnectionError, asyncio.CancelledError):
            pass  # the client is gone, or the server closes
        finally:
            self._connections.discard(me)
            writer.close()
            with suppress(ConnectionError, asyncio.CancelledError):
                await writer.wait_closed()

    async def _answer(self, request: HttpRequest, reader: asyncio.StreamReader, answer: HttpAnswer) -> None:
        answering = asyncio.ensure_future(self._handler(request, answer))
        gone = asyncio.ensure_future(reader.read(1))
        try:
            await asyncio.wait({answering, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not answering.done():
                request.abandoned.set()
                return
            await answering
        finally:
            for task in (answering, gone):
                task.cancel()
            await asyncio.gather(answering, gone, return_exceptions=True)


async def read_request(reader: asyncio.StreamReader) -> HttpRequest | None:
    """The next request; None when the client closed without one."""
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.strip().split("\r\n")
    method, path, _ = first.split(" ", 2)
    headers = {
        name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)
    }
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return HttpRequest(method, path, headers, body)
