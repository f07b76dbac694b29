"""`KnownSession`: the session as this agent last read it, and the way to read it again.

Others may go on with a session between two turns: another process, a compaction, an import. So each turn
begins with a look, which reads the transcript anew only when it is not what this agent has left.
"""

from contextlib import suppress

from holdfast.agent.running import RunningTurn
from holdfast.agent.transcript import Transcript
from holdfast.core.contract import Message
from holdfast.core.errors import LeaseLost, Refused, SessionExists
from holdfast.process import DaemonPool, off_loop
from holdfast.sessions import SessionDB
from holdfast.sessions.contract import Lease, Look

UNREAD = -1


class KnownSession:
    """Where the agent is, and what was said there as far as it knows."""

    def __init__(self, db: SessionDB, pool: DaemonPool, session_id: str, source: str) -> None:
        self._db = db
        self._pool = pool
        self._source = source
        self.id = session_id
        self.transcript = Transcript()
        self._known = UNREAD  # stored messages that the transcript holds
        self._left_open: RunningTurn | None = None  # ended here, while the store could not be written

    @property
    def is_read(self) -> bool:
        return self._known != UNREAD

    @property
    def has_left_open(self) -> bool:
        """Whether a turn has ended here that the store still has as running."""
        return self._left_open is not None

    def move(self, session_id: str) -> None:
        """The conversation goes on in another session, which is read at the next look."""
        if session_id != self.id:
            self.id, self._known = session_id, UNREAD

    def stored(self, messages: int) -> None:
        """So many more messages are on record, and in the transcript."""
        self._known += messages

    def ended(self, running: RunningTurn) -> None:
        """A turn of this agent is over."""
        store = running.store
        self.id = store.session_id or self.id
        self._known = UNREAD if store.moved_on else self._known + store.stored
        self._left_open = running if store.state == "running" else None

    async def look(self, lease: Lease | None, seen: Look | None = None) -> int | None:
        """Know the session as it is stored now; returns the oldest message that waits in it.

        A look that somebody has `seen` just now under the lease spares another.
        """
        oldest = await self._reread(seen)
        if self._left_open is not None:
            if lease is not None:
                self._left_open.store.hold(lease)
            try:
                await self._left_open.turn.close_record()
            except LeaseLost:
                raise  # it is closed under the next lease
            except Refused:
                pass  # somebody else has closed it, or goes on with it
            self._left_open = None
            oldest = await self._reread()
        return oldest

    def ensure(self) -> None:
        """Have the session on record; on a thread."""
        if not self.is_read and self._db.get_session(self.id) is None:
            with suppress(SessionExists):
                self._db.create_session(self.id, source=self._source)

    def messages(self) -> list[Message]:
        """What is stored of it now; on a thread."""
        return self._db.get_messages(self._db.live_end(self.id))

    async def _reread(self, seen: Look | None = None) -> int | None:
        look = await off_loop(self._pool, self._look) if seen is None else seen
        if (look.live, look.messages) != (self.id, self._known):
            messages = await off_loop(self._pool, self._db.get_messages, look.live) if look.messages else []
            self.id, self._known = look.live, len(messages)
            self.transcript.begin_anew(messages)
        first = look.first()
        return first.id if first else None

    def _look(self) -> Look:
        self.ensure()
        return self._db.look(self.id)
