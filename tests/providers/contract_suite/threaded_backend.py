"""HTTP backends that run on a thread of the test and fail on command."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from holdfast.testing.http_server import HttpAnswer, HttpRequest, LoopbackServer
from holdfast.testing.provider_case import Health

Reply = tuple[int, Any]
SLOW_SECONDS = 0.5
DEADLINE = 60.0


class ThreadedBackend:
    """An HTTP server whose answers are made by `reply(method, path, body)`, one at a time."""

    def __init__(self, reply: Callable[[HttpRequest], Reply]) -> None:
        self._reply = reply
        self.health: Health = "well"
        self.refusal: Reply | None = None
        """What the next requests get instead, with `headers`."""
        self.headers: dict[str, str] = {}
        self.lose_answers_of = ""
        """The next request to this path is done, and its answer lost on the way."""
        self.requests: list[HttpRequest] = []
        self._started = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._server: LoopbackServer | None = None
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        assert self._server is not None
        return self._server.url

    def start(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._run, args=(self._loop,), name="test-backend", daemon=True
        )
        self._thread.start()
        assert self._started.wait(DEADLINE)

    def stop(self) -> None:
        if self._loop is not None and self._thread is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(DEADLINE)

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        self._server = LoopbackServer(self._handle)
        loop.run_until_complete(self._server.__aenter__())
        self._started.set()
        loop.run_forever()
        loop.run_until_complete(self._server.__aexit__())
        loop.close()

    async def _handle(self, request: HttpRequest, answer: HttpAnswer) -> None:
        self.requests.append(request)
        if self.health == "wedged":
            await asyncio.Event().wait()
        if self.health == "slow":
            with suppress(TimeoutError):
                await asyncio.wait_for(asyncio.Event().wait(), SLOW_SECONDS)
        if self.health == "down":
            await answer.reply(503, {"detail": "out of order"})
            return
        if self.refusal is not None:
            await answer.reply(*self.refusal, self.headers)
            return
        status, body = self._reply(request)
        if self.lose_answers_of and self.lose_answers_of in request.path:
            self.lose_answers_of = ""
            answer.cut()
            return
        await answer.reply(status, body)
