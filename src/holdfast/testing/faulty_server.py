"""`FaultyServer`: an HTTP server for blocking tests. A function makes its answers, and it fails on demand.

It runs on its own thread and can be stopped and started again on the same port. It plays planned faults: a
refusal, a connection that breaks before or after the work, or a wait for a gate.
"""

import asyncio
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal, Self
from urllib.parse import parse_qsl, unquote, urlsplit

from holdfast.process import LoopThread
from holdfast.testing.http_server import HttpAnswer, HttpRequest, LoopbackServer
from holdfast.testing.provider_case import Health

START_SECONDS = 10.0
SLOW_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class HttpCall:
    """A request, as the answering function gets it."""

    method: str
    parts: tuple[str, ...]
    """The path, cut at its slashes and decoded."""
    query: Mapping[str, str]
    request: HttpRequest

    @property
    def line(self) -> str:
        """The first line of the request."""
        return f"{self.method} {self.request.path} HTTP/1.1"


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer; its body is sent as JSON."""

    body: object
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Fault:
    """A planned fault for requests whose first line contains `match`. It happens `times` times."""

    match: str
    kind: Literal["refuse", "drop", "lose", "wait"]
    """Refuse with `status`, drop the request before the work, lose the answer after it, wait for `gate`."""
    status: int = 500
    headers: Mapping[str, str] = field(default_factory=dict)
    times: int = 1
    gate: threading.Event = field(default_factory=threading.Event)
    met: threading.Event = field(default_factory=threading.Event)
    """Set when the fault happened."""


class FaultyServer:
    """Use it as `with FaultyServer(answer) as server`, or `start` and `stop` it."""

    def __init__(self, answer: Callable[[HttpCall], Reply], *, port: int = 0) -> None:
        self._answer = answer
        self._lock = threading.Lock()  # guards _faults and _calls
        self._faults: list[Fault] = []
        self._calls: list[HttpCall] = []
        self._port = port
        self._slow = 0.0
        self._mended = threading.Event()
        self._mended.set()
        self._loop: LoopThread | None = None
        self._http: LoopbackServer | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def calls(self) -> list[HttpCall]:
        """All requests in order, including those with a fault."""
        with self._lock:
            return list(self._calls)

    def plan(self, fault: Fault) -> Fault:
        """Add a fault. The first planned fault that matches a request is played."""
        with self._lock:
            self._faults.append(fault)
        return fault

    def set_health(self, health: Health) -> None:
        """Break or repair the whole server.

        Down is stopped, slow takes half a second, wedged never answers.
        """
        self._slow = SLOW_SECONDS if health == "slow" else 0.0
        if health == "wedged":
            self._mended = threading.Event()
        else:
            self._mended.set()
        if health == "down":
            self.stop()
        elif self._loop is None:
            self.start()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start the server, again on the same port."""
        self._loop = LoopThread("faulty-server")
        self._http = LoopbackServer(self._handle, port=self._port)
        self._loop.run(self._http.__aenter__, START_SECONDS)
        self._port = int(self._http.url.rpartition(":")[2])

    def stop(self) -> None:
        """Break every connection and stop the server. It may be called again."""
        loop, http, self._loop, self._http = self._loop, self._http, None, None
        if loop is not None and http is not None:
            loop.close(lambda: http.__aexit__(None, None, None))

    async def _handle(self, request: HttpRequest, answer: HttpAnswer) -> None:
        split = urlsplit(request.path)
        parts = tuple(unquote(part) for part in split.path.strip("/").split("/"))
        call = HttpCall(request.method, parts, dict(parse_qsl(split.query)), request)
        fault = self._next_fault(call)
        await asyncio.sleep(self._slow)
        if not self._mended.is_set():
            await asyncio.get_running_loop().run_in_executor(None, self._mended.wait)
        if fault is not None and fault.kind == "drop":
            return answer.cut()
        if fault is not None and fault.kind == "refuse":
            return await answer.reply(fault.status, {"detail": "a planned fault"}, fault.headers)
        if fault is not None and fault.kind == "wait":
            await asyncio.get_running_loop().run_in_executor(None, fault.gate.wait)
        reply = self._answer(call)
        if fault is not None and fault.kind == "lose":
            return answer.cut()
        with suppress(ConnectionError):
            await answer.reply(reply.status, reply.body, reply.headers)
        return None

    def _next_fault(self, call: HttpCall) -> Fault | None:
        with self._lock:
            self._calls.append(call)
            for fault in self._faults:
                if fault.times and fault.match in call.line:
                    fault.times -= 1
                    fault.met.set()
                    return fault
        return None
