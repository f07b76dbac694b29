"""`AdapterHarness`: one chat platform for one check, with its adapters and what listens to them."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar, runtime_checkable

from holdfast.core.clock import SystemClock
from holdfast.gateway.contract import (
    Adapter,
    Batch,
    ChatPlatformError,
    Incoming,
    Outgoing,
    Place,
    Route,
    SlowDown,
    Unreachable,
)
from holdfast.testing.chat_platform import ChatPlatform, SeenMessage
from holdfast.testing.provider_case import NotOffered
from holdfast.testing.provider_harness import require

T = TypeVar("T")

LOOK_EVERY = 0.02


@runtime_checkable
class ThreadsOnPlatform(Protocol):
    """What a `ChatPlatform` also has where the platform has threads."""

    async def thread(self, place: Place) -> Place:
        """A new thread in this chat."""
        ...


@runtime_checkable
class BotsOnPlatform(Protocol):
    """What a `ChatPlatform` also has where other bots can talk."""

    async def bot_says(self, place: Place, bot: str, text: str) -> str:
        """Another bot says something; returns the platform's id of the message."""
        ...


class Listener:
    """Reads from an adapter as the gateway does: keeps events and cursors, acknowledges, connects again."""

    def __init__(self, adapter: Adapter, cursors: dict[str, str], *, acknowledges: bool) -> None:
        self.cursors = cursors
        self.events: list[Incoming] = []
        self.missed: list[str] | None = None
        """What had come when it first said that it had caught up."""
        self.failure: BaseException | None = None
        self._adapter = adapter
        self._acknowledges = acknowledges
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        while self.failure is None:
            try:
                async with aclosing(self._adapter.receive(dict(self.cursors))) as batches:
                    async for batch in batches:
                        await self._take(batch)
                self.failure = AssertionError("receive() ended without an error")
            except Unreachable:
                await asyncio.sleep(LOOK_EVERY)  # asked again with the stored cursors
            except asyncio.CancelledError:
                raise
            except BaseException as failure:  # noqa: BLE001 - the check that waits says what it was
                self.failure = failure

    async def _take(self, batch: Batch) -> None:
        self.events += batch.events
        if batch.events and not self._acknowledges:
            await asyncio.Event().wait()  # dies with the batch in its hands
        self.cursors.update(batch.cursors)
        await batch.acknowledge()
        if batch.caught_up and self.missed is None:
            self.missed = list(self.texts)

    @property
    def texts(self) -> list[str]:
        return [each.text for each in self.events if not each.sender.is_bot]

    async def stop(self) -> None:
        """Stop as the gateway does: the adapter is closed with it."""
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
        await _closed(self._adapter)


class AdapterHarness:
    """Everything one check needs."""

    def __init__(self, platform: ChatPlatform, folder: Path, patience: float) -> None:
        self.platform = platform
        self.folder = folder
        self.patience = patience
        self._clock = SystemClock()
        self._adapters: list[Adapter] = []
        self._listeners: list[Listener] = []

    async def adapter(self) -> Adapter:
        """A new adapter that is signed in, as after a restart of the gateway."""
        made = self.platform.adapter()
        self._adapters.append(made)
        await made.connect()
        return made

    async def listen(
        self,
        cursors: dict[str, str] | None = None,
        *,
        acknowledges: bool = True,
        adapter: Adapter | None = None,
    ) -> Listener:
        """Receive with a new adapter until the check stops it; returns once it has caught up."""
        cursors = {} if cursors is None else cursors
        listener = Listener(adapter or await self.adapter(), cursors, acknowledges=acknowledges)
        self._listeners.append(listener)
        await self.until(
            lambda: listener.missed is not None, "receive() brought no batch that is caught up", listener
        )
        return listener

    async def heard(self, listener: Listener, text: str) -> Incoming:
        """The event with this text, as soon as it has come."""
        await self.until(lambda: text in listener.texts, f"{text!r} was not received", listener)
        return next(each for each in listener.events if each.text == text and not each.sender.is_bot)

    async def send(self, adapter: Adapter, route: Route, message: Outgoing, key: str) -> str:
        """Send as the gateway does: later, when the platform asks for it."""
        return await self.obeying(lambda: adapter.send(route, message, key))

    async def obeying(self, call: Callable[[], Awaitable[T]]) -> T:
        """Make a call, later when the platform asks for it."""
        deadline = self._clock.monotonic() + self.patience
        while True:
            try:
                return await call()
            except SlowDown as asked:
                require(self._clock.monotonic() < deadline, "the platform asked to slow down again and again")
                await asyncio.sleep(asked.seconds)

    async def seen(self, place: Place, *, by_bot: bool = True) -> list[SeenMessage]:
        """The bot's messages in a chat."""
        return [each for each in await self.platform.messages(place) if each.by_bot == by_bot]

    async def until_seen(
        self, place: Place, holds: Callable[[Sequence[SeenMessage]], bool], otherwise: str
    ) -> list[SeenMessage]:
        deadline = self._clock.monotonic() + self.patience
        while not holds(found := await self.seen(place)):
            require(self._clock.monotonic() < deadline, f"{otherwise}; seen: {[each.text for each in found]}")
            await asyncio.sleep(LOOK_EVERY)
        return found

    async def until(
        self, holds: Callable[[], bool], otherwise: str, listener: Listener | None = None, more: float = 0.0
    ) -> None:
        deadline = self._clock.monotonic() + self.patience + more
        while not holds():
            if listener is not None and listener.failure is not None:
                raise AssertionError(f"receive() raised {listener.failure!r}") from listener.failure
            require(self._clock.monotonic() < deadline, f"{otherwise} in {self.patience + more:g} s")
            await asyncio.sleep(LOOK_EVERY)

    async def thread(self, place: Place) -> Place:
        if not isinstance(self.platform, ThreadsOnPlatform):
            raise NotOffered("the platform under test has no thread()")
        return await self.platform.thread(place)

    async def bot_says(self, place: Place, bot: str, text: str) -> str:
        if not isinstance(self.platform, BotsOnPlatform):
            raise NotOffered("the platform under test has no bot_says()")
        return await self.platform.bot_says(place, bot, text)

    async def close(self) -> None:
        for listener in self._listeners:
            await listener.stop()
        for adapter in self._adapters:
            await _closed(adapter)


async def _closed(adapter: Adapter) -> None:
    with suppress(Exception):  # the check `close` says what is wrong with it
        await adapter.close()


async def outcome(call: Awaitable[object]) -> ChatPlatformError | None:
    """What a call raised, if anything; an error that is none of the contract's fails the check."""
    try:
        await call
    except ChatPlatformError as error:
        return error
    except AssertionError:
        raise
    except Exception as error:
        raise AssertionError(f"it raised {error!r}, which is none of the contract's errors") from error
    return None


Run = Callable[[AdapterHarness], Coroutine[Any, Any, None]]


@dataclass(frozen=True, slots=True)
class AdapterCheck:
    """One promise of the contract, with what tries it."""

    name: str
    title: str
    run: Run

    def __str__(self) -> str:
        return self.name


def adapter_check(name: str, title: str) -> Callable[[Run], AdapterCheck]:
    """Make a check of a coroutine function."""
    return lambda run: AdapterCheck(name, title, run)
