"""`RequestedCompaction`: a compaction that a person asks for between turns, and may interrupt."""

import asyncio
from contextlib import suppress

from holdfast.agent.cached_session import CachedSession
from holdfast.agent.compaction import Compacted, Compaction
from holdfast.agent.usage_meter import UsageMeter
from holdfast.core.events import INTERRUPTED, CompactionFinished, CompactionStarted, Emit, SessionRotated
from holdfast.process import DaemonPool, off_loop
from holdfast.process.cancellation import is_cancelled
from holdfast.sessions import SessionDB
from holdfast.sessions.held_lease import HeldLease


class RequestedCompaction:
    """Compacts the session as stored, and says what happens. On the agent's loop, but for `interrupt`."""

    def __init__(
        self,
        db: SessionDB,
        pool: DaemonPool,
        session: CachedSession,
        compaction: Compaction,
        meter: UsageMeter,
    ) -> None:
        self._db = db
        self._pool = pool
        self._session = session
        self._compaction = compaction
        self._meter = meter
        self._task: asyncio.Task[Compacted] | None = None

    def interrupt(self) -> None:
        """Stop it, from any thread; does nothing when none runs."""
        if (running := self._task) is not None:
            with suppress(RuntimeError):  # its loop is closed: so is the compaction
                running.get_loop().call_soon_threadsafe(running.cancel)

    async def run(self, emit: Emit, focus: str, lease: HeldLease | None) -> None:
        """Compact, emit what happens, and store what the summary used."""
        session = self._session
        await session.refresh(lease)
        parent, before = session.id, session.transcript.tokens
        emit(CompactionStarted(session_id=parent, turn_id="", tokens=before))
        self._task = asyncio.create_task(
            self._compaction.compress(parent, tokens=before, focus=focus, lease=lease),
            name=f"compaction {parent}",
        )
        try:
            said = (await self._task).said
        except asyncio.CancelledError:
            if is_cancelled():
                raise
            said = INTERRUPTED
        finally:
            self._task = None
        await session.refresh(lease)
        used = self._meter.entries
        await off_loop(self._pool, self._db.usage.record, session.id, used)
        self._meter.stored(used)
        if session.id != parent:
            emit(SessionRotated(session_id=parent, turn_id="", child_id=session.id))
        emit(
            CompactionFinished(
                session_id=session.id,
                turn_id="",
                outcome=said,
                tokens_before=before,
                tokens_after=session.transcript.tokens,
            )
        )
