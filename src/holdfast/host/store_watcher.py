"""`StoreWatcher`: learns from the store what other processes did, and tells those in this process.

One task asks the store with one statement (`ActivityReader`), and only while somebody is subscribed: a turn
that runs here may be interrupted or answered by another process, a conversation that is read here may be run
by another one, and a list shows all of them. A store that tells of changes by itself (`Notifications`) makes
it look at once; looking every few moments is then the fallback. Looks that follow each other take a tenth of
the time at most.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial

from holdfast.core.errors import StoreClosed
from holdfast.process import DaemonPool, is_provably_gone, off_loop
from holdfast.sessions import SessionDB
from holdfast.sessions.activity import Activity, ActivityMark
from holdfast.tools.open_questions import OpenQuestions

logger = logging.getLogger(__name__)

SHORTEST_PAUSE = 0.01
REST_PER_LOOK = 9
"""How much longer than a look is the rest after it, however much other processes store."""
LIST_POLLS = 4
"""How many polls pass between two looks while only lists of conversations wait for one."""


@dataclass(frozen=True, slots=True, eq=False)
class WatchedTurn:
    """A conversation whose turn runs here: what other processes may have to say to that turn."""

    turn: Callable[[], str | None]
    """The turn that runs now."""
    interrupt: Callable[[str], object]
    questions: OpenQuestions


class StoreWatcher:
    """Tells its subscribers what happened in the store. Everything on the host's loop."""

    def __init__(self, db: SessionDB, pool: DaemonPool, poll_seconds: float) -> None:
        self._db = db
        self._pool = pool
        self._poll_seconds = poll_seconds
        self._turns: set[WatchedTurn] = set()
        self._conversations: dict[str, asyncio.Event] = {}
        self._lists: set[Callable[[frozenset[str]], None]] = set()
        self._last = Activity()
        self._since: int | None = None
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @contextmanager
    def watch_turn(self, turn: WatchedTurn) -> Iterator[None]:
        """While inside, interrupts and answers from other processes reach this turn."""
        self._turns.add(turn)
        with self._subscribed():
            try:
                yield
            finally:
                self._turns.discard(turn)

    @contextmanager
    def watch_conversation(self, root_id: str, changed: asyncio.Event) -> Iterator[None]:
        """While inside, `changed` is set when something is stored here, or another process holds it.

        To miss nothing, a subscriber looks at the conversation after it has entered.
        """
        self._conversations[root_id] = changed
        with self._subscribed():
            try:
                yield
            finally:
                # A deleted conversation may be followed by another one of the same name.
                if self._conversations.get(root_id) is changed:
                    del self._conversations[root_id]

    @contextmanager
    def watch_all(self, changed: Callable[[frozenset[str]], None]) -> Iterator[None]:
        """While inside, `changed` gets the roots of the conversations that changed, at each look."""
        self._lists.add(changed)
        with self._subscribed():
            try:
                yield
            finally:
                self._lists.discard(changed)

    @contextmanager
    def _subscribed(self) -> Iterator[None]:
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name="store watcher")
        try:
            yield
        finally:
            self._stop_if_unused()

    def _stop_if_unused(self) -> None:
        if self._task is not None and not (self._turns or self._conversations or self._lists):
            self._task.cancel()
            self._task = None

    async def _run(self) -> None:
        # Subscribers find what happened before by themselves: they look after they have entered.
        self._last, self._since = Activity(), None
        self._woken.clear()
        loop = asyncio.get_running_loop()
        stop = self._db.notifications.subscribe(partial(wake, loop, self._woken))
        try:
            await self._look_on(loop)
        finally:
            stop()

    async def _look_on(self, loop: asyncio.AbstractEventLoop) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._pause()):
                    await self._woken.wait()
            self._woken.clear()
            began = loop.time()
            try:
                activity = await off_loop(self._pool, self._read, self._since)
            except StoreClosed:
                return
            except Exception:
                logger.warning("host.store_not_watched", exc_info=True)
                continue
            self._tell(activity)
            if self._db.notifications.is_listening:
                await asyncio.sleep(max(SHORTEST_PAUSE, REST_PER_LOOK * (loop.time() - began)))

    def _pause(self) -> float:
        only_lists = not self._turns and not self._conversations
        return self._poll_seconds * (LIST_POLLS if only_lists else 1)

    def _read(self, since: int | None) -> Activity:
        """One look; a holder whose process is provably gone holds nothing. On a thread."""
        found = self._db.activity.read(since)
        dead = {holder for holder in _holders(found) if is_provably_gone(holder)}
        if not dead:
            return found
        return replace(found, busy=_without(found.busy, dead), recent=_without(found.recent, dead))

    def _tell(self, now: Activity) -> None:
        before, self._last, self._since = self._last, now, now.now
        # One that is not busy any more has changed as well; one that is no longer recent has not.
        differing = (before.busy.items() ^ now.busy.items()) | (now.recent.items() - before.recent.items())
        changed = frozenset(root_id for root_id, _ in differing)
        for root_id in changed & self._conversations.keys():
            self._conversations[root_id].set()
        for each in list(self._lists):
            each(changed)
        running = {turn: each for each in self._turns if (turn := each.turn()) is not None}
        for turn in now.interrupted & running.keys():
            running[turn].interrupt(turn)
        for answer in now.answers:
            if answer.turn_id in running:
                running[answer.turn_id].questions.answer(answer.ask_id, answer.text)


def wake(loop: asyncio.AbstractEventLoop, woken: asyncio.Event, note: str) -> None:
    """Look now: another process stored something. On a thread; the loop may have ended."""
    if not note and not woken.is_set():
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(woken.set)


def _holders(found: Activity) -> set[str]:
    return {mark.holder for marks in (found.busy, found.recent) for mark in marks.values() if mark.holder}


def _without(marks: dict[str, ActivityMark], dead: set[str]) -> dict[str, ActivityMark]:
    return {
        root_id: replace(mark, holder="") if mark.holder in dead else mark for root_id, mark in marks.items()
    }
