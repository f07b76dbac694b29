"""A real server on a port of its own, around a host with a scripted model, and readers of its events."""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import httpx2

from holdfast.agent.scope_policy import PolicyFor
from holdfast.core.clock import SystemClock
from holdfast.core.contract import Clock
from holdfast.core.secret import Secret
from holdfast.core.settings import WebSettings
from holdfast.host import SessionHost
from holdfast.host.contract import default_policy
from holdfast.memory import MemoryManager
from holdfast.process.http_server import listen
from holdfast.sessions import SessionDB
from holdfast.tools.contract import Tool
from holdfast.web import WebParts
from holdfast.web.server import run_server
from holdfast.web.streams import OpenStreams
from tests.agent.agent_fixtures import DEADLINE
from tests.host.host_fixtures import host_parts

TOKEN = "a-token-of-the-test"
BEARER = {"Authorization": f"Bearer {TOKEN}"}


@dataclass(frozen=True)
class Served:
    """The server, and a client that shows the token."""

    web: WebParts
    host: SessionHost
    port: int
    http: httpx2.AsyncClient

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def stranger(self) -> httpx2.AsyncClient:
        """A client that shows nothing."""
        return httpx2.AsyncClient(base_url=self.url, timeout=DEADLINE)

    async def begin(self, **body: str) -> str:
        answer = await self.http.post("/api/sessions", json=body)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    async def send(self, session: str, text: str, **more: str) -> dict[str, Any]:
        answer = await self.http.post(f"/api/sessions/{session}/send", json={"text": text, **more})
        assert answer.status_code == 202, answer.text
        accepted: dict[str, Any] = answer.json()
        return accepted

    async def said(self, session: str) -> list[Any]:
        answer = await self.http.get(f"/api/sessions/{session}/messages")
        return [each["message"]["content"] for each in answer.json()["items"]]

    @asynccontextmanager
    async def events(
        self, session: str, *, after: int | None = None, last: str | None = None
    ) -> AsyncIterator[AsyncGenerator[dict[str, Any], None]]:
        """The session's events; each also has the `id` and `event` of its frame."""
        headers = {} if last is None else {"Last-Event-ID": last}
        params = {} if after is None else {"after": after}
        place = f"/api/sessions/{session}/events"
        async with self.http.stream("GET", place, headers=headers, params=params) as answer:
            assert answer.status_code == 200, await answer.aread()
            yield frames(answer)

    async def until(
        self, session: str, kind: str, *, after: int | None = None, last: str | None = None
    ) -> list[dict[str, Any]]:
        """The events up to the first of a kind."""
        found: list[dict[str, Any]] = []
        async with self.events(session, after=after, last=last) as events:
            async for event in events:
                found.append(event)
                if event["kind"] == kind:
                    break
        return found


async def frames(answer: httpx2.Response) -> AsyncGenerator[dict[str, Any], None]:
    """Server-sent events, as a browser would read them."""
    frame: dict[str, str] = {}
    async for line in answer.aiter_lines():
        name, _, value = line.partition(": ")
        if line and name:
            frame[name] = value
        elif not line:
            if "data" in frame:
                yield {"id": frame.get("id"), "event": frame.get("event"), **json.loads(frame["data"])}
            frame = {}


@asynccontextmanager
async def serving(
    host: SessionHost, settings: WebSettings | None = None, token: str = TOKEN, clock: Clock | None = None
) -> AsyncIterator[Served]:
    """A server of this host, until the end of the block."""
    chosen = settings or WebSettings()
    async with host:
        web = WebParts(host, chosen, Secret(token), OpenStreams(chosen.streams), clock=clock or SystemClock())
        listening = listen("127.0.0.1", 0)
        port = listening.getsockname()[1]
        limits = httpx2.Limits(max_connections=None)
        async with (
            run_server(web, listening),
            httpx2.AsyncClient(
                base_url=f"http://127.0.0.1:{port}", headers=BEARER, timeout=DEADLINE, limits=limits
            ) as http,
        ):
            yield Served(web, host, port, http)


@asynccontextmanager
async def served(  # noqa: PLR0913 - what a host is made of
    db: SessionDB,
    script: Sequence[Any] | Callable[[str], Any] = (),
    *,
    settings: WebSettings | None = None,
    tools: Sequence[Tool] = (),
    memory: MemoryManager | None = None,
    token: str = TOKEN,
    scope_policy: PolicyFor = default_policy,
    clock: Clock | None = None,
    models: Any = None,  # noqa: ANN401 - as in `HostParts`
) -> AsyncIterator[Served]:
    """A server, until the end of the block."""
    parts = host_parts(db, script, tools=tools, memory=memory, scope_policy=scope_policy)
    host = SessionHost(replace(parts, models=models))
    async with serving(host, settings, token, clock) as server:
        yield server
