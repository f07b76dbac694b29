"""`CachedSession`: the session as this agent last read it, and how it is read again.

Between two turns the session may change: by another process, a compaction, an import. So each turn begins
with `refresh`, which reads the transcript again only when it is not as this agent left it.
"""

from contextlib import suppress

from holdfast.agent.running_turn import RunningTurn
from holdfast.agent.transcript import Transcript
from holdfast.core.contract import Message
from holdfast.core.errors import LeaseLost, Refused, SessionExists, WrongScope
from holdfast.process import DaemonPool, off_loop
from holdfast.sessions import SessionDB
from holdfast.sessions.contract import ConversationState
from holdfast.sessions.held_lease import HeldLease

UNREAD = -1


class CachedSession:
    """The session that the agent is in, with the transcript as far as it is known."""

    def __init__(self, db: SessionDB, pool: DaemonPool, session_id: str, *, source: str, scope: str) -> None:
        self._db = db
        self._pool = pool
        self._source = source
        self._scope = scope
        self.id = session_id
        self.transcript = Transcript()
        self.tool_profile = ""  # as it was chosen for this conversation
        self._known = UNREAD  # stored messages that the transcript holds
        self._began = UNREAD  # when the session that was read began
        self._unclosed: RunningTurn | None = None  # it ended while the store could not be written

    @property
    def is_read(self) -> bool:
        return self._known != UNREAD

    @property
    def has_unclosed_turn(self) -> bool:
        """Whether a turn ended here that is still running in the store."""
        return self._unclosed is not None

    def move(self, session_id: str) -> None:
        """The conversation goes on in another session, which `refresh` will read."""
        if session_id != self.id:
            self.id, self._known = session_id, UNREAD

    def messages_stored(self, messages: int) -> None:
        """So many more messages are on record, and in the transcript."""
        self._known += messages

    def turn_ended(self, running: RunningTurn) -> None:
        """A turn of this agent is over."""
        store = running.store
        self.id = store.session_id or self.id
        self._known = UNREAD if store.moved_on else self._known + store.stored
        self._unclosed = running if store.state == "running" else None

    async def refresh(self, lease: HeldLease | None, seen: ConversationState | None = None) -> int | None:
        """Read what is new in the store; returns the id of the oldest message that waits there.

        With `seen`, read just now under the lease, the store is not asked again.
        """
        before = self.id, self._began, self._known
        oldest = await self._reread(seen)
        if self._unclosed is not None:
            if lease is not None:
                self._unclosed.store.hold(lease)
            try:
                await self._unclosed.turn.ending.close_record(
                    untouched=before == (self.id, self._began, self._known)
                )
            except LeaseLost:
                raise  # the record is closed under the next lease
            except Refused:
                pass  # another process has closed it, or continues it
            self._unclosed = None
            oldest = await self._reread()
        return oldest

    def ensure(self) -> None:
        """Create the session unless it is stored; on a thread."""
        if not self.is_read and self._db.get_session(self.id) is None:
            with suppress(SessionExists):
                self._db.create_session(self.id, source=self._source, scope=self._scope)

    def messages(self) -> list[Message]:
        """What is stored of it now; on a thread."""
        return self._db.get_messages(self._db.sessions.live_end(self.id))

    async def _reread(self, seen: ConversationState | None = None) -> int | None:
        look = await off_loop(self._pool, self._look) if seen is None else seen
        if look.scope != self._scope:
            raise WrongScope(self.id)
        self.tool_profile = look.tool_profile
        # Deleted and begun again, it may have as many messages as before.
        if (look.live, look.started, look.messages) != (self.id, self._began, self._known):
            messages = await off_loop(self._pool, self._db.get_messages, look.live) if look.messages else []
            self.id, self._began, self._known = look.live, look.started, len(messages)
            self.transcript.begin_anew(messages)
        first = look.first()
        return first.id if first else None

    def _look(self) -> ConversationState:
        self.ensure()
        return self._db.conversations.state(self.id)
