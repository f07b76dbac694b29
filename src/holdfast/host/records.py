"""`Records`: what a host answers and does with the store alone, whether a conversation runs or not.

`Host` adds to this what needs a conversation's runner. Each change is told to those who listen to
`Host.changes`.
"""

from collections.abc import Callable, Iterable

from holdfast.core.errors import InvalidInput
from holdfast.core.ids import new_id
from holdfast.host.contract import HostParts
from holdfast.host.holders import living_holder
from holdfast.host.store_calls import StoreCalls
from holdfast.sessions import Filters, InboxMessage, SearchHit, Session, SessionDB, StoredMessage
from holdfast.sessions.listing import Listed


class Records:
    """Conversations as they are on record. Every method on the host's loop."""

    def __init__(self, parts: HostParts, call: StoreCalls, told: Callable[[str], None]) -> None:
        """`told` hears the root of each conversation that is changed here."""
        self._parts = parts
        self._db: SessionDB = parts.db
        self._call = call
        self._told = told

    # finding

    async def sessions(
        self,
        *,
        source: str | None = None,
        archived: bool | None = False,
        pinned: bool | None = None,
        limit: int = 50,
        offset: int = 0,
    ) -> list[Listed]:
        """The conversations, the one last spoken in first; `archived` and `pinned` None: any."""
        return await self._call(
            self._db.list_sessions,
            source=source,
            archived=archived,
            pinned=pinned,
            limit=limit,
            offset=offset,
        )

    async def session(self, session_id: str) -> Listed:
        """The conversation that a session belongs to, as the list shows it."""
        return await self._call(self._db.listed, session_id)

    async def lineage(self, session_id: str) -> list[Session]:
        """Every session of the conversation, oldest first; each but the last was ended by a compaction."""
        return await self._call(self._db.conversation, session_id)

    async def search(self, query: str, *, filters: Filters | None = None, limit: int = 20) -> list[SearchHit]:
        """Messages that hold every word of the query."""
        return await self._call(self._db.search, query, filters=filters, limit=limit)

    async def messages(
        self,
        session_id: str,
        *,
        before: int | None = None,
        after: int | None = None,
        limit: int | None = None,
        exact: bool = False,
    ) -> list[StoredMessage]:
        """What was said in the conversation's live session, each message with its place, in order.

        The last `limit` of all or of those `before` a place, or the first ones `after` one. `exact` reads
        the very session that is named, also one that a compaction has ended.
        """
        if before is not None and after is not None:
            raise InvalidInput("messages are read before a place or after one, not both")

        def read() -> list[StoredMessage]:
            # Looked up in any case: a session that does not exist has no empty transcript.
            live = self._db.live_end(session_id)
            where = session_id if exact else live
            if after is not None:
                return self._db.read_messages(where, start=after + 1, limit=limit)
            return self._db.read_messages_before(where, before, limit=limit)

        return await self._call(read)

    async def export(self, session_id: str) -> list[str]:
        """The conversation with its whole lineage, as lines of JSON."""
        return await self._call(self._db.export_session, session_id)

    async def holder(self, session_id: str) -> str | None:
        """Which process runs the conversation now, this one included; its name begins with HOST:PID."""
        return await self._call(living_holder, self._db, session_id)

    async def waiting(self, session_id: str) -> list[InboxMessage]:
        """The messages that wait in this conversation, oldest first."""
        return await self._call(lambda: self._db.inbox.waiting(self._db.live_end(session_id)))

    async def sent(self, inbox_id: int) -> InboxMessage | None:
        """A message that was sent, whatever became of it: whether it waits, and which turn took it."""
        return await self._call(self._db.inbox.get, inbox_id)

    # setting in order

    async def rename(self, session_id: str, title: str | None) -> None:
        """Give the conversation a title; None or an empty one takes it away."""
        await self._change(session_id, lambda: self._db.set_title(session_id, title or None))

    async def pin(self, session_id: str, pinned: bool) -> None:
        await self._change(session_id, lambda: self._db.set_pinned(session_id, pinned))

    async def archive(self, session_id: str, archived: bool) -> None:
        """Put the conversation out of sight, or back; nothing else changes."""
        await self._change(session_id, lambda: self._db.set_archived(session_id, archived))

    async def branch(self, session_id: str, *, before: int | None = None, exact: bool = False) -> str:
        """A new session that begins with what was said before a message.

        Of the conversation's live session or, `exact`, of the very one that is named.
        """
        fresh = new_id()

        def work() -> None:
            live = self._db.live_end(session_id)
            self._db.branch(session_id if exact else live, fresh, before=before)

        await self._call(work)
        self._told(fresh)
        return fresh

    async def import_session(self, lines: Iterable[str]) -> str:
        """Store an exported conversation, all or nothing; returns the session in which it goes on."""
        ids = await self._call(self._db.import_session, lines)
        self._told(ids[0])
        return ids[-1]

    async def withdraw(self, inbox_id: int) -> None:
        """Take back a message that still waits; it stays on record."""
        await self._call(self._db.inbox.withdraw, inbox_id)
        await self._told_of(inbox_id)

    # inside

    async def _change(self, session_id: str, change: Callable[[], None]) -> None:
        def work() -> str:
            change()
            return self._db.root(session_id)

        self._told(await self._call(work))

    async def _told_of(self, inbox_id: int) -> None:
        def root() -> str | None:
            message = self._db.inbox.get(inbox_id)
            return None if message is None else self._db.root(message.session_id)

        if (found := await self._call(root)) is not None:
            self._told(found)
