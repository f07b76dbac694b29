"""`SessionDB`: the public face of the session store, on SQLite or on PostgreSQL.

It is synchronous and thread-safe; async code reaches it through `process.off_loop` or, in a turn, by `run`.
Each part is an attribute, and owns its reads and operations: `sessions` (with their messages),
`conversations` (the list of them), `statuses`, `activity`, `turns` (the journal), `inbox`, `asks`, `outbox`,
`forgettings`, `file_changes`, `chat_events`, `chat_posts`, `chat_people`, `schedules`, `choices`,
`usage`, `users`, `audit`, `leases` and `keeper`, which renews those of this process. What is here takes
several parts, or is public.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import ParamSpec, Self, TypeVar

from holdfast.core.clock import SystemClock
from holdfast.core.contract import Clock, Message
from holdfast.core.errors import InvalidInput
from holdfast.process import DaemonPool
from holdfast.sessions.activity import ActivityReader
from holdfast.sessions.asks import Asks
from holdfast.sessions.audit_log import AuditLog
from holdfast.sessions.chat_events import ChatEvents
from holdfast.sessions.chat_people import ChatPeople
from holdfast.sessions.chat_places import ChatPlaces
from holdfast.sessions.chat_posts import ChatPosts
from holdfast.sessions.choices import Choices
from holdfast.sessions.codec import checked_limit, checked_seconds, decode_all, is_name
from holdfast.sessions.contract import (
    OWNER,
    Deleted,
    Engine,
    Operation,
    Relation,
    Rotation,
    SearchHit,
    Session,
    Transaction,
)
from holdfast.sessions.conversation_list import ConversationList
from holdfast.sessions.conversation_statuses import ConversationStatuses
from holdfast.sessions.deletion import delete_conversation
from holdfast.sessions.file_changes import FileChanges
from holdfast.sessions.forgettings import Forgettings
from holdfast.sessions.held_lease import HeldLease
from holdfast.sessions.inbox import Inbox
from holdfast.sessions.journal import Journal
from holdfast.sessions.lease_keeper import LEASE_SECONDS, LeaseKeeper
from holdfast.sessions.leases import Leases, compression_lock, session_lease
from holdfast.sessions.live_text import LiveText
from holdfast.sessions.moving import MovedRows, StoreMove, unlock_store
from holdfast.sessions.moving.store_move import Tell
from holdfast.sessions.outbox import Outbox
from holdfast.sessions.portable import export_lines, import_lines
from holdfast.sessions.rotation import rotate_session
from holdfast.sessions.schedules import Schedules
from holdfast.sessions.search import Filters, parse_query, search
from holdfast.sessions.store_address import require_driver, sqlite_path, unknown_address
from holdfast.sessions.transcripts import Transcripts, create_session, find_session
from holdfast.sessions.usage import UsageRecords
from holdfast.sessions.users import Users

T = TypeVar("T")
P = ParamSpec("P")

PATIENCE_SECONDS = 30.0
MOST_CONNECTIONS = 10
ADDRESSES = ("sqlite", "postgresql", "postgres")


class SessionDB:
    """Sessions, turns, messages, inbox, outbox and leases in one database."""

    def __init__(
        self,
        db_path: str | os.PathLike[str],
        *,
        clock: Clock | None = None,
        patience: float = PATIENCE_SECONDS,
        create: bool = True,
        lease_seconds: float = LEASE_SECONDS,
    ) -> None:
        """Open the SQLite database at `db_path`, made if missing; ":memory:" keeps it in memory.

        `lease_seconds` is how long what this process holds stays held when the process dies.
        """
        from holdfast.sessions.sqlite import SqliteEngine

        path, chosen = os.fspath(db_path), clock or SystemClock()
        scheme, separator, _ = path.partition(":/")
        if separator and (scheme in ADDRESSES or "://" in path):
            raise InvalidInput(
                f"{scheme}://… is an address, not a path; nothing was made. Open it with SessionDB.open."
            )
        self._stand_on(
            SqliteEngine(path, clock=chosen, patience=patience, create=create),
            chosen,
            lease_seconds,
        )

    @classmethod
    def open(
        cls,
        url: str,
        *,
        clock: Clock | None = None,
        patience: float = PATIENCE_SECONDS,
        create: bool = True,
        lease_seconds: float = LEASE_SECONDS,
        connections: int = MOST_CONNECTIONS,
    ) -> Self:
        """Open `sqlite:///path` (four slashes for an absolute one) or `postgresql://…`.

        With `create=False` a SQLite file must be there already. `connections` is how many a process opens to
        PostgreSQL at most; they are made when they are needed.
        """
        if connections < 1:
            raise InvalidInput(f"connections is a number from 1 on, not {connections}")
        path = sqlite_path(url)
        if path is not None:
            return cls(path, clock=clock, patience=patience, create=create, lease_seconds=lease_seconds)
        if url.startswith(("postgresql://", "postgres://")):
            require_driver()
            from holdfast.sessions.postgres import PostgresEngine

            engine = PostgresEngine(url, patience=patience, connections=connections)
            return cls.on(engine, clock=clock, lease_seconds=lease_seconds)
        raise unknown_address(url)

    @classmethod
    def on(cls, engine: Engine, *, clock: Clock | None = None, lease_seconds: float = LEASE_SECONDS) -> Self:
        """A store on an engine that is open already."""
        db = cls.__new__(cls)
        db._stand_on(engine, clock or SystemClock(), lease_seconds)  # noqa: SLF001 - its own second constructor
        return db

    def _stand_on(self, engine: Engine, clock: Clock, lease_seconds: float) -> None:
        checked_seconds("a lease", lease_seconds)
        self._engine = engine
        self.notifications = engine.notifications
        self.live_text = LiveText(engine.notifications, clock)
        self.sessions = Transcripts(engine)
        self.conversations = ConversationList(engine)
        self.statuses = ConversationStatuses(engine)
        self.activity = ActivityReader(engine)
        self.turns = Journal(engine)
        self.inbox = Inbox(engine)
        self.asks = Asks(engine)
        self.outbox = Outbox(engine)
        self.forgettings = Forgettings(engine)
        self.schedules = Schedules(engine)
        self.choices = Choices(engine)
        self.file_changes = FileChanges(engine)
        self.chat_events = ChatEvents(engine)
        self.chat_posts = ChatPosts(engine)
        self.chat_people = ChatPeople(engine)
        self.chat_places = ChatPlaces(engine)
        self.usage = UsageRecords(engine)
        self.users = Users(engine)
        self.audit = AuditLog(engine)
        self.leases = Leases(engine)
        self.lease_seconds = lease_seconds
        self.keeper = LeaseKeeper(self.leases, clock, ttl_seconds=lease_seconds)

    async def run(
        self,
        pool: DaemonPool,
        operation: Callable[P, Operation[T]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Run a named operation (`operations.py`) from an event loop, as one transaction.

        Its arguments are checked and encoded where it runs, which is not on the loop.
        """

        def work(tx: Transaction) -> T:
            return operation(*args, **kwargs).work(tx)

        return await self._engine.run(Operation(operation.__name__, work), pool)

    @property
    def location(self) -> str:
        """Where the data is, for messages to people; never holds a password."""
        return self._engine.location

    @property
    def is_shared(self) -> bool:
        """Whether programs on other machines may use it too."""
        return self._engine.is_shared

    @property
    def recovery(self) -> str:
        """What a person can do when `check` finds damage."""
        return self._engine.recovery

    # sessions and their messages

    def create_session(
        self,
        session_id: str,
        *,
        source: str,
        title: str | None = None,
        parent: str | None = None,
        relation: Relation | None = None,
        scope: str = OWNER,
    ) -> Session:
        """Start a session; a branch or a delegate names its parent, and has the parent's scope."""
        return self._engine.write(
            create_session(
                session_id, source=source, title=title, parent=parent, relation=relation, scope=scope
            )
        )

    def get_session(self, session_id: str) -> Session | None:
        return self._engine.read_once(lambda tx: find_session(tx, session_id))

    def delete_session(self, session_id: str, *, holder: str | None = None, force: bool = False) -> Deleted:
        """Delete the whole conversation: messages, turns, inbox, outbox and leases of all its sessions.

        Its subagents' sessions go with it; branches that left it keep their copies. `SessionBusy` while it is
        run or messages wait in it. `StillOwed` while deliveries to memory are owed or set aside, unless
        `force`, which also deletes what waits. A `holder` of the session's lease deletes under it.
        """
        lease = None
        if holder is not None:
            lease = self.keeper.require(session_lease(self.sessions.root(session_id)), holder)
        deleted = self._engine.write(delete_conversation(session_id, lease=lease, force=force))
        if lease is not None:
            # Its row is gone; nothing is left to renew. Another one of this name may be held by now.
            self.keeper.forget(lease)
        return deleted

    def get_messages(self, session_id: str) -> list[Message]:
        """The session's own transcript, ready for a model; empty for an unknown session."""
        return self._engine.read_once(lambda tx: decode_all(tx.queries.get_messages(session_id=session_id)))

    def children(self, session_id: str) -> list[str]:
        """Ids of the sessions whose parent is `session_id`."""
        return self._engine.read_once(lambda tx: [row[0] for row in tx.queries.children(id=session_id)])

    # who runs a conversation

    def hold_session(self, session_id: str, holder: str) -> HeldLease | None:
        """Take the conversation's lease, or None while another holds it; renewed until let go."""
        return self.keeper.acquire(session_lease(self.sessions.root(session_id)), holder)

    def let_go_of_session(self, session_id: str, holder: str) -> None:
        """Does nothing when the lease was lost, or is somebody else's."""
        name = session_lease(session_id)
        # Held under this very name, it is let go without a look at the store, which may be out of reach.
        if self.keeper.held(name, holder) is None:
            name = session_lease(self.sessions.root(session_id))
        self.keeper.release(name, holder)

    def session_holder(self, session_id: str) -> str | None:
        """Who runs the conversation now."""
        lease = self.leases.current(session_lease(self.sessions.root(session_id)))
        return None if lease is None else lease.holder

    # compaction

    def try_acquire_compression_lock(self, session_id: str, holder: str) -> bool:
        """Take the lease that guards a compaction; it is renewed until released or this process dies.

        What can't be a session's id or a holder's name gets no lock.
        """
        if not (is_name(session_id) and is_name(holder)):
            return False
        return self.keeper.acquire(compression_lock(session_id), holder) is not None

    def get_compression_lock_holder(self, session_id: str) -> str | None:
        if not is_name(session_id):
            return None
        lease = self.leases.current(compression_lock(session_id))
        return None if lease is None else lease.holder

    def release_compression_lock(self, session_id: str, holder: str) -> None:
        """Let go. Does nothing when the lock was lost, or is somebody else's."""
        if is_name(session_id) and is_name(holder):
            self.keeper.release(compression_lock(session_id), holder)

    def rotate(
        self,
        session_id: str,
        child_id: str,
        opening: Sequence[Message],
        *,
        carry_from: int,
        holder: str | None = None,
        lease: HeldLease | None = None,
    ) -> Rotation:
        """Continue a session in a child: `opening`, then its own messages from `carry_from` on.

        With a `holder`, only while it holds the compression lock; with the conversation's `lease`, only
        while nobody else has taken that (`LeaseLost` otherwise). Raises `AlreadyContinued` with the child to
        adopt when another rotation came first.
        """
        lock = None if holder is None else self.keeper.require(compression_lock(session_id), holder)
        leases = [each for each in (lock, lease) if each is not None]
        rotation = rotate_session(session_id, child_id, opening, carry_from=carry_from, leases=leases)
        return self._engine.write(rotation)

    # finding, moving, keeping

    def search(self, query: str, *, filters: Filters | None = None, limit: int = 20) -> list[SearchHit]:
        """Messages that hold every word of `query`. Any string is a valid query."""
        checked_limit(limit)
        terms = parse_query(query)
        self._engine.refresh_search()
        return self._engine.read(lambda tx: search(tx, terms, filters or Filters(), limit))

    def export_session(self, session_id: str) -> list[str]:
        """The conversation with its whole lineage, as lines of JSON."""
        return self._engine.read(lambda tx: export_lines(tx, session_id))

    def import_session(self, lines: Iterable[str]) -> list[str]:
        """Store an exported conversation, all or nothing; returns its session ids, oldest first."""
        return import_lines(self._engine, lines)

    def backup(self, target: str | os.PathLike[str]) -> None:
        """Copy the live database to a new file, consistent as of one moment."""
        self._engine.backup(os.fspath(target))

    def move_to(self, target: "SessionDB", tell: Tell = lambda *_: None) -> dict[str, MovedRows]:
        """Move everything into an empty store, or go on with that; see `moving/store_move.py`."""
        return StoreMove(self._engine, target._engine, tell).run()  # noqa: SLF001 - of the same class

    def unlock(self) -> bool:
        """Let a store that was moved, or was to be, be written again; False when nothing was in the way."""
        return unlock_store(self._engine)

    def check(self) -> list[str]:
        """Every inconsistency found in the database; empty when it is sound."""
        return self._engine.check()

    def close(self) -> None:
        """Release this process's leases and the database. Idempotent."""
        try:
            self.keeper.close()
        finally:
            self._engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
