"""`Recovery`: at the start, takes care of what earlier processes left: uncommitted memory and cut-off turns.

It works in the background and does not delay the first prompt. Deliveries need nothing
here: a provider's lane finds what it is owed by itself.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import ParamSpec, TypeVar

from holdfast.agent import Unfinished
from holdfast.agent.recovery import describe
from holdfast.core.events import TurnUnfinished
from holdfast.host.ask_records import unread_answers
from holdfast.host.contract import HostParts
from holdfast.host.conversations import Conversations
from holdfast.host.holders import ExpiredLeases, is_used, living_holder
from holdfast.host.subagents import close_subagent, open_subagents
from holdfast.host.takeover import Takeover
from holdfast.process import off_loop

logger = logging.getLogger(__name__)

T = TypeVar("T")
P = ParamSpec("P")

LONGEST_PAUSE = 300.0


class Recovery:
    """The look at what others left."""

    def __init__(self, parts: HostParts, conversations: Conversations) -> None:
        self._parts = parts
        self._open = conversations.open
        self._commit = conversations.commit
        self._holder = conversations.holder
        self._is_ours = conversations.agents.__contains__
        self._takeover = Takeover(parts, conversations) if parts.options.recovers else None
        self._expired = ExpiredLeases(parts.db, parts.clock)
        self._offered: set[str] = set()
        self.done = False

    async def run(self) -> None:
        """Look at once, and again at what a process that died a moment ago still seems to hold."""
        left = await self._look(None)
        self.done = True
        watching = None if self._takeover is None else asyncio.create_task(self._takeover.watch())
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

    async def leave(self) -> None:
        """Take nothing over any more: this process is ending, and hands its conversations to others."""
        if self._takeover is not None:
            await self._takeover.leave()

    async def _look(self, only: set[str] | None) -> set[str]:
        """All there is, or only these conversations; returns those to be looked at again."""
        if only is None:
            await self._guarded(self._asks)
        held = await self._guarded(self._end_subagents) or set()
        if self._takeover is not None:
            await self._guarded(self._takeover.look)
        else:
            held |= await self._guarded(self._unfinished) or set()
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
        """Offer each turn that was cut off, once; returns the conversations that somebody seems to run."""
        held: set[str] = set()
        for turn in await self._call(self._parts.db.turns.unfinished):
            if await self._call(self._is_held, turn.session_id):
                held.add(await self._root(turn.session_id))  # it runs, or its process died a moment ago
                continue
            found = await self._call(self.cut_off, turn.session_id)
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

    async def _end_subagents(self) -> set[str]:
        """End those whose process died; returns the conversations of the others."""
        held: set[str] = set()
        for session_id, served in await self._call(open_subagents, self._parts.db):
            if await self._call(self._is_held, served):
                held.add(served)
            else:
                await close_subagent(self._parts, session_id)
        return held

    async def _asks(self) -> None:
        """An answer that came in the moment when its turn's process died becomes a waiting message."""
        for turn_id in await self._call(self._parts.db.asks.left_behind):
            await self._call(self._parts.db.asks.settle, turn_id, unread_answers)

    async def _uncommitted(self, only: set[str] | None) -> set[str]:
        left: set[str] = set()
        roots = await self._dirty()
        # A conversation is committed as a whole, whichever of its sessions are dirty.
        for root_id in dict.fromkeys(roots):
            # A conversation that goes on here is committed as a whole at its own next boundary.
            if self._is_ours(root_id) or (only is not None and root_id not in only):
                continue
            if await self._call(is_used, self._parts.db, root_id, by_others_than=self._holder):
                left.add(root_id)  # its own process commits it, if it lives
                continue
            await self._commit(await self._open(root_id))
            if root_id in await self._dirty():
                left.add(root_id)  # a provider could not take it yet
        return left

    async def _dirty(self) -> list[str]:
        return [await self._root(each) for each in await self._call(self._parts.lifecycle.recover)]

    async def _root(self, session_id: str) -> str:
        return (await self._call(self._parts.db.sessions.lineage, session_id))[0]

    async def _call(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await off_loop(self._parts.pools.store, fn, *args, **kwargs)

    def cut_off(self, session_id: str) -> Unfinished | None:
        """The turn of this conversation whose process is gone; None when none is open, or somebody runs it.

        On a thread.
        """
        db = self._parts.db
        root = db.get_session(db.sessions.root(session_id))
        if root is not None and root.relation == "delegate":
            return None  # a subagent's turn ends with its caller's
        turn = db.turns.running(db.sessions.live_end(session_id))
        if turn is None or self._is_held(session_id):
            return None
        found = describe(db.turns, turn)
        # It may have ended between the looks.
        still = db.turns.get(turn.id)
        return found if still is not None and still.state == "running" else None

    def cut_off_sessions(self) -> list[str]:
        """The sessions whose turn lost its process. On a thread."""
        sessions = [turn.session_id for turn in self._parts.db.turns.unfinished()]
        return [each for each in sessions if self.cut_off(each) is not None]

    def _is_held(self, session_id: str) -> bool:
        """Whether somebody runs the conversation, or may be about to take it up again; on a thread."""
        if living_holder(self._parts.db, session_id) is not None:
            return True
        return self._expired.holder_of(session_id) is not None
