"""An HTTP proxy in front of a real Matrix server, which breaks calls when it is told to."""

import asyncio
from collections import deque
from collections.abc import Mapping
from typing import Self
from urllib.parse import parse_qsl, urlencode, urlsplit

import httpx2

from holdfast.testing.chat_platform import Fault
from holdfast.testing.http_server import HttpAnswer, HttpRequest, LoopbackServer

KEPT = ("authorization", "content-type")
RETRY_AFTER_MS = 50
REFUSALS: Mapping[Fault, tuple[int, Mapping[str, object]]] = {
    "slow down": (429, {"errcode": "M_LIMIT_EXCEEDED", "retry_after_ms": RETRY_AFTER_MS}),
    "refuse": (403, {"errcode": "M_FORBIDDEN", "error": "a planned fault"}),
}


class FaultProxy:
    """Passes every request on; `/sync` may be broken or answered from the beginning, sends may fail."""

    def __init__(self, upstream: str) -> None:
        self._upstream = upstream
        self._http = httpx2.AsyncClient(timeout=120, trust_env=False)
        self._server = LoopbackServer(self._handle)
        self._receiving: set[HttpAnswer] = set()
        self._first_since = ""
        self._is_next_kicked = False
        self._again = asyncio.Event()
        self.faults: deque[Fault] = deque()
        self.receiving = asyncio.Event()
        """Set while a long poll is open."""
        self.polls = asyncio.Semaphore(0)
        """Released for each long poll."""

    @property
    def url(self) -> str:
        return self._server.url

    @property
    def requests(self) -> list[HttpRequest]:
        return self._server.requests

    async def __aenter__(self) -> Self:
        await self._server.__aenter__()
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self._server.__aexit__(*exception)
        await self._http.aclose()

    def kick(self) -> None:
        """Break the open long polls, or the next one."""
        self._is_next_kicked = not self._receiving
        for answer in self._receiving:
            answer.cut()

    def deliver_again(self) -> None:
        """Answer the open long poll, or the next one, from where the first one began."""
        self._again.set()

    async def _handle(self, request: HttpRequest, answer: HttpAnswer) -> None:
        if "/v3/sync?" in request.path:
            return await self._receive(request, answer)
        fault = None
        if request.method == "PUT" and "/send/m.room." in request.path and self.faults:
            fault = self.faults.popleft()
        if fault == "drop before":
            return answer.cut()
        if fault is not None and fault in REFUSALS:
            return await answer.reply(*REFUSALS[fault])
        return await self._pass_on(request, answer, request.path, is_lost=fault == "drop after")

    async def _receive(self, request: HttpRequest, answer: HttpAnswer) -> None:
        since = dict(parse_qsl(urlsplit(request.path).query)).get("since", "")
        self._first_since = self._first_since or since
        if self._is_next_kicked:
            self._is_next_kicked = False
            return answer.cut()
        polling = asyncio.ensure_future(self._pass_on(request, answer, request.path))
        again = asyncio.ensure_future(self._again.wait())
        self._receiving.add(answer)
        self.receiving.set()
        self.polls.release()
        try:
            await asyncio.wait({polling, again}, return_when=asyncio.FIRST_COMPLETED)
            if again.done() and since and not answer.started:
                self._again.clear()
                polling.cancel()
                await self._pass_on(request, answer, with_since(request.path, self._first_since))
            else:
                await polling
        finally:
            self._receiving.discard(answer)
            if not self._receiving:
                self.receiving.clear()
            for task in (polling, again):
                task.cancel()
            await asyncio.gather(polling, again, return_exceptions=True)

    async def _pass_on(
        self, request: HttpRequest, answer: HttpAnswer, path: str, *, is_lost: bool = False
    ) -> None:
        headers = {name: value for name, value in request.headers.items() if name in KEPT}
        try:
            got = await self._http.request(
                request.method, f"{self._upstream}{path}", content=request.body, headers=headers
            )
        except httpx2.HTTPError:
            return answer.cut()
        if is_lost:
            return answer.cut()
        return await answer.reply(
            got.status_code, got.content, {"content-type": got.headers.get("content-type", "")}
        )


def with_since(path: str, since: str) -> str:
    split = urlsplit(path)
    return split._replace(query=urlencode({**dict(parse_qsl(split.query)), "since": since})).geturl()
