"""The named queries: `.sql` files read by aiosql, the shared ones and an engine's own.

Statements live in `sql/`; see docs/decisions/0002 for why there is no query builder. aiosql reads them and
fits their parameters to the driver; they run without it, because its calls add about a microsecond to each.
"""

from collections.abc import Callable
from functools import cache
from importlib.resources import files
from typing import Any

import aiosql
from aiosql.types import SQLOperationType


class Queries:
    """The named queries on one connection; `load_queries` makes a class of it with a method for each."""

    def __init__(self, connection: Any) -> None:  # noqa: ANN401 - either driver's
        self.connection = connection


@cache
def load_queries(engine: str, adapter: str) -> Any:  # noqa: ANN401 - the names are the files'
    """The class of all queries of one engine ('sqlite' or 'postgres') for one aiosql adapter.

    Each takes its parameters by name, and has its text as `sql`. What it returns is said by the mark behind
    its name: `^` one row or None, `$` one value or None, `!` the number of rows that it changed, and without
    a mark all rows, to be iterated once.
    """
    root = files("holdfast.sessions").joinpath("sql")
    texts = [
        source.read_text(encoding="utf-8")
        for folder in ("shared", engine)
        for source in sorted(root.joinpath(folder).iterdir(), key=lambda entry: entry.name)
        if source.name.endswith(".sql")
    ]
    read = aiosql.from_str("\n\n".join(texts), adapter)
    return type("Queries", (Queries,), {name: _query(getattr(read, name)) for name in read.available_queries})


def _query(read: Any) -> Callable[..., Any]:  # noqa: ANN401 - aiosql's are dynamic
    query = RUNNERS[read.operation](read.sql)
    query.__name__, query.__doc__ = read.__name__, read.__doc__
    query.sql = read.sql  # type: ignore[attr-defined]
    return query


def _rows(sql: str) -> Callable[..., Any]:
    return lambda self, **parameters: self.connection.execute(sql, parameters)


def _row(sql: str) -> Callable[..., Any]:
    return lambda self, **parameters: self.connection.execute(sql, parameters).fetchone()


def _value(sql: str) -> Callable[..., Any]:
    def query(self: Queries, **parameters: object) -> Any:  # noqa: ANN401 - either driver's
        row = self.connection.execute(sql, parameters).fetchone()
        return None if row is None else row[0]

    return query


def _count(sql: str) -> Callable[..., Any]:
    return lambda self, **parameters: self.connection.execute(sql, parameters).rowcount


RUNNERS: dict[SQLOperationType, Callable[[str], Callable[..., Any]]] = {
    SQLOperationType.SELECT: _rows,
    SQLOperationType.SELECT_ONE: _row,
    SQLOperationType.SELECT_VALUE: _value,
    SQLOperationType.INSERT_UPDATE_DELETE: _count,
}
