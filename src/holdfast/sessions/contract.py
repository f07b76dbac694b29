"""What the session store is: its rows as dataclasses, and the engine it runs on.

Read this first, then `db.py` (the public face), then one of the parts: `transcripts.py`, `journal.py`,
`inbox.py`, `asks.py`, `outbox.py`, `leases.py`, `rotation.py`. Every change of the store is an `Operation`: a
transaction with a name (`operations.py` lists them). An `Engine` runs them on SQLite or on PostgreSQL. Times
are microseconds since the epoch.
"""

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, Protocol, TypeVar

from holdfast.core.contract import Message
from holdfast.process import DaemonPool
from holdfast.sessions.bulk_dialect import BulkDialect

T = TypeVar("T")

Relation = Literal["continuation", "branch", "delegate"]
Mode = Literal["queue", "steer", "interrupt"]
MODES: tuple[Mode, ...] = ("queue", "steer", "interrupt")

OWNER = ""
"""The scope of the owner of this installation; every other name is a person or a room."""
API_SOURCE = "api"
"""The source of sessions that clients of `/v1` begin without naming one: they belong to no person's list."""
SECOND = 1_000_000
"""One second in the store's unit of time."""


def scope_folder(scope: str) -> str:
    """A name for a folder of a scope; different scopes have different ones."""
    readable = re.sub(r"[^A-Za-z0-9_-]+", "-", scope)[:40].strip("-")
    return f"{readable}-{hashlib.sha256(scope.encode('utf-8', 'surrogatepass')).hexdigest()[:24]}"


class Dialect(Protocol):
    """What the engines do in different ways."""

    @property
    def bulk(self) -> BulkDialect:
        """For moving a store."""
        ...

    def match_expression(self, phrases: Sequence[Sequence[str]]) -> str:
        """All of these phrases, as the engine's word index understands it."""
        ...

    def add_message(
        self,
        tx: "Transaction",
        session_id: str,
        turn_id: str | None,
        columns: tuple[str, str | None, str | None],
    ) -> Callable[[], int | None]:
        """Store role, content and extra at the end of a session; the function gives the sequence number.

        None when the session is not open, or the turn is given and does not run in it. When the session was
        last active is on record to the second: of many messages in a row, few write it anew.
        """
        ...

    def forget_words(self, tx: "Transaction", root: str) -> None:
        """Take a conversation's messages, which are about to be deleted, out of the word index."""
        ...


@dataclass(frozen=True, slots=True)
class Transaction:
    """One open transaction: a connection and the named queries that run on it."""

    connection: Any
    queries: Any
    dialect: Dialect
    alone: bool
    """Whether no other transaction can write beside this one, so that rows need no locks."""


@dataclass(frozen=True, slots=True)
class Operation(Generic[T]):
    """A change of the store with a name: one transaction, all of it or nothing."""

    name: str
    work: Callable[[Transaction], T]

    def __call__(self, tx: Transaction) -> T:
        return self.work(tx)


LONGEST_NOTE = 7_000
"""How many bytes a note to other processes may have."""


class Notifications(Protocol):
    """What processes on one store tell each other at once. All of it may be lost: the store is the truth.

    Where a database has no such thing, nothing is told, and whoever wants to know looks now and again.
    """

    is_listening: bool
    """Whether other processes are heard just now."""

    def subscribe(self, hear: Callable[[str], object]) -> Callable[[], None]:
        """Call `hear`, on a thread, with each note of another process, and with "" when one has stored.

        Returns a function that ends it.
        """
        ...

    def send(self, note: str) -> None:
        """Send a note of at most `LONGEST_NOTE` bytes to the other processes."""
        ...


class NoNotifications:
    """A store whose processes don't hear each other."""

    is_listening = False

    def subscribe(self, hear: Callable[[str], object]) -> Callable[[], None]:
        del hear
        return lambda: None

    def send(self, note: str) -> None:
        """Nobody hears it."""


class Engine(Protocol):
    """Runs units of work on a database.

    A unit of work may be run again from the start when the database asks for it, so it changes nothing
    but the database. When a write returns, what it wrote survives a power cut; if it raises, nothing is left.
    """

    location: str
    recovery: str
    """What a person can do when the database is damaged."""
    is_shared: bool
    """Whether programs on other machines may use it too."""

    @property
    def notifications(self) -> Notifications:
        """What the processes on this database tell each other at once."""
        ...

    def write(self, work: Callable[[Transaction], T]) -> T:
        """Run `work` in a transaction of its own; an exception undoes it and is raised here."""
        ...

    def write_later(self, work: Callable[[Transaction], object], then: Callable[[], object]) -> None:
        """Run `work` after everything written so far, and call `then`.

        It is waited for only where that buys durability: in memory the call returns at once, and a failure
        is logged. Whatever is read or written from `then` on finds the work done.
        """
        ...

    def read(self, work: Callable[[Transaction], T]) -> T:
        """Run `work` on one consistent snapshot."""
        ...

    def read_once(self, work: Callable[[Transaction], T]) -> T:
        """`read` for work that asks one query, which sees one moment by itself: that costs less."""
        ...

    async def run(self, operation: Operation[T], pool: DaemonPool) -> T:
        """`write` for an event loop. An engine with a writer of its own needs no thread of the pool."""
        ...

    def refresh_search(self) -> None:
        """Bring the search index up to the last message."""
        ...

    def check(self) -> list[str]:
        """Every inconsistency found in the database; empty when it is sound."""
        ...

    def backup(self, target: str) -> None:
        """Copy the live database to a new file."""
        ...

    def close(self) -> None:
        """Finish what was submitted and let go of the database. Idempotent."""
        ...


@dataclass(frozen=True, slots=True)
class Session:
    """One transcript. `parent` and `relation` say where it came from, `end_reason` why it ended."""

    id: str
    parent: str | None
    relation: Relation | None
    source: str
    title: str | None
    started: int
    ended: int | None
    end_reason: str | None
    generation: int
    committed_generation: int
    scope: str = ""
    """Whose conversation it is; empty: that of the owner of this installation."""


@dataclass(frozen=True, slots=True)
class ConversationChoice:
    """What a person chose for one conversation; empty: the usual model and workspace, and no folder."""

    model: str = ""
    workspace: str = ""
    folder: str = ""


NOTHING_CHOSEN = ConversationChoice()


@dataclass(frozen=True, slots=True)
class SessionStart:
    """A session that is about to begin."""

    id: str
    source: str
    title: str | None = None
    scope: str = ""
    choice: ConversationChoice = NOTHING_CHOSEN


@dataclass(frozen=True, slots=True)
class TurnRecord:
    """The row of one turn: one user message and all that follows from it."""

    id: str
    session_id: str
    state: str
    started: int
    ended: int | None
    reason: str | None
    generation: int | None


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A message with its place. `carried` marks a copy that a rotation brought along."""

    session_id: str
    seq: int
    turn_id: str | None
    created: int
    carried: bool
    message: Message


@dataclass(frozen=True, slots=True)
class InboxMessage:
    """A user's word, stored before anything else happens to it."""

    id: int
    session_id: str
    mode: Mode
    message: Message
    state: str
    turn_id: str | None
    addressed_to: str | None
    key: str | None
    created: int
    is_repeat: bool = field(default=False, compare=False)
    """The answer to a put whose key an earlier message has: this is that one."""


@dataclass(frozen=True, slots=True)
class ConversationState:
    """A conversation as of one moment: the session it goes on in, what waits there, and how far it got."""

    live: str
    waiting: tuple[InboxMessage, ...]
    open_turn: str | None
    messages: int
    """How many the live session has."""
    started: int
    """When the live session began: one that was deleted and begun again is another one of the same name."""
    scope: str = ""
    tool_profile: str = ""
    """The tool profile that was chosen for it; empty: none was."""

    def first(self, parked: int = 0) -> InboxMessage | None:
        """The message whose turn it is; those up to the inbox id `parked` wait for a person's word."""
        return self.waiting[0] if self.waiting and self.waiting[0].id > parked else None

    def is_idle(self, *, parked: int, recovers: bool) -> bool:
        """Whether nothing is to be done: no message's turn and, if `recovers`, no open turn to go on with."""
        return self.first(parked) is None and not (recovers and self.open_turn is not None)


@dataclass(frozen=True, slots=True)
class BusyConversation:
    """A conversation in which a turn is open or a message waits, and who holds its lease now, if anybody."""

    root_id: str
    has_open_turn: bool
    holder: str | None


@dataclass(frozen=True, slots=True)
class Ask:
    """What a turn waits for a person to say; `event` shows it."""

    id: str
    turn_id: str
    lease: str
    event: dict[str, Any]
    state: str
    answer: str | None
    created: int


@dataclass(frozen=True, slots=True)
class Delivery:
    """One completed turn owed to one provider."""

    id: int
    session_id: str
    turn_id: str
    provider: str
    state: str
    attempts: int
    due: int
    lease: str | None
    last_error: str | None
    created: int
    settled: int | None


@dataclass(frozen=True, slots=True)
class TurnHistory:
    """All that is on record of one turn: its own messages once each, and what memory is or was owed."""

    turn: TurnRecord
    root_id: str
    messages: tuple[StoredMessage, ...]
    deliveries: tuple[Delivery, ...]
    timeline: dict[str, Any] | None
    """How it spent its time; None while it runs, and for one that ran elsewhere."""


@dataclass(frozen=True, slots=True)
class ProviderTurn:
    """A completed turn for memory: its own messages, those for providers, when it ended, and its scope."""

    own: list[Message]
    handed: list[Message]
    ended: int
    scope: str


@dataclass(frozen=True, slots=True)
class Backlog:
    """What one provider is owed."""

    provider: str
    owed: int
    oldest: int | None
    set_aside: int


@dataclass(frozen=True, slots=True)
class Lease:
    """A name held by one holder until a moment. `token` grows with each holder (fencing)."""

    name: str
    holder: str
    token: int
    expires: int


@dataclass(frozen=True, slots=True)
class ClaimedConversation:
    """A conversation's lease, taken, and the conversation as it was in that moment."""

    lease: Lease
    state: ConversationState


@dataclass(frozen=True, slots=True)
class ReleasedConversation:
    """A conversation as it was when its holder asked to let it go; `released` says whether it was."""

    state: ConversationState
    released: bool
    completed: tuple[Session, ...] = ()
    """The sessions that the holder had asked about, which still are there."""


@dataclass(frozen=True, slots=True)
class Rotation:
    """The outcome of a compaction: the child, and how many messages came along verbatim."""

    child_id: str
    carried: int


@dataclass(frozen=True, slots=True)
class StoredStatus:
    """How a conversation stands: where it goes on, the turn that is open, what waits, and who runs it."""

    root_id: str
    session_id: str
    title: str | None
    pinned: bool
    archived: bool
    ended: bool
    turn_id: str | None
    waiting: int
    holder: str | None


@dataclass(frozen=True, slots=True)
class Deleted:
    """A conversation that is gone, and the ids of its sessions, its subagents' included."""

    root_id: str
    sessions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SnippetPart:
    """A piece of a search hit's text; `match` is true where the query was found."""

    text: str
    match: bool


@dataclass(frozen=True, slots=True)
class SearchHit:
    """A message that was found, with its place."""

    session_id: str
    seq: int
    turn_id: str | None
    role: str
    created: int
    source: str
    title: str | None
    snippet: tuple[SnippetPart, ...]
