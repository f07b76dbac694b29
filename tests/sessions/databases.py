"""Databases for tests: one per test, on each engine, with a clock that the test moves."""

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
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


def sqlite_database(folder: Path, clock: FakeClock | None = None) -> Database:
    path = folder / "holdfast.db"
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
        self._place = PostgresPlace(server)
        migrate(self._place.connection, self._place.url)
        rows = self._place.connection.execute(
            "select tablename from pg_tables where schemaname = current_schema() and tablename <> 'meta'"
        )
        self._tables = [row[0] for row in rows]
        self._clock = PostgresClock(self._place.connection)

    def database(self) -> Database:
        """The schema without a row, with a clock that stands still for every process."""
        self._empty()
        url, local = self._place.url, FakeClock()
        return Database(
            engine="postgres",
            url=url,
            clock=BothClocks(self._clock, local),
            opener=lambda: SessionDB.open(url, clock=local),
        )

    def drop(self) -> None:
        self._place.drop()

    def _empty(self) -> None:
        # What an earlier test left open may not hold its tables for long.
        self._place.connection.execute("set lock_timeout = '10s'")
        self._place.connection.execute(f"truncate {', '.join(self._tables)} restart identity")
        self._clock.reset()


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
