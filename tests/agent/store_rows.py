"""Everything that a store holds, read past the code under test."""

import sqlite3
from typing import Any

import psycopg

TABLES = ("sessions", "turns", "messages", "inbox", "outbox", "leases", "meta")


def everything(store_url: str) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of every table, whole."""
    if store_url.startswith("sqlite:///"):
        path = store_url.removeprefix("sqlite:///")
        connection: Any = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    else:
        connection = psycopg.connect(store_url)
    try:
        return {
            table: sorted((tuple(row) for row in connection.execute(f"select * from {table}")), key=repr)  # noqa: S608
            for table in TABLES
        }
    finally:
        connection.close()
