"""`SessionDB`: the public face of the session store, on SQLite or on PostgreSQL.

It is synchronous and thread-safe; async code reaches it through `process.off_loop` or, in a turn, by `visit`.
The parts that other rooms work with are attributes: `turns` (the journal), `inbox`, `asks`, `outbox`,
`leases` and `keeper`, which renews those of this process.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Self, TypeVar

from holdfast.core.clock import SystemClock
from holdfast.core.contract import Clock, Message
from holdfast.core.errors import InvalidInput, LeaseLost
from holdfast.process import DaemonPool
from holdfast.sessions.asks import Asks
from holdfast.sessions.codec import checked_limit, checked_seconds
from holdfast.sessions.contract import (
    Deleted,
    Engine,
    Lease,
    Look,
    News,
    Relation,
    Rotation,
    SearchHit,
    Session,
    Standing,
    StoredMessage,
)
from holdfast.sessions.deletion import delete_conversation
from holdfast.sessions.inbox import Inbox
from holdfast.sessions.journal import Journal
from holdfast.sessions.lease_keeper import TTL_SECONDS, LeaseKeeper
from holdfast.sessions.leases import Leases, compression_lock, session_lease
from holdfast.sessions.listing import Listed, Listing
from holdfast.sessions.looking import look
from holdfast.sessions.outbox import Outbox
from holdfast.sessions.portable import export_lines, import_lines
from holdfast.sessions.rotation import rotate
from holdfast.sessions.search import Filters, parse_query, search
from holdfast.sessions.standing import Standings
from holdfast.sessions.transcripts import Transcripts
from holdfast.sessions.visiting import visit

T = TypeVar("T")

PATIENCE_SECONDS = 30.0
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
        lease_seconds: float = TTL_SECONDS,
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
        lease_seconds: float = TTL_SECONDS,
    ) -> Self:
        """Open `sqlite:///path` (four slashes for an absolute one) or `postgresql://…`.

        With `create=False` a SQLite file must be there already.
        """
        scheme, separator, rest = url.partition("://")
        if scheme == "sqlite" and rest.startswith("/") and len(rest) > 1:
            return cls(rest[1:], clock=clock, patience=patience, create=create, lease_seconds=lease_seconds)
        if scheme in ("postgresql", "postgres"):
            from holdfast.sessions.postgres import PostgresEngine

            return cls.on(PostgresEngine(url, patience=patience), clock=clock, lease_seconds=lease_seconds)
        raise InvalidInput(
            f"a store's address is sqlite:///PATH or postgresql://HOST/DATABASE, "
            f"not {scheme + separator if separator else url!r}"
        )

    @classmethod
    def on(cls, engine: Engine, *, clock: Clock | None = None, lease_seconds: float = TTL_SECONDS) -> Self:
        """A store on an engine that is open already."""
        db = cls.__new__(cls)
        db._stand_on(engine, clock or SystemClock(), lease_seconds)  # noqa: SLF001 - its own second constructor
        return db

    def _stand_on(self, engine: Engine, clock: Clock, lease_seconds: float) -> None:
        checked_seconds("a lease", lease_seconds)
        self._engine = engine
        self._transcripts = Transcripts(engine)
        self._listing = Listing(engine)
        self._standings = Standings(engine)
        self.turns = Journal(engine)
        self.inbox = Inbox(engine)
        self.asks = Asks(engine)
        self.outbox = Outbox(engine)
        self.leases = Leases(engine)
        self.lease_seconds = lease_seconds
        self.keeper = LeaseKeeper(self.leases, clock, ttl_seconds=lease_seconds)

    async def visit(
        self, pool: DaemonPool, call: Callable[[], T], then: Callable[[T], object] = lambda _: None
    ) -> T:
        """Run a call of this store's methods from an event loop, on SQLite as one transaction.

        It may be run again from the start: it must be short and change nothing but the store. `then` hears of
        its result in any case, and leaves the store alone.
        """
        return await visit(self._engine, pool, call, then)

    @property
    def location(self) -> str:
        """Where the data is, for messages to people; never holds a password."""
        return self._engine.location

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
    ) -> Session:
        """Start a session; a branch or a delegate names its parent."""
        return self._transcripts.create(
            session_id, source=source, title=title, parent=parent, relation=relation
        )

    def get_session(self, session_id: str) -> Session | None:
        return self._transcripts.get(session_id)

    def end_session(self, session_id: str, end_reason: str) -> None:
        """End an idle session for good; `SessionBusy` while a turn runs or messages wait in it."""
        self._transcripts.end(session_id, end_reason)

    def set_title(self, session_id: str, title: str | None) -> None:
        """Name the whole conversation; None takes its name away."""
        self._listing.rename(session_id, title)

    def set_pinned(self, session_id: str, pinned: bool) -> None:
        self._listing.pin(session_id, pinned)

    def set_archived(self, session_id: str, archived: bool) -> None:
        self._listing.archive(session_id, archived)

    def delete_session(self, session_id: str, *, holder: str | None = None, force: bool = False) -> Deleted:
        """Delete the whole conversation: messages, turns, inbox, outbox and leases of all its sessions.

        Its subagents' sessions go with it; branches that left it keep their copies. `SessionBusy` while it is
        run or messages wait in it. `StillOwed` while deliveries to memory are owed or set aside, unless
        `force`, which also deletes what waits. A `holder` of the session's lease deletes under it.
        """
        lease = None
        if holder is not None:
            name = session_lease(self.root(session_id))
            lease = self.keeper.held(name, holder)
            if lease is None:
                raise LeaseLost(name, holder)
        deleted = delete_conversation(self._engine, session_id, lease=lease, force=force)
        if lease is not None:
            # Its row is gone; nothing is left to renew.
            self.keeper.release(lease.name, lease.holder)
        return deleted

    def append_message(self, session_id: str, message: Message, *, turn_id: str | None = None) -> int:
        """Add one message, in a running turn or outside any; returns its sequence number."""
        return self._transcripts.append(session_id, [message], turn_id=turn_id)[0]

    def append_messages(
        self, session_id: str, messages: Sequence[Message], *, turn_id: str | None = None
    ) -> list[int]:
        """Add several messages, all or none."""
        return self._transcripts.append(session_id, messages, turn_id=turn_id)

    def get_messages(self, session_id: str) -> list[Message]:
        """The session's own transcript, ready for a model; empty for an unknown session."""
        return self._transcripts.messages(session_id)

    def read_messages(
        self, session_id: str, *, start: int = 0, limit: int | None = None
    ) -> list[StoredMessage]:
        """Messages with their place, from sequence number `start` on."""
        return self._transcripts.read(session_id, start=start, limit=limit)

    def read_messages_before(
        self, session_id: str, before: int | None = None, *, limit: int | None = None
    ) -> list[StoredMessage]:
        """The last messages that stand before a sequence number, or (None) before the end, in order."""
        return self._transcripts.read_before(session_id, before, limit=limit)

    def message_count(self, session_id: str) -> int:
        """How many messages the session's own transcript has."""
        return self._transcripts.count(session_id)

    def children(self, session_id: str) -> list[str]:
        """Ids of the sessions whose parent is `session_id`."""
        return self._transcripts.children(session_id)

    def lineage(self, session_id: str) -> list[str]:
        """Every session of the conversation this one belongs to, oldest first."""
        return self._transcripts.lineage(session_id)

    def conversation(self, session_id: str) -> list[Session]:
        """The same, each with what is known of it."""
        return self._transcripts.conversation(session_id)

    def root(self, session_id: str) -> str:
        """The first session of the conversation, by which it is known."""
        return self._transcripts.root(session_id)

    def live_end(self, session_id: str) -> str:
        """The session in which this conversation goes on, found from any of its sessions."""
        return self._transcripts.live_end(session_id)

    def look(self, session_id: str) -> Look:
        """The conversation as of one moment, found from any of its sessions."""
        return self._engine.read(lambda tx: look(tx, session_id))

    def uncommitted_sessions(self) -> list[str]:
        """Sessions with completed turns that no boundary commit has covered yet."""
        return self._transcripts.uncommitted()

    def uncommitted_messages(self, session_id: str, *, through: int | None = None) -> list[Message]:
        """All that was said in those turns of a session, oldest turn first, each message once.

        `through` leaves out turns with a later generation: those of another agent, or completed meanwhile.
        """
        return self._transcripts.uncommitted_messages(session_id, through)

    def mark_committed(self, session_id: str, generation: int) -> bool:
        """Record that a commit covered the turns up to `generation`; False when that is no news."""
        return self._transcripts.mark_committed(session_id, generation)

    def list_sessions(
        self,
        *,
        source: str | None = None,
        archived: bool | None = None,
        pinned: bool | None = None,
        limit: int | None = 50,
        offset: int = 0,
    ) -> list[Listed]:
        """One entry for each conversation, at its live end, the one last spoken in first. None: any."""
        return self._listing.sessions(
            source=source, archived=archived, pinned=pinned, limit=limit, offset=offset
        )

    def listed(self, session_id: str) -> Listed:
        """The conversation that a session belongs to, as the list shows it."""
        return self._listing.listed(session_id)

    def standings(self, roots: Iterable[str]) -> list[Standing]:
        """How conversations stand, known by their first sessions; one that is gone is left out."""
        return self._standings.of(roots)

    def news(self, since: int | None = None) -> News:
        """Which conversations are busy, and which changed since an earlier look's `now`."""
        return self._standings.news(since)

    def branch(self, session_id: str, branch_id: str, *, before: int | None = None) -> Session:
        """A new session that begins with copies of the messages before a sequence number; None: of all."""
        return self._listing.branch(session_id, branch_id, before)

    # who runs a conversation

    def hold_session(self, session_id: str, holder: str) -> Lease | None:
        """Take the conversation's lease, or None while another holds it; renewed until let go."""
        return self.keeper.acquire(session_lease(self.root(session_id)), holder)

    def let_go_of_session(self, session_id: str, holder: str) -> None:
        """Does nothing when the lease was lost, or is somebody else's."""
        name = session_lease(session_id)
        # Held under this very name, it is let go without a look at the store, which may be out of reach.
        if self.keeper.held(name, holder) is None:
            name = session_lease(self.root(session_id))
        self.keeper.release(name, holder)

    def session_holder(self, session_id: str) -> str | None:
        """Who runs the conversation now."""
        lease = self.leases.current(session_lease(self.root(session_id)))
        return None if lease is None else lease.holder

    # compaction

    def try_acquire_compression_lock(self, session_id: str, holder: str) -> bool:
        """Take the lease that guards a compaction; it is renewed until released or this process dies."""
        return self.keeper.acquire(compression_lock(session_id), holder) is not None

    def get_compression_lock_holder(self, session_id: str) -> str | None:
        lease = self.leases.current(compression_lock(session_id))
        return None if lease is None else lease.holder

    def release_compression_lock(self, session_id: str, holder: str) -> None:
        """Let go. Does nothing when the lock was lost, or is somebody else's."""
        self.keeper.release(compression_lock(session_id), holder)

    def rotate(
        self,
        session_id: str,
        child_id: str,
        opening: Sequence[Message],
        *,
        carry_from: int,
        holder: str | None = None,
    ) -> Rotation:
        """Continue a session in a child: `opening`, then its own messages from `carry_from` on.

        With a `holder`, only while it holds the compression lock (`LeaseLost` otherwise). Raises
        `AlreadyContinued` with the child to adopt when another rotation came first.
        """
        lease = None
        if holder is not None:
            name = compression_lock(session_id)
            lease = self.keeper.held(name, holder)
            if lease is None:
                raise LeaseLost(name, holder)
        return rotate(self._engine, session_id, child_id, opening, carry_from=carry_from, lease=lease)

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
