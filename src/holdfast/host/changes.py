"""`Changes`: tells listeners how conversations stand whenever that changes, in this process or another.

What this process does is told at once. What others do is looked for in the store, only while somebody
listens. A listener that reads slowly gets the newest of each conversation, and slows nobody.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection
from contextlib import suppress

from holdfast.core.errors import HostClosed, StoreClosed
from holdfast.core.events import (
    ApprovalAsked,
    AskClosed,
    Event,
    MessageAccepted,
    MessageJoined,
    QuestionAsked,
    SessionMoved,
    SessionRotated,
    TurnCompleted,
    TurnFailed,
    TurnInterrupted,
    TurnStarted,
    TurnUnfinished,
)
from holdfast.host.contract import SessionChange
from holdfast.host.pulse import Pulse
from holdfast.sessions import News

logger = logging.getLogger(__name__)

NEWSWORTHY = (
    ApprovalAsked,
    AskClosed,
    MessageAccepted,
    MessageJoined,
    QuestionAsked,
    SessionMoved,
    SessionRotated,
    TurnCompleted,
    TurnFailed,
    TurnInterrupted,
    TurnStarted,
    TurnUnfinished,
)
"""Events after which a conversation stands otherwise than before."""

Standing = Callable[[Collection[str]], Awaitable[list[SessionChange]]]
Look = Callable[[int | None], Awaitable[News]]


class _Listener:
    """What one listener has not read yet: the newest of each conversation, in the order it came up."""

    def __init__(self) -> None:
        self.unread: dict[str, SessionChange] = {}
        self.woken = asyncio.Event()

    def tell(self, change: SessionChange) -> None:
        self.unread[change.root_id] = change
        self.woken.set()


class Changes:
    """The changes of all conversations. Everything on the host's loop."""

    def __init__(self, standing: Standing, look: Look, poll_seconds: float, pulse: Pulse) -> None:
        """`standing` says how conversations stand now, `look` which of them something happened to."""
        self._standing = standing
        self._look = look
        self._poll_seconds = poll_seconds
        self.pulse = pulse
        self._listeners: set[_Listener] = set()
        self._watchers: list[Callable[[Event], None]] = []
        self._touched: set[str] = set()
        self._woken = asyncio.Event()
        self._known: dict[str, SessionChange] = {}
        self._busy: frozenset[str] = frozenset()
        self._seen: int | None = None
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    def watch(self, watcher: Callable[[Event], None]) -> None:
        """Let somebody hear every event; they must not wait."""
        self._watchers.append(watcher)

    def touched(self, root_id: str) -> None:
        """Something happened to a conversation; free when nobody listens."""
        if self._listeners:
            self._touched.add(root_id)
            self._woken.set()

    def heard(self, root_id: str, event: Event) -> None:
        """The same, for what a conversation publishes."""
        for watcher in self._watchers:
            watcher(event)
        if isinstance(event, NEWSWORTHY):
            self.touched(root_id)

    async def listen(self) -> AsyncGenerator[SessionChange, None]:
        """First every conversation that is not idle, then each one when it changes."""
        listener = _Listener()
        self._listeners.add(listener)
        try:
            await self._begin(listener)
            while not self._closed:
                while listener.unread:
                    yield listener.unread.pop(next(iter(listener.unread)))
                listener.woken.clear()
                await listener.woken.wait()
        finally:
            self._listeners.discard(listener)
            if not self._listeners:
                await self._rest()

    async def close(self) -> None:
        """Nothing more is told; listeners end."""
        self._closed = True
        for listener in self._listeners:
            listener.woken.set()
        await self._rest()

    async def _begin(self, listener: _Listener) -> None:
        news = await self._look(None)
        if self._seen is None:
            self._seen, self._busy = news.now, news.busy
        for change in await self._standing(news.busy):
            self._known.setdefault(change.root_id, change)
            # What came up since the look is newer.
            listener.unread.setdefault(change.root_id, change)
        listener.woken.set()
        if self._task is None and not self._closed:
            self._task = asyncio.create_task(self._run(), name="session changes")

    async def _rest(self) -> None:
        task, self._task = self._task, None
        self._known.clear()
        self._touched.clear()
        self._seen = None
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time() + self._poll_seconds
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, due - loop.time())):
                    await self._woken.wait()
            self._woken.clear()
            roots, self._touched = self._touched, set()
            try:
                if loop.time() >= due:
                    roots = roots | await self._happened_elsewhere()
                    due = loop.time() + self._poll_seconds
                if roots:
                    self._tell(await self._standing(roots))
            except (HostClosed, StoreClosed):
                return
            except Exception:
                logger.exception("host.changes_not_read")
                self._touched |= roots
                due = loop.time() + self._poll_seconds

    async def _happened_elsewhere(self) -> set[str]:
        news = await self._look(self._seen)
        # One that is busy no longer has changed too.
        before, self._busy, self._seen = self._busy, news.busy, news.now
        return set(news.changed | news.busy | before)

    def _tell(self, changes: list[SessionChange]) -> None:
        for change in changes:
            if self._known.get(change.root_id) == change:
                continue
            self._known[change.root_id] = change
            for listener in self._listeners:
                listener.tell(change)
