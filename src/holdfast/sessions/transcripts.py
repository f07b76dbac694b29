"""Sessions and their messages: create, read, end, and find the conversation around a session."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from holdfast.core.contract import Message
from holdfast.core.errors import (
    InvalidInput,
    SessionBusy,
    SessionEnded,
    SessionExists,
    SessionNotFound,
    TurnNotFound,
    TurnNotRunning,
    WrongScope,
)
from holdfast.sessions.codec import (
    LARGEST,
    Columns,
    checked_limit,
    checked_name,
    decode,
    decode_all,
    encode,
    is_storable,
)
from holdfast.sessions.contract import (
    NOTHING_CHOSEN,
    OWNER,
    Engine,
    Operation,
    Relation,
    Session,
    SessionStart,
    StoredMessage,
    Transaction,
)
from holdfast.sessions.operations import operation


class Transcripts:
    """What is remembered word for word."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def end(self, session_id: str, end_reason: str, *, then: SessionStart | None = None) -> None:
        """End an idle session for good; `SessionBusy` while a turn runs or messages wait in it.

        With `then`, another session begins in the same step. One that is there was begun by the same call.
        """
        checked_name("an end reason", end_reason)
        if then is not None:
            check_start(then)

        def work(tx: Transaction) -> None:
            lock_session(tx, session_id)
            if then is not None and find_session(tx, then.id) is not None:
                return
            end_session(tx, session_id, end_reason)
            if then is not None:
                create_session_row(tx, then, None, None)

        self._engine.write(Operation("end_session", work))

    def append_message(self, session_id: str, message: Message, *, turn_id: str | None = None) -> int:
        """Add one message, in a running turn or outside any; returns its sequence number."""
        return self.append_messages(session_id, [message], turn_id=turn_id)[0]

    def append_messages(
        self, session_id: str, messages: Sequence[Message], *, turn_id: str | None = None
    ) -> list[int]:
        """Add messages at the end, all or none; returns their sequence numbers."""
        columns = [encode(message) for message in messages]

        def work(tx: Transaction) -> list[int]:
            lock_session(tx, session_id)
            return insert_messages(tx, session_id, turn_id, columns)

        return self._engine.write(Operation("append_messages", work))

    def read(self, session_id: str, *, start: int = 0, limit: int | None = None) -> list[StoredMessage]:
        """Messages with their place, from sequence number `start` on."""
        most = checked_limit(limit)
        return self._engine.read_once(lambda tx: read_messages(tx, session_id, start, most))

    def read_before(
        self, session_id: str, before: int | None = None, *, limit: int | None = None
    ) -> list[StoredMessage]:
        """The last messages that stand before a place, or (None) before the end, in order."""
        most = checked_limit(limit)
        place = LARGEST if before is None else before

        def work(tx: Transaction) -> list[StoredMessage]:
            rows = tx.queries.read_messages_before(session_id=session_id, before=place, limit=most)
            return [stored(row) for row in rows][::-1]

        return self._engine.read_once(work)

    def message_count(self, session_id: str) -> int:
        """How many messages the session's own transcript has."""
        return self._engine.read_once(lambda tx: int(tx.queries.message_count(session_id=session_id)))

    def lineage(self, session_id: str) -> list[str]:
        """Every session of the conversation this one belongs to, oldest first."""
        return self._engine.read_once(lambda tx: lineage(tx, session_id))

    def conversation(self, session_id: str) -> list[Session]:
        """The same, each with what is known of it."""
        return self._engine.read_once(lambda tx: conversation(tx, session_id))

    def root(self, session_id: str) -> str:
        """The first session of the conversation, by which it is known."""
        return self._engine.read_once(lambda tx: root_of(tx, session_id))

    def scopes(self, session_ids: Iterable[str]) -> dict[str, str]:
        """The scope of each of these sessions that is not the owner's."""

        def work(tx: Transaction) -> dict[str, str]:
            found = [find_session(tx, each) for each in session_ids]
            return {each.id: each.scope for each in found if each is not None and each.scope != OWNER}

        return self._engine.read(work)

    def live_end(self, session_id: str) -> str:
        """Where the conversation goes on, from any of its sessions."""
        return self._engine.read_once(lambda tx: live_end(tx, session_id))

    def uncommitted(self) -> list[str]:
        """Sessions with completed turns that no boundary commit has covered yet."""
        return self._engine.read_once(lambda tx: [row[0] for row in tx.queries.uncommitted_sessions()])

    def uncommitted_holders(self, root_id: str) -> list[str]:
        """The processes, by the names they hold leases under, that ran a conversation's uncommitted turns."""
        return self._engine.read_once(
            lambda tx: [row[0] for row in tx.queries.uncommitted_holders(root=root_id)]
        )

    def uncommitted_messages(self, session_id: str, *, through: int | None = None) -> list[Message]:
        """All that was said in those turns of a session, oldest turn first, each message once.

        `through` leaves out turns with a later generation: those of another agent, or completed meanwhile.
        """
        return self._engine.read_once(
            lambda tx: decode_all(tx.queries.uncommitted_messages(session_id=session_id, through=through))
        )

    def mark_committed(self, session_id: str, generation: int) -> bool:
        """Record that a commit covered the turns up to `generation`; False when that is no news."""

        def work(tx: Transaction) -> bool:
            return bool(tx.queries.mark_committed(id=session_id, generation=generation))

        return self._engine.write(Operation("mark_committed", work))


@operation
def create_session(
    session_id: str,
    *,
    source: str,
    title: str | None = None,
    parent: str | None = None,
    relation: Relation | None = None,
    scope: str = "",
) -> Callable[[Transaction], Session]:
    """Start a session. A branch or a delegate names its parent; continuations come by rotation.

    A session with a parent has the parent's scope, whatever is given here.
    """
    session = SessionStart(session_id, source, title, scope)
    check_start(session)
    _check_relation(parent, relation)
    return lambda tx: create_session_row(tx, session, parent, relation)


def check_start(session: SessionStart) -> None:
    """Raises `InvalidInput` for a session that can't be stored like this."""
    checked_name("a session id", session.id)
    checked_name("a session's source", session.source)
    checked_title(session.title)
    if session.scope != OWNER:
        checked_name("a scope", session.scope)


def create_session_row(
    tx: Transaction, session: SessionStart, parent: str | None, relation: Relation | None
) -> Session:
    insert_session_row(tx, session, parent, relation)
    return require_session(tx, session.id)


def insert_session_row(
    tx: Transaction, session: SessionStart, parent: str | None = None, relation: Relation | None = None
) -> int:
    """The session with what was chosen for it; returns when it started."""
    if parent is not None and find_session(tx, parent) is None:
        raise SessionNotFound(parent)
    started = tx.queries.insert_session(
        id=session.id,
        parent=parent,
        relation=relation,
        source=session.source,
        title=session.title,
        scope=session.scope,
    )
    if started is None:
        raise SessionExists(session.id)
    chosen = session.choice
    if chosen != NOTHING_CHOSEN:
        if chosen.folder:
            tx.queries.ensure_folder(name=chosen.folder)
        tx.queries.put_choice(
            root=session.id, model=chosen.model, workspace=chosen.workspace, folder=chosen.folder
        )
    return int(started)


def find_session(tx: Transaction, session_id: str) -> Session | None:
    row = tx.queries.get_session(id=session_id)
    return None if row is None else Session(*row)


def require_session(tx: Transaction, session_id: str) -> Session:
    session = find_session(tx, session_id)
    if session is None:
        raise SessionNotFound(session_id)
    return session


def require_scope(tx: Transaction, session_id: str, scope: str) -> None:
    """Raises `WrongScope` unless the session is of this scope."""
    if require_session(tx, session_id).scope != scope:
        raise WrongScope(session_id)


def lock_session(tx: Transaction, session_id: str) -> None:
    """Make this transaction the only one that changes the session until it ends."""
    if not tx.alone and tx.queries.lock_session(id=session_id) is None:
        raise SessionNotFound(session_id)


def end_session(tx: Transaction, session_id: str, end_reason: str) -> None:
    """End an idle session; what runs or waits in it would be left behind."""
    lock_session(tx, session_id)
    running = tx.queries.running_turn(session_id=session_id)
    if running is not None:
        raise SessionBusy(session_id, f"turn {running[0]!r} is running")
    waiting = tx.queries.count_waiting_messages(session_id=session_id)
    if waiting:
        raise SessionBusy(session_id, f"{waiting} messages wait in its inbox")
    if not tx.queries.end_session(id=session_id, end_reason=end_reason):
        raise refuse_ended(tx, session_id)


def refuse_ended(tx: Transaction, session_id: str) -> SessionEnded:
    """The error that says where an ended session's conversation goes on."""
    session = require_session(tx, session_id)
    end = live_end(tx, session_id)
    return SessionEnded(session_id, session.end_reason or "", end if end != session_id else None)


def live_end(tx: Transaction, session_id: str) -> str:
    end = tx.queries.live_end(id=session_id)
    if end is None:
        raise SessionNotFound(session_id)
    return str(end)


def lineage(tx: Transaction, session_id: str) -> list[str]:
    return [session.id for session in conversation(tx, session_id)]


def conversation(tx: Transaction, session_id: str) -> list[Session]:
    sessions = [Session(*row) for row in tx.queries.lineage(id=session_id)]
    if not sessions:
        raise SessionNotFound(session_id)
    return sessions


def root_of(tx: Transaction, session_id: str) -> str:
    root = tx.queries.root(id=session_id)
    if root is None:
        raise SessionNotFound(session_id)
    return str(root)


def insert_message(tx: Transaction, session_id: str, turn_id: str | None, columns: Columns) -> int:
    """Append to an open session that is locked or new, in a running turn of it or in none."""
    return insert_messages(tx, session_id, turn_id, [columns])[0]


def insert_messages(
    tx: Transaction, session_id: str, turn_id: str | None, rows: Sequence[Columns]
) -> list[int]:
    """The same for several; returns their sequence numbers."""
    added = [tx.dialect.add_message(tx, session_id, turn_id, columns) for columns in rows]
    return [_added(tx, session_id, turn_id, each()) for each in added]


def insert_message_ahead(
    tx: Transaction, session_id: str, turn_id: str, columns: Columns
) -> Callable[[], int]:
    """The same for one whose sequence number is not needed yet."""
    added = tx.dialect.add_message(tx, session_id, turn_id, columns)
    return lambda: _added(tx, session_id, turn_id, added())


def _added(tx: Transaction, session_id: str, turn_id: str | None, seq: int | None) -> int:
    if seq is None:
        raise _why_not_appended(tx, session_id, turn_id)
    return seq


def _why_not_appended(tx: Transaction, session_id: str, turn_id: str | None) -> Exception:
    if require_session(tx, session_id).ended is not None:
        return refuse_ended(tx, session_id)
    row = tx.queries.get_turn(id=turn_id)
    if row is None or row[1] != session_id:
        return TurnNotFound(str(turn_id))
    return TurnNotRunning(str(turn_id), row[2])


def read_messages(tx: Transaction, session_id: str, start: int, limit: int) -> list[StoredMessage]:
    rows = tx.queries.read_messages(session_id=session_id, start=start, limit=limit)
    return [stored(row) for row in rows]


def stored(row: tuple[Any, ...]) -> StoredMessage:
    """A message from its row."""
    session_id, seq, turn_id, role, content, extra, created, carried = row
    return StoredMessage(session_id, seq, turn_id, created, bool(carried), decode(role, content, extra))


def _check_relation(parent: str | None, relation: Relation | None) -> None:
    if (parent is None) != (relation is None) or relation not in (None, "branch", "delegate"):
        raise InvalidInput(
            "a session has no parent and no relation, or a parent and the relation 'branch' or "
            f"'delegate'; not parent={parent!r} with relation={relation!r}"
        )


def checked_title(title: str | None) -> None:
    if title is not None and not is_storable(title):
        raise InvalidInput("a title must be plain text without NUL or half surrogate pairs")
