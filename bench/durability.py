"""Whether a PostgreSQL server keeps what it has confirmed: a benchmark says so of the server it measured."""

import psycopg

SETTINGS = ("server_version", "fsync", "full_page_writes", "synchronous_commit")


def durability(url: str) -> str:
    """In words, as the server itself tells it."""
    query = f"select {', '.join(f'current_setting({name!r})' for name in SETTINGS)}"
    with psycopg.connect(url) as connection:
        row = connection.execute(query.encode()).fetchone()
    assert row is not None  # noqa: S101 - a select without a table has one
    version, *rest = row
    said = ", ".join(f"{name} {value}" for name, value in zip(SETTINGS[1:], rest, strict=True))
    return f"PostgreSQL {str(version).split()[0]}, {said}"
