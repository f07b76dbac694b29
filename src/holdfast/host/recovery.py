"""What a new start finds of earlier lives: owed deliveries, uncommitted memory, cut-off turns, waiting words.

All of it is looked after in the background; none of it delays the first prompt. Deliveries need nothing
here: a provider's lane finds what it is owed by itself.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import ParamSpec, TypeVar

from holdfast.agent import Unfinished
from holdfast.agent.recovery import describe
from holdfast.core.events import TurnUnfinished
from holdfast.host.asks import unheard
from holdfast.host.contract import HostParts
from holdfast.host.conversation import Conversation
from holdfast.host.holders import living_holder
from holdfast.process import off_loop
from holdfast.sessions import SessionDB

logger = logging.getLogger(__name__)

T = TypeVar("T")
P = ParamSpec("P")

WATCH_SECONDS = 5.0
"""How often a host that takes over looks for what a dead process left."""

LONGEST_PAUSE = 300.0

Open = Callable[[str], Awaitable[Conversation]]
Commit = Callable[[Conversation], Awaitable[None]]


class Recovery:
    """The look at what others left."""

    def __init__(
        self, parts: HostParts, open_one: Open, commit: Commit, is_ours: Callable[[str], bool]
    ) -> None:
        """`is_ours` says of a conversation, by its root, whether this process has an agent for it."""
        self._parts = parts
        self._open = open_one
        self._commit = commit
        self._is_ours = is_ours
        self._offered: set[str] = set()
        self.done = False

    async def run(self) -> None:
        """Look at once, and again at what a process that died a moment ago still seems to hold."""
        left = await self._look(None)
        self.done = True
        watching = asyncio.create_task(self._watch()) if self._parts.options.take_over else None
        try:
            pause = self._parts.db.lease_seconds
            while left:
                await asyncio.sleep(pause)
                left = await self._look(left)
                pause = min(2 * pause, LONGEST_PAUSE)
            if watching is not None:
                await watching
        finally:
            if watching is not None:
                watching.cancel()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(min(WATCH_SECONDS, self._parts.db.lease_seconds))
            await self._guarded(self._unfinished)
            await self._guarded(self._waiting)

    async def _look(self, only: set[str] | None) -> set[str]:
        """All there is, or only these conversations; returns those to be looked at again."""
        if only is None:
            await self._guarded(self._asks)
            await self._guarded(self._waiting)
        held = await self._guarded(self._unfinished) or set()
        if only is not None:
            held &= only
        return held | (await self._guarded(lambda: self._uncommitted(only)) or set())

    async def _guarded(self, look: Callable[[], Awaitable[T]]) -> T | None:
        """One look; when it fails, the others still happen."""
        try:
            return await look()
        except Exception:
            logger.exception("host.recovery_failed")
            return None

    async def _unfinished(self) -> set[str]:
        held: set[str] = set()
        for turn in await self._call(self._parts.db.turns.unfinished):
            serves = await self._call(self._serves, turn.session_id)
            if await self._call(living_holder, self._parts.db, serves) is not None:
                held.add(await self._root(serves))  # it runs, or its process died a moment ago
                continue
            if serves != turn.session_id:
                await self._end_subagent(turn.session_id)
                continue
            found = await self._call(cut_off, self._parts.db, turn.session_id)
            if found is None or found.turn_id in self._offered:
                continue
            self._offered.add(found.turn_id)
            conversation = await self._open(found.session_id)
            conversation.stream.publish(
                TurnUnfinished(
                    session_id=found.session_id,
                    turn_id=found.turn_id,
                    text=found.said,
                    open_calls=found.open_calls,
                )
            )
        return held

    def _serves(self, session_id: str) -> str:
        """The conversation a session works for: its own, or the one that delegated to it."""
        root = self._parts.db.get_session(self._parts.db.lineage(session_id)[0])
        while root is not None and root.relation == "delegate" and root.parent is not None:
            session_id = root.parent
            root = self._parts.db.get_session(self._parts.db.lineage(session_id)[0])
        return session_id

    async def _end_subagent(self, session_id: str) -> None:
        """A subagent ended with its parent's process. Nobody resumes it; its record is closed."""
        conversation = await self._open(session_id)
        await self._parts.make_agent(session_id, conversation.questions).drop()

    async def _asks(self) -> None:
        """What was answered to a turn in the moment its process died waits as a message."""
        for turn_id in await self._call(self._parts.db.asks.left_behind):
            await self._call(self._parts.db.asks.settle, turn_id, unheard)

    async def _waiting(self) -> None:
        for session_id in await self._call(self._parts.db.inbox.sessions):
            conversation = await self._open(session_id)
            if self._parts.options.take_over:
                conversation.poke()

    async def _uncommitted(self, only: set[str] | None) -> set[str]:
        left: set[str] = set()
        roots = await self._dirty()
        # A conversation is committed as a whole, whichever of its sessions are dirty.
        for root_id in dict.fromkeys(roots):
            # One that goes on here has a boundary of its own to come, which commits all of it.
            if self._is_ours(root_id) or (only is not None and root_id not in only):
                continue
            if await self._call(living_holder, self._parts.db, root_id) is not None:
                left.add(root_id)  # its own process commits it, if it lives
                continue
            await self._commit(await self._open(root_id))
            if root_id in await self._dirty():
                left.add(root_id)  # a provider could not take it yet
        return left

    async def _dirty(self) -> list[str]:
        return [await self._root(each) for each in await self._call(self._parts.lifecycle.recover)]

    async def _root(self, session_id: str) -> str:
        return (await self._call(self._parts.db.lineage, session_id))[0]

    async def _call(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await off_loop(self._parts.pools.store, fn, *args, **kwargs)


def cut_off(db: SessionDB, session_id: str) -> Unfinished | None:
    """The turn of this conversation whose process is gone; None when none is open, or somebody runs it."""
    turn = db.turns.running(db.live_end(session_id))
    if turn is None or living_holder(db, session_id) is not None:
        return None
    found = describe(db.turns, turn)
    # It may have ended between the looks.
    still = db.turns.get(turn.id)
    return found if still is not None and still.state == "running" else None
