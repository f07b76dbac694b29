"""Databases for tests: one per test, on each engine, with a clock that the test moves."""

import tempfile
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Protocol
from urllib.parse import quote

import psycopg

from holdfast.core.contract import Clock
from holdfast.sessions import SessionDB
from holdfast.sessions.postgres.schema import migrate
from holdfast.testing import FakeClock
from holdfast.testing.postgres_clock import PostgresClock


class StoreClock(Protocol):
    """The store's own time, moved by hand."""

    def advance(self, seconds: float) -> None: ...


@dataclass
class Database:
    """A place for one test's data. `open()` may be called many times, as many processes would."""

    engine: str
    url: str
    clock: StoreClock
    opener: Callable[[], SessionDB]
    opened: list[SessionDB] = field(default_factory=list)

    def open(self) -> SessionDB:
        db = self.opener()
        self.opened.append(db)
        return db

    def close(self) -> None:
        for db in self.opened:
            db.close()


@cache
def _empty_store() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "holdfast.db"
        SessionDB(path).close()
        return path.read_bytes()


def sqlite_file(folder: Path) -> Path:
    """A file as the first opening leaves it: every migration once in a run, not for every test."""
    path = folder / "holdfast.db"
    path.touch(mode=0o600)
    path.write_bytes(_empty_store())
    return path


def sqlite_database(folder: Path, clock: FakeClock | None = None) -> Database:
    path = sqlite_file(folder)
    time = clock or FakeClock()
    local: Clock = time
    return Database(
        engine="sqlite",
        url=f"sqlite:///{path}",
        clock=time,
        opener=lambda: SessionDB(path, clock=local),
    )


class SharedPostgres:
    """One migrated schema for many tests, emptied for each: making one costs more than most tests."""

    def __init__(self, server: str) -> None:
        self.place = PostgresPlace(server)
        migrate(self.place.connection, self.place.url)
        rows = self.place.connection.execute(
            "select tablename from pg_tables where schemaname = current_schema() and tablename <> 'meta'"
        ).fetchall()
        self._tables = [row[0] for row in rows]
        rows = self.place.connection.execute(
            "select sequencename from pg_sequences where schemaname = current_schema()"
        ).fetchall()
        self._begin_anew = "select " + ", ".join(f"setval('{row[0]}', 1, false)" for row in rows)
        self._lock = f"lock table {', '.join(self._tables)} in exclusive mode"
        self._filled = " union all ".join(f"(select '{each}' from {each} limit 1)" for each in self._tables)  # noqa: S608 - the schema's own names

    def empty(self) -> str:
        """The address of the schema, without a row."""
        execute = self.place.connection.execute
        # What an earlier test left open may not hold its tables for long.
        execute("set lock_timeout = '10s'")
        with self.place.connection.transaction():
            # Waits for the transactions of processes that an earlier test left: their rows go too.
            execute(self._lock)
            # No trigger, no foreign key; to truncate makes new files for each table.
            execute("set local session_replication_role = replica")
            for (each,) in execute(self._filled).fetchall():
                execute(f"delete from {each}")  # noqa: S608 - the schema's own names
        execute(self._begin_anew)
        return self.place.url

    def drop(self) -> None:
        self.place.drop()


class StillPostgres(SharedPostgres):
    """The same, with a clock that stands still for every process until a test moves it."""

    def __init__(self, server: str) -> None:
        super().__init__(server)
        self._clock = PostgresClock(self.place.connection)

    def database(self) -> Database:
        url, local = self.empty(), FakeClock()
        self._clock.reset()
        return Database(
            engine="postgres",
            url=url,
            clock=BothClocks(self._clock, local),
            opener=lambda: SessionDB.open(url, clock=local),
        )


class PostgresPlace:
    """An empty schema, and a connection in it for the test itself."""

    def __init__(self, server: str) -> None:
        self.schema = f"test_{uuid.uuid4().hex}"
        separator = "&" if "?" in server else "?"
        self.url = f"{server}{separator}options={quote(f'-csearch_path={self.schema}')}"
        self.connection = psycopg.connect(self.url, autocommit=True)
        self.connection.execute("set client_min_messages = warning")
        self.connection.execute(f"create schema {self.schema}")

    def drop(self) -> None:
        """Remove the schema. What a test left open may not hold it for long."""
        self.connection.execute("set lock_timeout = '10s'")
        self.connection.execute(f"drop schema {self.schema} cascade")
        self.connection.close()


class BothClocks:
    """The store's time and the waiting threads' time, moved together."""

    def __init__(self, store: PostgresClock, local: FakeClock) -> None:
        self._store = store
        self._local = local

    def advance(self, seconds: float) -> None:
        self._store.advance(seconds)
        self._local.advance(seconds)
