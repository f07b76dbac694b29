"""`Records`: what a host answers and does with the store alone, whether a conversation runs or not.

Listeners of `Overview.changes` are told of each change.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from holdfast.core.contract import Message, ToolCall
from holdfast.core.errors import InvalidInput, SessionExists
from holdfast.core.events import TurnEnd
from holdfast.core.ids import id_for, new_id
from holdfast.host.holders import living_holder
from holdfast.host.store_calls import StoreCalls
from holdfast.host.turn_end import end_event_on_record
from holdfast.sessions import Filters, InboxMessage, SearchHit, Session, SessionDB, StoredMessage, TurnRecord
from holdfast.sessions.conversation_list import ListedConversation
from holdfast.sessions.markdown_export import markdown_lines


@dataclass(frozen=True, slots=True)
class ClientCalls:
    """The calls with which a turn ended, for its client to run."""

    session_id: str
    """Where the conversation goes on."""
    calls: Sequence[ToolCall]
    is_last: bool
    """Whether nothing was said since: the results are still waited for."""


class Records:
    """Conversations as they are on record. Every method on the host's loop."""

    def __init__(self, db: SessionDB, call: StoreCalls, notify: Callable[[str], None]) -> None:
        """`notify` hears the root of each conversation that is changed here."""
        self._db = db
        self._call = call
        self._notify = notify

    async def require_store(self) -> None:
        """Raises what keeps the store from being written: it is gone, locked, or out of reach."""
        await self._call(self._db.leases.require_writable)

    # finding

    async def sessions(
        self,
        *,
        api: bool | None = None,
        scope: str | None = None,
        archived: bool | None = False,
        pinned: bool | None = None,
        limit: int = 50,
        offset: int = 0,
    ) -> list[ListedConversation]:
        """The conversations, the one last active first; None: any scope, and so on.

        `api` is for those that clients of `/v1` began without a name: only these, or all but these.
        """
        return await self._call(
            self._db.conversations.list,
            api=api,
            scope=scope,
            archived=archived,
            pinned=pinned,
            limit=limit,
            offset=offset,
        )

    async def in_folder(
        self,
        folder: str,
        *,
        scope: str | None = None,
        archived: bool | None = False,
        limit: int = 50,
        offset: int = 0,
    ) -> list[ListedConversation]:
        """The same for one folder of the list."""
        found = self._db.conversations.in_folder
        return list(
            await self._call(found, folder, scope=scope, archived=archived, limit=limit, offset=offset)
        )

    async def session(self, session_id: str) -> ListedConversation:
        """The conversation that a session belongs to, as the list shows it."""
        return await self._call(self._db.conversations.find, session_id)

    async def lineage(self, session_id: str) -> list[Session]:
        """Every session of the conversation, oldest first; each but the last was ended by a compaction."""
        return await self._call(self._db.sessions.conversation, session_id)

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
            live = self._db.sessions.live_end(session_id)
            where = session_id if exact else live
            if after is not None:
                return self._db.sessions.read(where, start=after + 1, limit=limit)
            return self._db.sessions.read_before(where, before, limit=limit)

        return await self._call(read)

    async def undone_from(self, session_id: str, before: int | None = None) -> StoredMessage:
        """The first message that an undo takes back: that at a place, or the one that began the last turn."""
        stored = await self.messages(session_id)
        if before is not None:
            found = next((each for each in stored if each.seq == before), None)
            if found is None:
                raise InvalidInput(f"there is no message {before} in this conversation")
            return found
        last = next((each for each in reversed(stored) if each.message["role"] == "user"), None)
        if last is None:
            raise InvalidInput("there is no message to take back in this conversation")
        # It may have joined a turn that another one began. Copies in a branch name no turn.
        of_turn = (each for each in stored if each.turn_id is not None and each.turn_id == last.turn_id)
        return next(of_turn, last)

    async def failed(self, session_id: str) -> TurnRecord | None:
        """The last turn of the conversation, when it failed and nothing was said since."""

        def read() -> TurnRecord | None:
            last = self._db.sessions.read_before(self._db.sessions.live_end(session_id), None, limit=1)
            # A copy in a continuation or a branch tells of a turn that ended elsewhere.
            if not last or last[0].turn_id is None or last[0].carried:
                return None
            turn = self._db.turns.get(last[0].turn_id)
            return turn if turn is not None and turn.state == "failed" else None

        return await self._call(read)

    async def turn_end(self, turn_id: str) -> TurnEnd | None:
        """How a turn ended, as the store has it; None while it goes on."""
        return await self._call(end_event_on_record, self._db, turn_id)

    async def turn_messages(self, turn_id: str) -> list[Message]:
        """The messages of one turn, in order."""
        return await self._call(self._db.turns.messages, turn_id)

    async def client_calls(self, turn_id: str) -> ClientCalls | None:
        """The calls that a completed turn handed to its client; None when there is no such turn."""

        def read() -> ClientCalls | None:
            turn = self._db.turns.get(turn_id)
            messages = self._db.turns.messages(turn_id) if turn and turn.state == "completed" else ()
            calls = messages[-1].get("tool_calls") if messages else None
            if turn is None or not calls:
                return None
            live = self._db.sessions.live_end(turn.session_id)
            last = self._db.sessions.read_before(live, None, limit=1)
            return ClientCalls(live, calls, bool(last) and last[0].turn_id == turn_id)

        return await self._call(read)

    async def export(self, session_id: str, *, as_markdown: bool = False) -> list[str]:
        """The conversation with its whole lineage, as lines of JSON, or as Markdown for people to read."""
        if as_markdown:
            return await self._call(markdown_lines, self._db, session_id)
        return await self._call(self._db.export_session, session_id)

    async def holder(self, session_id: str) -> str | None:
        """Which process runs the conversation now, this one included; its name begins with HOST:PID."""
        return await self._call(living_holder, self._db, session_id)

    async def waiting(self, session_id: str) -> list[InboxMessage]:
        """The messages that wait in this conversation, oldest first."""
        return await self._call(lambda: self._db.inbox.waiting(self._db.sessions.live_end(session_id)))

    async def sent(self, inbox_id: int) -> InboxMessage | None:
        """A message that was sent, whatever became of it: whether it waits, and which turn took it."""
        return await self._call(self._db.inbox.get, inbox_id)

    # setting in order

    async def rename(self, session_id: str, title: str | None) -> None:
        """Give the conversation a title; None or an empty one takes it away."""
        await self._change(session_id, lambda: self._db.conversations.set_title(session_id, title or None))

    async def pin(self, session_id: str, pinned: bool) -> None:
        await self._change(session_id, lambda: self._db.conversations.set_pinned(session_id, pinned))

    async def archive(self, session_id: str, archived: bool) -> None:
        """Put the conversation out of sight, or back; nothing else changes."""
        await self._change(session_id, lambda: self._db.conversations.set_archived(session_id, archived))

    async def choose_tool_profile(self, session_id: str, name: str) -> None:
        """Keep the choice of a tool profile, which `SessionHost.set_tool_profile` has checked."""
        await self._change(session_id, lambda: self._db.conversations.set_tool_profile(session_id, name))

    async def branch(
        self,
        session_id: str,
        *,
        before: int | None = None,
        exact: bool = False,
        key: str | None = None,
        forget_in: Sequence[str] | None = None,
    ) -> str:
        """A new session that begins with what was said before a message.

        Of the conversation's live session or, `exact`, of the very one that is named. The same `key` again
        makes no other: the answer is where the first one goes on. With `forget_in` these memory providers
        forget the turns that the branch leaves behind.
        """
        fresh, made = await self.made_by("branch", session_id, key)
        if made is not None:
            return made

        def work() -> None:
            live = self._db.sessions.live_end(session_id)
            with suppress(SessionExists):  # two calls with one key at once
                left = session_id if exact else live
                self._db.conversations.branch(left, fresh, before=before, forget_in=forget_in)

        await self._call(work)
        self._notify(fresh)
        return fresh

    async def import_session(self, lines: Iterable[str]) -> str:
        """Store an exported conversation, all or nothing; returns the session in which it goes on."""
        ids = await self._call(self._db.import_session, lines)
        self._notify(ids[0])
        return ids[-1]

    async def withdraw(self, inbox_id: int) -> None:
        """Take back a message that still waits; it stays on record."""
        await self._call(self._db.inbox.withdraw, inbox_id)
        await self._notify_about(inbox_id)

    async def made_by(self, call: str, session_id: str, key: str | None) -> tuple[str, str | None]:
        """The id of the session that a call makes and, when its key was used before, where that goes on."""
        if key is None:
            return new_id(), None
        fresh = id_for(call, session_id, key)

        def made() -> str | None:
            return None if self._db.get_session(fresh) is None else self._db.sessions.live_end(fresh)

        return fresh, await self._call(made)

    # inside

    async def _change(self, session_id: str, change: Callable[[], None]) -> None:
        def work() -> str:
            change()
            return self._db.sessions.root(session_id)

        self._notify(await self._call(work))

    async def _notify_about(self, inbox_id: int) -> None:
        def root() -> str | None:
            message = self._db.inbox.get(inbox_id)
            return None if message is None else self._db.sessions.root(message.session_id)

        if (found := await self._call(root)) is not None:
            self._notify(found)
