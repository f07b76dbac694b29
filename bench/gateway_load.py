"""N chats at once through one gateway: `python -m bench.gateway_load WAY CHATS` prints what it saw, as JSON.

WAY is the name of a platform (its traits and limits, on the platform in memory), the address of the small
Telegram server (with the real client library), or `host`: the same messages straight to the host. The host
is that of the program, with the settings of the environment.
"""

import asyncio
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import TypeVar, cast

from bench.gateway_telegram import SAY, TEXT
from bench.web import Server, await_worker, cpu_seconds, sizes
from bench.web_model import TOKENS
from holdfast.core.clock import SystemClock
from holdfast.core.events import Event, TextDelta, TurnCompleted, TurnFailed
from holdfast.core.ids import IdFactory
from holdfast.core.secret import Secret
from holdfast.gateway.account_adapters import scope_folder_of
from holdfast.gateway.chat_account import GatewayParts
from holdfast.gateway.contract import Adapter, AdapterTraits, Outgoing, Route, SlowDown
from holdfast.gateway.gateway import Gateway
from holdfast.host import SessionHost
from holdfast.testing.memory_chats import MemoryOptions
from holdfast.testing.memory_platform import MemoryPlatform
from holdfast.wiring import load_settings
from holdfast.wiring.graceful_stop import open_host

T = TypeVar("T")
ACCOUNT = "bench"
FIRST, LAST = "word0", f"word{TOKENS - 1}"
PATIENCE = 300.0
LOOK_SECONDS = 1.0


@dataclass(slots=True)
class Load:
    """What was seen. Times are seconds since the messages were said, one for each chat."""

    token: list[float] = field(default_factory=list)
    """When the model's first token came."""
    shown: list[float] = field(default_factory=list)
    """When the first of its words stood in the chat; without a gateway, when a reader had it."""
    late: list[float] = field(default_factory=list)
    """From the model's first token to the first words in the chat."""
    whole: list[float] = field(default_factory=list)
    calls: dict[str, int] = field(default_factory=dict)
    refused: int = 0
    cpu: float = 0.0
    worker_cpu: float = 0.0
    memory: float = 0.0
    """The most that the process had, in MB (PSS)."""


class Meter:
    """Measures this process and the worker of its memory while something runs."""

    def __init__(self, load: Load, *other_children: int) -> None:
        self._load = load
        self._process = Server(os.getpid(), 0, other_children=other_children)

    async def warm_up(self) -> None:
        await asyncio.to_thread(await_worker, self._process)

    async def during(self, work: Awaitable[None]) -> None:
        worker = self._process.worker()
        beside = cpu_seconds(worker) if worker else 0.0
        before = self._process.cpu()
        watching = asyncio.create_task(self._watch())
        try:
            async with asyncio.timeout(PATIENCE):
                await work
        finally:
            watching.cancel()
        self._look()
        self._load.cpu = self._process.cpu() - before
        if worker is not None and worker == self._process.worker():
            await self.warm_up()  # what it was given it finishes
            self._load.worker_cpu = cpu_seconds(worker) - beside

    async def _watch(self) -> None:
        while True:
            self._look()
            await asyncio.sleep(LOOK_SECONDS)

    def _look(self) -> None:
        self._load.memory = max(self._load.memory, sizes(self._process)[2] / 1024)


class Watched:
    """An adapter that notes what stands in each chat, and when."""

    def __init__(self, adapter: Adapter, load: Load) -> None:
        self._adapter = adapter
        self.load = load
        self.first: dict[str, float] = {}
        self.whole: dict[str, float] = {}
        self.all_done = asyncio.Event()
        self.wanted = 1

    def __getattr__(self, name: str) -> object:
        return getattr(self._adapter, name)

    async def send(self, route: Route, message: Outgoing, key: str) -> str:
        sent = await self._counted("send", self._adapter.send(route, message, key))
        self._note(route, message)
        return sent

    async def edit(self, route: Route, message_id: str, message: Outgoing) -> None:
        await self._counted("edit", self._adapter.edit(route, message_id, message))
        self._note(route, message)

    async def show_typing(self, route: Route) -> None:
        await self._counted("typing", self._adapter.show_typing(route))

    async def _counted(self, kind: str, call: Awaitable[T]) -> T:
        self.load.calls[kind] = self.load.calls.get(kind, 0) + 1
        try:
            return await call
        except SlowDown:
            self.load.refused += 1
            raise

    def _note(self, route: Route, message: Outgoing) -> None:
        now = time.monotonic()
        if FIRST in message.text:
            self.first.setdefault(route.place.chat, now)
        if LAST in message.text:
            self.whole.setdefault(route.place.chat, now)
            if len(self.whole) >= self.wanted:
                self.all_done.set()


class Turns:
    """Notes when each session's first token came, and when its turn ended."""

    def __init__(self, host: SessionHost) -> None:
        self.first: dict[str, float] = {}
        self.ended: dict[str, float] = {}
        self.changed = asyncio.Event()
        host.watch(self._note)

    def _note(self, event: Event) -> None:
        if isinstance(event, TextDelta):
            self.first.setdefault(event.session_id, time.monotonic())
        elif isinstance(event, TurnFailed):
            print(f"a turn failed: {event}", file=sys.stderr)
        elif isinstance(event, TurnCompleted):
            self.ended[event.session_id] = time.monotonic()
            self.changed.set()

    async def until_ended(self, count: int) -> None:
        while len(self.ended) < count:
            self.changed.clear()
            await self.changed.wait()


def traits_of(platform: str) -> AdapterTraits:
    """What the adapter of this platform says of it."""
    if platform == "telegram":
        from holdfast.gateway.adapters.telegram import TelegramAdapter

        return TelegramAdapter.traits
    if platform == "discord":
        from holdfast.gateway.adapters.discord import DiscordAdapter

        return DiscordAdapter.traits
    if platform == "slack":
        from holdfast.gateway.adapters.slack import SlackAdapter

        return SlackAdapter.traits
    from holdfast.gateway.adapters.matrix import TRAITS

    return TRAITS


async def without_gateway(host: SessionHost, chats: int, load: Load) -> None:
    """The same messages, straight to the host."""
    turns, meter, new_id = Turns(host), Meter(load), IdFactory(SystemClock())
    await host.send(new_id(), TEXT)
    await turns.until_ended(1)
    await meter.warm_up()
    turns.first.clear()
    turns.ended.clear()
    begun = time.monotonic()

    async def work() -> None:
        await asyncio.gather(*(host.send(new_id(), TEXT) for _ in range(chats)))
        await turns.until_ended(chats)

    await meter.during(work())
    load.token = load.shown = [each - begun for each in turns.first.values()]
    load.whole = [each - begun for each in turns.ended.values()]


Say = Callable[[int, int], Awaitable[None]]
"""Lets the people from one number up to another say it."""


async def through_gateway(host: SessionHost, watched: Watched, say: Say, chats: int, meter: Meter) -> None:
    load, turns = watched.load, Turns(host)
    settings = load_settings()
    parts = GatewayParts(host, settings.gateway, partial(scope_folder_of, settings))
    gateway = Gateway({ACCOUNT: cast("Adapter", watched)}, parts)
    async with gateway.running():
        await gateway.accounts[ACCOUNT].answered.wait()
        await say(0, 1)
        await watched.all_done.wait()
        await meter.warm_up()
        _forget(watched, turns, load, chats)
        begun = time.monotonic()

        async def work() -> None:
            await say(1, chats + 1)
            await watched.all_done.wait()

        try:
            await meter.during(work())
        except TimeoutError:
            sys.stderr.write(f"only {len(watched.whole)} of {chats} answers came\n")
        rooms = await host.chats(host.chats.events.rooms, ACCOUNT)
        tokens = {each.chat: turns.first.get(each.session_id or "") for each in rooms}
        for chat, shown in watched.first.items():
            token = tokens.get(chat)
            if token is not None:
                load.token.append(token - begun)
                load.late.append(shown - token)
        load.shown = [each - begun for each in watched.first.values()]
        load.whole = [each - begun for each in watched.whole.values()]


def _forget(watched: Watched, turns: Turns, load: Load, chats: int) -> None:
    for each in (watched.first, watched.whole, turns.first, turns.ended, load.calls):
        each.clear()
    watched.wanted = chats
    watched.all_done.clear()


async def on_memory_platform(host: SessionHost, platform: str, chats: int, load: Load) -> None:
    memory = MemoryPlatform(traits_of(platform), options=MemoryOptions(enforces_limits=True, page=100))
    for number in range(chats + 1):
        await host.chats(host.chats.people.put, ACCOUNT, f"person-{number}", "user")

    async def say(first: int, last: int) -> None:
        for number in range(first, last):
            await memory.say(await memory.direct(str(number)), str(number), TEXT)

    await through_gateway(host, Watched(memory.adapter(), load), say, chats, Meter(load))


async def on_telegram(host: SessionHost, chats: int, load: Load) -> None:
    """Through the small Telegram server, in a process of its own, with the real client library."""
    from holdfast.gateway.adapters.telegram import TelegramAdapter

    server = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "bench.gateway_telegram",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert server.stdin is not None and server.stdout is not None  # noqa: S101, PT018 - asked for above
    url, token, first_person = (await server.stdout.readline()).decode().split()
    for number in range(chats + 1):
        await host.chats(host.chats.people.put, ACCOUNT, str(int(first_person) + number), "user")
    lines, talks = server.stdout, server.stdin

    async def say(first: int, last: int) -> None:
        talks.write(f"{SAY} {first} {last}\n".encode())
        await lines.readline()

    try:
        adapter = TelegramAdapter(Secret(token), SystemClock(), api_url=url)
        await through_gateway(host, Watched(adapter, load), say, chats, Meter(load, server.pid))
    finally:
        server.kill()
        await server.wait()


def say(line: str) -> None:
    print(line, file=sys.stderr)


async def main(way: str, chats: int) -> None:
    load = Load()
    opened = open_host(load_settings(), source="gateway", say=say, after_crash="resume")
    async with opened as (host, _):
        if way == "host":
            await without_gateway(host, chats, load)
        elif way == "aiogram":
            await on_telegram(host, chats, load)
        else:
            await on_memory_platform(host, way, chats, load)
    print(json.dumps(asdict(load)))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
