"""`Spread`: connections to one server in several pools, so that a request costs the same beside many others.

A pool looks at each of its connections for every request. The first pool with room is taken, so whoever
talks alone always meets a warm connection.
"""

from typing import TYPE_CHECKING, Any

import httpx2

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

FULL = 16
"""Requests at once for which one pool is enough."""


class Spread(httpx2.AsyncBaseTransport):
    """As many pools as are needed; each is made when the ones before are busy."""

    def __init__(self, *, trust_env: bool) -> None:
        # One for all pools: reading the certificates takes longer than a request.
        self._certificates = httpx2.create_ssl_context(trust_env=trust_env)
        self._pools: list[tuple[httpx2.AsyncHTTPTransport, list[int]]] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        pool, busy = self._with_room()
        busy[0] += 1
        try:
            answer = await pool.handle_async_request(request)
        except BaseException:
            busy[0] -= 1
            raise
        answer.stream = _Counted(answer.stream, busy)
        return answer

    async def aclose(self) -> None:
        for pool, _ in self._pools:
            await pool.aclose()

    def _with_room(self) -> tuple[httpx2.AsyncHTTPTransport, list[int]]:
        for pool, busy in self._pools:
            if busy[0] < FULL:
                return pool, busy
        self._pools.append((httpx2.AsyncHTTPTransport(verify=self._certificates), [0]))
        return self._pools[-1]


class _Counted(httpx2.AsyncByteStream):
    """A body that gives its place in the pool back when it is closed."""

    def __init__(self, stream: Any, busy: list[int]) -> None:  # noqa: ANN401 - whatever the pool gave
        self._stream = stream
        self._busy = busy
        self._open = True

    async def __aiter__(self) -> "AsyncIterator[bytes]":
        async for part in self._stream:
            yield part

    async def aclose(self) -> None:
        try:
            await self._stream.aclose()
        finally:
            if self._open:
                self._open = False
                self._busy[0] -= 1
