"""`StatusFeed`: tells listeners how conversations stand whenever that changes, in this process or another.

What this process does is told at once. What others do is told by the `StoreWatcher`. A listener that reads
slowly gets the newest status of each conversation, and slows nobody.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection
from contextlib import suppress
from itertools import islice

from holdfast.core.errors import HostClosed, StoreClosed
from holdfast.core.events import (
    ApprovalAsked,
    AskClosed,
    Event,
    MessageAccepted,
    MessageJoined,
    Notice,
    QuestionAsked,
    SessionMoved,
    SessionRotated,
    SessionTrouble,
    TurnCompleted,
    TurnFailed,
    TurnInterrupted,
    TurnStarted,
    TurnUnfinished,
)
from holdfast.host.contract import ConversationStatus
from holdfast.host.store_watcher import StoreWatcher

logger = logging.getLogger(__name__)

STATUS_EVENTS = (
    ApprovalAsked,
    AskClosed,
    MessageAccepted,
    MessageJoined,
    Notice,
    QuestionAsked,
    SessionMoved,
    SessionRotated,
    SessionTrouble,
    TurnCompleted,
    TurnFailed,
    TurnInterrupted,
    TurnStarted,
    TurnUnfinished,
)
"""Events after which a conversation stands otherwise than before."""

MOST_KNOWN = 1_000
"""For so many conversations the last status is remembered, so that it is not told twice."""

RETRY_SECONDS = 1.0

Statuses = Callable[[Collection[str]], Awaitable[list[ConversationStatus]]]
Busy = Callable[[], Awaitable[Collection[str]]]


class _Listener:
    """The statuses that one listener has not read yet: the newest of each conversation, in order."""

    def __init__(self) -> None:
        self.unread: dict[str, ConversationStatus] = {}
        self.woken = asyncio.Event()

    def tell(self, status: ConversationStatus) -> None:
        self.unread[status.root_id] = status
        self.woken.set()


class StatusFeed:
    """The changes of all conversations. Everything on the host's loop."""

    def __init__(self, statuses: Statuses, busy: Busy, watcher: StoreWatcher) -> None:
        """`statuses` says how conversations stand now, `busy` which of them are not idle."""
        self._statuses = statuses
        self._read_busy = busy
        self._watcher = watcher
        self._listeners: set[_Listener] = set()
        self._observers: list[Callable[[Event], None]] = []
        self._touched: set[str] = set()
        self._woken = asyncio.Event()
        self._known: dict[str, ConversationStatus] = {}
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    def observe(self, observer: Callable[[Event], None]) -> None:
        """Let an observer get every event that a conversation here publishes; it must not wait."""
        self._observers.append(observer)

    def touched(self, *root_ids: str) -> None:
        """Something happened to these conversations; free when nobody listens."""
        if self._listeners:
            self._touched.update(root_ids)
            self._woken.set()

    def on_event(self, root_id: str, event: Event) -> None:
        """The same, for what a conversation publishes."""
        for observer in self._observers:
            observer(event)
        if isinstance(event, STATUS_EVENTS):
            self.touched(root_id)

    async def listen(self) -> AsyncGenerator[ConversationStatus, None]:
        """First every conversation that is not idle, then each one when it changes."""
        listener, has_ended = _Listener(), self._closed
        self._listeners.add(listener)
        try:
            with self._watcher.watch_all(self._changed):
                try:
                    await self._begin(listener)
                except HostClosed:
                    if has_ended:
                        raise
                    # The host ends while this listener begins: there is nothing more to tell.
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

    def _changed(self, root_ids: frozenset[str]) -> None:
        # Nothing is stored when a trouble ends.
        troubled = {status.root_id for status in self._known.values() if status.trouble}
        if root_ids or troubled:
            self.touched(*root_ids, *troubled)

    async def _begin(self, listener: _Listener) -> None:
        for status in await self._statuses(await self._read_busy()):
            self._known.setdefault(status.root_id, status)
            # A status that came in since the look is newer.
            listener.unread.setdefault(status.root_id, status)
        listener.woken.set()
        if self._task is None and not self._closed:
            self._task = asyncio.create_task(self._run(), name="status feed")

    async def _rest(self) -> None:
        task, self._task = self._task, None
        self._known.clear()
        self._touched.clear()
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _run(self) -> None:
        while True:
            await self._woken.wait()
            self._woken.clear()
            root_ids, self._touched = self._touched, set()
            try:
                self._tell(await self._statuses(root_ids))
            except (HostClosed, StoreClosed):
                return
            except Exception:
                logger.exception("host.statuses_not_read")
                await asyncio.sleep(RETRY_SECONDS)
                self.touched(*root_ids)

    def _tell(self, statuses: list[ConversationStatus]) -> None:
        for status in statuses:
            if self._known.get(status.root_id) == status:
                continue
            self._known.pop(status.root_id, None)
            self._known[status.root_id] = status
            for listener in self._listeners:
                listener.tell(status)
        for root_id in list(islice(self._known, max(0, len(self._known) - MOST_KNOWN))):
            del self._known[root_id]
