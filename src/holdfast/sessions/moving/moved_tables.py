"""Which tables a move copies, in which order, and the statements that read them. The same on both engines."""

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.sessions.contract import Transaction

GENERATED = frozenset({"previous_seq", "search_vector"})
"""Columns that PostgreSQL works out from the others."""


@dataclass(frozen=True, slots=True)
class MovedTable:
    """One table. Rows are read in the order of its key; a row that refers to another one comes after it."""

    name: str
    key: tuple[str, ...]
    above: str = ""
    """The column that refers to another row of the same table."""
    columns: tuple[str, ...] = ()
    """Those that are moved; empty: all."""
    set_by_triggers: tuple[str, ...] = ()
    """What a trigger works out when a row is added, and that may have been changed since."""

    def moved_columns(self, tx: Transaction) -> tuple[str, ...]:
        """The columns that are moved, as the table has them."""
        if self.columns:
            return self.columns
        found = tx.connection.execute(f"select * from {self.name} limit 0").description  # noqa: S608
        return tuple(each[0] for each in found if each[0] not in GENERATED)

    def rows_after(self, tx: Transaction, place: Sequence[object], most: int) -> list[tuple[object, ...]]:
        """The next rows, each with its place before its columns."""
        mark = tx.dialect.bulk.mark
        columns = ", ".join(f"t.{each}" for each in self.moved_columns(tx))
        keys = self._keys
        past = f"where ({', '.join(keys)}) > ({', '.join([mark] * len(keys))})" if place else ""
        statement = (
            f"{self._line} select {', '.join(keys)}, {columns} from {self._source} {past} "  # noqa: S608
            f"order by {', '.join(keys)} limit {most}"
        )
        return [tuple(row) for row in tx.connection.execute(statement, tuple(place)).fetchall()]

    def count(self, tx: Transaction) -> int:
        return int(tx.connection.execute(f"select count(*) from {self.name}").fetchone()[0])  # noqa: S608

    @property
    def place_size(self) -> int:
        """How many values a place has."""
        return len(self._keys)

    @property
    def _keys(self) -> tuple[str, ...]:
        return ("line.depth", "line.id") if self.above else tuple(f"t.{each}" for each in self.key)

    @property
    def _source(self) -> str:
        return f"line join {self.name} t on t.id = line.id" if self.above else f"{self.name} t"

    @property
    def _line(self) -> str:
        if not self.above:
            return ""
        return (
            f"with recursive line (id, depth) as (select id, 0 from {self.name} where {self.above} is null "  # noqa: S608
            f"union all select c.id, line.depth + 1 from line join {self.name} c on c.{self.above} = line.id)"
        )


TABLES = (
    MovedTable(
        "sessions",
        ("id",),
        above="parent",
        set_by_triggers=("root", "last_active", "changed", "pinned", "archived", "listed"),
    ),
    MovedTable("turns", ("id",)),
    MovedTable("messages", ("id",)),
    MovedTable("inbox", ("id",)),
    MovedTable("asks", ("id",)),
    MovedTable("outbox", ("id",)),
    MovedTable("forgettings", ("id",)),
    MovedTable("forgetting_tasks", ("forgetting_id", "provider")),
    MovedTable("forgotten_turns", ("turn_id",)),
    MovedTable("schedules", ("id",)),
    MovedTable("schedule_runs", ("id",)),
    MovedTable("file_changes", ("id",)),
    MovedTable("model_usage", ("id",)),
    MovedTable("conversation_settings", ("root",)),
    MovedTable("conversation_choices", ("root",)),
    MovedTable("folders", ("name",)),
    MovedTable("own_prompts", ("name",)),
    MovedTable("chat_rooms", ("id",)),
    MovedTable("chat_events", ("id",), above="joined_to"),
    MovedTable("chat_posts", ("id",)),
    MovedTable("chat_parts", ("post_id", "number")),
    MovedTable("chat_people", ("account", "person")),
    MovedTable("chat_pairings", ("code",)),
    MovedTable("chat_cursors", ("account", "name")),
    MovedTable("users", ("id",)),
    MovedTable("stored_sizes", ("session_id",)),
    MovedTable("user_tokens", ("id",)),
    MovedTable("user_identities", ("issuer", "subject")),
    MovedTable("invitations", ("digest",)),
    MovedTable("audit_log", ("id",)),
    MovedTable("deleted_turns", ("id",)),
    MovedTable("deletions", ("root",)),
    # Fencing tokens go on where they were; nobody holds anything in the new store.
    MovedTable("leases", ("name",), columns=("name", "token", "expires")),
)
"""Every table but `meta`, each after those that it refers to."""
