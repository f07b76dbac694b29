"""The conversations as a list, what a person does to one of them, and branches that leave one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.core.errors import InvalidInput, SessionNotFound
from holdfast.core.short_title import short_title
from holdfast.sessions.codec import checked_limit, checked_name, checked_number
from holdfast.sessions.contract import (
    API_SOURCE,
    NOTHING_CHOSEN,
    SECOND,
    ConversationChoice,
    ConversationState,
    Engine,
    Operation,
    Session,
    SessionStart,
    Transaction,
)
from holdfast.sessions.conversation_operations import conversation_state
from holdfast.sessions.forgettings import forget_undone
from holdfast.sessions.inbox import lock_live_end
from holdfast.sessions.operations import operation
from holdfast.sessions.transcripts import (
    checked_title,
    create_session_row,
    live_end,
    lock_session,
    require_session,
    root_of,
)
from holdfast.sessions.usage import UsageEntry, insert_usage

PREVIEW = 200


@dataclass(frozen=True, slots=True)
class ListedConversation:
    """One conversation at its live end: how long it is, when it was last active, and how it opens."""

    session: Session
    root_id: str
    pinned: bool
    archived: bool
    last_active: int
    messages: int
    opening: str
    branch_of: str | None = None
    """Of a branch: the title of the conversation that it left, or the beginning of its first message."""
    choice: ConversationChoice = NOTHING_CHOSEN

    @property
    def label(self) -> str:
        """Its title or, while it has none, one that is cut from its first message."""
        return self.session.title or short_title(self.opening)


class ConversationList:
    """Finds conversations to go on with, and sets them in order."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def list(
        self,
        *,
        api: bool | None = None,
        scope: str | None = None,
        archived: bool | None = None,
        pinned: bool | None = None,
        limit: int | None = 50,
        offset: int = 0,
    ) -> list[ListedConversation]:
        """One entry for each conversation, at its live end, the one last active first. None: any.

        `api` is for those that clients of `/v1` began without a name: only these, or all but these.
        """
        most = checked_limit(limit)
        skipped = checked_number("an offset", offset)
        if skipped < 0:
            raise InvalidInput(f"an offset is a number from 0, not {skipped}")

        def work(tx: Transaction) -> list[ListedConversation]:
            rows = tx.queries.list_sessions(
                source=API_SOURCE if api else None,
                not_source=API_SOURCE if api is False else None,
                scope=scope,
                archived=None if archived is None else int(archived),
                pinned=None if pinned is None else int(pinned),
                folder=None,
                limit=most,
                offset=skipped,
            )
            return [_listed(row) for row in rows]

        return self._engine.read(work)

    def unused(self, source: str, seconds: float, limit: int) -> Sequence[str]:
        """Conversations of a source, not pinned or archived, in which nothing happened for so many seconds.

        The one unused for longest comes first.
        """
        period = int(seconds * SECOND)
        return self._engine.read(
            lambda tx: [
                row[0] for row in tx.queries.unused_sessions(source=source, period_us=period, limit=limit)
            ]
        )

    def in_folder(
        self,
        folder: str,
        *,
        scope: str | None = None,
        archived: bool | None = None,
        limit: int | None = 50,
        offset: int = 0,
    ) -> Sequence[ListedConversation]:
        """The same for one folder of the list."""
        most = checked_limit(limit)

        def work(tx: Transaction) -> Sequence[ListedConversation]:
            rows = tx.queries.list_sessions(
                source=None,
                not_source=None,
                scope=scope,
                archived=None if archived is None else int(archived),
                pinned=None,
                folder=folder,
                limit=most,
                offset=offset,
            )
            return [_listed(row) for row in rows]

        return self._engine.read(work)

    def find(self, session_id: str) -> ListedConversation:
        """The conversation that a session belongs to, as the list shows it."""
        return self._engine.read(lambda tx: listed_conversation(tx, session_id))

    def state(self, session_id: str) -> ConversationState:
        """The conversation as of one moment, found from any of its sessions."""
        return self._engine.read(lambda tx: conversation_state(tx, session_id))

    def set_title(self, session_id: str, title: str | None) -> None:
        """Give the conversation a title, or (None) take it away: a person's word, which no model changes."""
        checked_title(title)

        def work(tx: Transaction) -> None:
            lock_live_end(tx, session_id)
            root = root_of(tx, session_id)
            tx.queries.rename_conversation(root=root, title=title)
            tx.queries.note_titled_by(root=root, titled_by="person")

        self._engine.write(Operation("change_conversation", work))

    def is_untitled(self, session_id: str) -> bool:
        """Whether the conversation has no title, and no person has decided that it has none."""
        found = self._engine.read_once(lambda tx: tx.queries.is_untitled(id=session_id))
        if found is None:
            raise SessionNotFound(session_id)
        return bool(found)

    def tool_profile(self, session_id: str) -> str:
        """The tool profile that was chosen for the conversation; empty: none was."""
        return self._engine.read(lambda tx: tx.queries.tool_profile(root=root_of(tx, session_id)) or "")

    def set_tool_profile(self, session_id: str, name: str) -> None:
        """Choose a tool profile for the conversation; an empty name takes the choice back."""
        if name:
            checked_name("a tool profile", name)
        self._change(session_id, "set_tool_profile", tool_profile=name or None)

    def set_pinned(self, session_id: str, pinned: bool) -> None:
        self._change(session_id, "pin_conversation", pinned=int(pinned))

    def set_archived(self, session_id: str, archived: bool) -> None:
        self._change(session_id, "archive_conversation", archived=int(archived))

    def _change(self, session_id: str, query: str, **values: str | int | None) -> None:
        def work(tx: Transaction) -> None:
            # Behind the lock no rotation can copy what is about to change.
            lock_live_end(tx, session_id)
            getattr(tx.queries, query)(root=root_of(tx, session_id), **values)

        self._engine.write(Operation("change_conversation", work))

    def branch(
        self,
        session_id: str,
        branch_id: str,
        *,
        before: int | None = None,
        forget_in: Sequence[str] | None = None,
    ) -> Session:
        """A new session that begins with copies of the messages before a place; None: of all.

        With `forget_in`, names of memory providers, the branch takes the place of the session: they forget
        the turns that it leaves behind.
        """
        checked_name("a session id", branch_id)

        def work(tx: Transaction) -> Session:
            lock_session(tx, session_id)
            origin = require_session(tx, session_id)
            count = int(tx.queries.message_count(session_id=session_id))
            place = count if before is None else before
            if not 0 <= place <= count:
                raise InvalidInput(f"a branch leaves between 0 and {count}, not at {before!r}")
            branch = create_session_row(
                tx, SessionStart(branch_id, origin.source, origin.title), session_id, "branch"
            )
            tx.queries.copy_choice(origin=root_of(tx, session_id), root=branch_id)
            tx.queries.copy_messages(parent=session_id, child=branch_id, before=place)
            tx.queries.copy_tool_profile(root=root_of(tx, session_id), child=branch_id)
            if forget_in is not None:
                forget_undone(tx, session_id, place, forget_in)
            return branch

        return self._engine.write(Operation("branch_session", work))


@operation
def name_conversation(session_id: str, title: str, usage: UsageEntry) -> Callable[[Transaction], bool]:
    """Give a conversation the title that a model made; False where it has one, or a person decided so.

    What making it cost is stored in any case.
    """
    checked_title(title)

    def work(tx: Transaction) -> bool:
        # Behind the lock no person's word can come in between.
        lock_live_end(tx, session_id)
        root = root_of(tx, session_id)
        insert_usage(tx, root, None, [usage])
        named = bool(tx.queries.name_conversation(root=root, title=title))
        if named:
            tx.queries.note_titled_by(root=root, titled_by="model")
        return named

    return work


def listed_conversation(tx: Transaction, session_id: str) -> ListedConversation:
    """The conversation a session belongs to, as the list shows it."""
    return _listed(tx.queries.listed_session(id=live_end(tx, session_id)))


def _listed(row: tuple[Any, ...]) -> ListedConversation:
    root, pinned, archived, last_active, messages, opening, branch_of, *chosen = row[11:]
    preview = " ".join((opening or "").split())[:PREVIEW]
    left = None if branch_of is None else short_title(branch_of)
    return ListedConversation(
        Session(*row[:11]),
        root,
        bool(pinned),
        bool(archived),
        last_active,
        messages,
        preview,
        left,
        ConversationChoice(*(each or "" for each in chosen)),
    )
