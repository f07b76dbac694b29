"""Compaction: a conversation that nears the model's window goes on in a child session, summarised.

The order keeps every promise of C: take the lock in the store, summarise, then rotate in one transaction.
A process that does not get the lock gets its messages back as they were and calls no summariser. If locking
itself is broken, compaction goes on without it, and the store's constraint still allows one child only.
"""

import asyncio
import inspect
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.agent.agent_memory import AgentMemory
from holdfast.agent.contract import Compressor
from holdfast.agent.message_repair import repaired
from holdfast.agent.store_retry import StoreRetry
from holdfast.agent.summary import MechanicalCompressor
from holdfast.agent.system_text import with_system
from holdfast.agent.transcript import Transcript, estimate_all
from holdfast.agent.visible import visible
from holdfast.core.contract import Message
from holdfast.core.errors import AlreadyContinued, HoldfastError, LeaseLost
from holdfast.core.ids import new_id
from holdfast.process import DaemonPool, off_loop
from holdfast.process.cancellation import finish_despite_cancel, is_cancelled
from holdfast.sessions import SessionDB
from holdfast.sessions.codec import encode
from holdfast.sessions.held_lease import HeldLease

logger = logging.getLogger(__name__)

WORTH_IT = 0.9
"""A compaction must bring the conversation below this share of its size."""
GROWN = 1.1
"""After one that did not, the conversation must grow by this factor before another is tried."""
WITHOUT_LOCK = (
    "compaction.without_lock: this store's lock does not work, so compaction goes on without it. "
    "Update Holdfast and what its store runs on, then restart it"
)
KEEP = 0.5
"""The share of the threshold, and of its own size, that a compacted conversation should fit."""


@dataclass(frozen=True, slots=True)
class Compacted:
    """What became of a compaction: the messages to go on with, the session they are in, and a word."""

    messages: list[Message]
    session_id: str
    said: str


class Compaction:
    """Compacts one agent's conversation. `compressor` may be replaced."""

    def __init__(
        self,
        db: SessionDB,
        pool: DaemonPool,
        memory: AgentMemory,
        compressor: Compressor,
        threshold: int,
        retry: StoreRetry,
    ) -> None:
        self._db = db
        self._pool = pool
        self._memory = memory
        self._retry = retry
        self.compressor = compressor
        self.threshold = threshold
        self._not_before = 0
        self._said_lockless = False

    def is_due(self, tokens: int) -> bool:
        return tokens >= max(self.threshold, self._not_before)

    async def compress(
        self,
        session_id: str,
        messages: Sequence[Message] | None = None,
        *,
        tokens: int | None = None,
        focus: str = "",
        lease: HeldLease | None = None,
    ) -> Compacted:
        """Summarise the conversation, as given or as stored, and go on in a child that begins with that.

        With the conversation's `lease`, only while nobody else has taken it.
        """
        holder = f"compaction-{new_id()}"
        locked = await self._lock(session_id, holder)
        if locked is False:
            given = await self._given(session_id, messages)
            return Compacted(given, session_id, "another compaction of this session is running")
        try:
            return await self._compress_locked(
                session_id, messages, tokens or 0, focus, _Fence(holder if locked else None, lease)
            )
        finally:
            if locked:
                await self._unlock(session_id, holder)

    async def _given(self, session_id: str, messages: Sequence[Message] | None) -> list[Message]:
        if messages is not None:
            return list(messages)
        return await off_loop(self._pool, self._db.get_messages, session_id)

    async def _lock(self, session_id: str, holder: str) -> bool | None:
        """Whether the lock was taken; None when locking itself is broken."""
        try:
            take_lock = self._db.try_acquire_compression_lock
            return await finish_despite_cancel(off_loop(self._pool, take_lock, session_id, holder))
        except Exception:
            # Without a lock the store's constraint still allows one child only.
            if not self._said_lockless:
                self._said_lockless = True
                logger.exception(WITHOUT_LOCK, extra={"session": session_id})
            return None

    async def _unlock(self, session_id: str, holder: str) -> None:
        """Let go of the lock. What became of the compaction stands, whatever a store raises here."""
        try:
            await finish_despite_cancel(
                off_loop(self._pool, self._db.release_compression_lock, session_id, holder)
            )
        except Exception:
            # The lease runs out by itself.
            logger.warning("compaction.lock_not_released", exc_info=True, extra={"session": session_id})

    async def _compress_locked(
        self,
        session_id: str,
        given: Sequence[Message] | None,
        tokens: int,
        focus: str,
        fence: "_Fence",
    ) -> Compacted:
        session = await off_loop(self._pool, self._db.get_session, session_id)
        stored = await off_loop(self._pool, self._db.get_messages, session_id)
        messages = list(stored if given is None else given)
        seen = [message for _, message in visible(messages)]
        if session is not None and session.ended is not None:
            return Compacted(messages, session_id, "this session has been continued by another already")
        notes = await self._memory.before_compaction(session_id, seen, self.threshold)
        shrunk, how = await self._shrink(seen, focus, notes)
        shrunk = _with_system_of(seen, shrunk)
        before, after = estimate_all(seen), estimate_all(shrunk)
        # Until it has grown again, another attempt would end the same way.
        self._not_before = int(max(after, after * tokens / max(before, 1)) * GROWN)
        if after >= WORTH_IT * before and len(shrunk) >= len(seen):
            return Compacted(messages, session_id, f"{how} did not shrink the conversation")
        opening, carry_from = _opening(stored, seen, shrunk)
        plan = _Plan(session_id, opening, carry_from, how)
        return await self._retry.until_stored(lambda: self._rotate(plan, messages, fence))

    async def _shrink(self, messages: list[Message], focus: str, notes: str) -> tuple[list[Message], str]:
        """The compressor's work, or the mechanical one when it fails."""
        # A server may have a smaller window than it says: what is compacted is halved at least.
        budget = min(int(self.threshold * KEEP), int(estimate_all(messages) * KEEP))
        hints: dict[str, Any] = {"focus": focus, "notes": notes, "budget": budget}
        try:
            shrunk = _checked(await self._run(messages, hints))
        except (Exception, asyncio.CancelledError) as problem:
            if isinstance(problem, asyncio.CancelledError) and is_cancelled():
                raise
            logger.exception("compaction.summary_failed")
            return MechanicalCompressor().compress(messages, **hints), "the mechanical summary"
        return shrunk, "the summary"

    async def _run(self, messages: list[Message], hints: dict[str, Any]) -> list[Message]:
        compress = self.compressor.compress
        fitting = {name: hint for name, hint in hints.items() if _takes(compress, name)}
        given = [message.copy() for message in messages]
        if inspect.iscoroutinefunction(compress):
            return list(await compress(given, **fitting))
        result = await off_loop(self._pool, compress, given, **fitting)
        return list(await result if inspect.isawaitable(result) else result)

    async def _rotate(self, plan: "_Plan", messages: list[Message], fence: "_Fence") -> Compacted:
        """Move to the child. What the summary kept verbatim, and all that came since, is carried over."""
        child_id, how = new_id(), plan.how
        try:
            await off_loop(
                self._pool,
                self._db.rotate,
                plan.session_id,
                child_id,
                plan.opening,
                carry_from=plan.carry_from,
                holder=fence.holder,
                lease=fence.lease,
            )
        except AlreadyContinued as winner:
            child_id = await off_loop(self._pool, self._db.sessions.live_end, winner.child_id)
            how = "another compaction came first; its summary"
        except LeaseLost:
            return Compacted(messages, plan.session_id, "the lock was lost while the summary was written")
        self._memory.moved(plan.session_id, child_id)
        carried = await off_loop(self._pool, self._db.get_messages, child_id)
        return Compacted(carried, child_id, f"{how} took the place of the older messages")


@dataclass(frozen=True, slots=True)
class _Fence:
    """What must still be held when the conversation moves: whoever lost it leaves the conversation alone."""

    holder: str | None
    """Of the compression lock; None when locking itself is broken."""
    lease: HeldLease | None
    """The conversation's; another node that took it runs turns there."""


@dataclass(frozen=True, slots=True)
class _Plan:
    session_id: str
    opening: list[Message]
    carry_from: int
    """The place of the first stored message that follows the opening."""
    how: str


def _opening(
    stored: Sequence[Message], seen: Sequence[Message], shrunk: list[Message]
) -> tuple[list[Message], int]:
    """What the child begins with, and from which place on it has the stored messages themselves."""
    known = visible(stored)
    reached = covered([message for _, message in known], seen)
    # What models see changed is stored as they see it: a note left behind changes nothing any more.
    unchanged = [message if repaired(stored[place]) == message else None for place, message in known]
    verbatim = common_tail(unchanged[:reached], shrunk)
    first = reached - verbatim
    carry_from = known[first][0] if first < len(known) else len(stored)
    return shrunk[: len(shrunk) - verbatim], carry_from


def covered(stored: Sequence[Message], messages: Sequence[Message]) -> int:
    """How many stored messages the given ones reach up to; what is stored past them came later.

    Where the last one given stands more than once, what was said before it decides; in doubt the earlier
    place, so that nothing is left behind.
    """
    if stored[: len(messages)] == list(messages):
        return len(messages)
    ends = [place for place, each in enumerate(stored, 1) if messages and each == messages[-1]]
    return max(ends, key=lambda end: (common_tail(stored[:end], messages), -end), default=len(stored))


def common_tail(stored: Sequence[Message | None], shrunk: Sequence[Message]) -> int:
    """How many messages at the end of both are the same."""
    same = 0
    while same < min(len(stored), len(shrunk)) and stored[-1 - same] == shrunk[-1 - same]:
        same += 1
    return same


def _with_system_of(seen: Sequence[Message], shrunk: list[Message]) -> list[Message]:
    """The shrunk messages; the session's system text goes on with the first when the summary lost it."""
    system = Transcript(seen).system
    if Transcript(shrunk).system == system:
        return shrunk
    return [with_system(shrunk[0], system), *shrunk[1:]]


def _takes(function: Callable[..., Any], name: str) -> bool:
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False
    return name in parameters or any(each.kind is each.VAR_KEYWORD for each in parameters.values())


def _checked(messages: list[Any]) -> list[Message]:
    """What a compressor returned, if a conversation can go on with it."""
    if not messages or not all(isinstance(each, dict) and each.get("role") for each in messages):
        raise HoldfastError("the compressor returned something that is no list of messages")
    whole = [repaired(message) for message in messages]
    for message in whole:
        encode(message)  # raises what the store would refuse
    return whole
