"""The named queries: `.sql` files read by aiosql, the shared ones and an engine's own.

Statements live in `sql/`; see docs/decisions/0002 for why there is no query builder. aiosql reads them and
fits their parameters to the driver; they run without it, because its calls add about a microsecond to each.
"""

from collections.abc import Callable, Iterator
from functools import cache
from importlib.resources import files
from typing import Any

import aiosql
from aiosql.types import SQLOperationType


class Queries:
    """The named queries on one connection; `load_queries` makes a class of it with a method for each."""

    ahead_class: type["Queries"]

    def __init__(self, connection: Any) -> None:  # noqa: ANN401 - either driver's
        self.connection = connection

    @property
    def ahead(self) -> Any:  # noqa: ANN401 - the names are the files'
        """The same queries, each of which returns a function that gives its result.

        On PostgreSQL such a query is sent together with the next one that is waited for, in order. On
        SQLite it runs at once. The function may be ignored.
        """
        return self.ahead_class(self.connection)


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
    read = [*_all(aiosql.from_str("\n\n".join(texts), adapter))]
    later = _queued if engine == "postgres" else _run_now
    ahead = type("AheadQueries", (Queries,), {each.__name__: _named(each, later) for each in read})
    base = type("QueriesWithAhead", (Queries,), {"ahead_class": ahead})
    return type("Queries", (base,), {each.__name__: _named(each, _at_once) for each in read})


def _all(read: Any) -> Iterator[Any]:  # noqa: ANN401 - aiosql's are dynamic
    return (getattr(read, name) for name in read.available_queries)


def _named(read: Any, way: Callable[[str, Any], Callable[..., Any]]) -> Callable[..., Any]:  # noqa: ANN401
    query = way(read.sql, read.operation)
    query.__name__, query.__doc__ = read.__name__, read.__doc__
    query.sql = read.sql  # type: ignore[attr-defined]
    return query


def _at_once(sql: str, operation: SQLOperationType) -> Callable[..., Any]:
    return RUNNERS[operation](sql)


def _queued(sql: str, operation: SQLOperationType) -> Callable[..., Any]:
    take = RESULTS[operation]
    return lambda self, **parameters: self.connection.queue(sql, parameters, take)


def _run_now(sql: str, operation: SQLOperationType) -> Callable[..., Any]:
    take = RESULTS[operation]

    def query(self: Queries, **parameters: object) -> Callable[[], Any]:
        result = take(self.connection.execute(sql, parameters))
        return lambda: result

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


def _all_of(cursor: Any) -> Any:  # noqa: ANN401 - either driver's
    return cursor.fetchall()


def _one_of(cursor: Any) -> Any:  # noqa: ANN401 - either driver's
    return cursor.fetchone()


def _value_of(cursor: Any) -> Any:  # noqa: ANN401 - either driver's
    row = cursor.fetchone()
    return None if row is None else row[0]


def _count_of(cursor: Any) -> Any:  # noqa: ANN401 - either driver's
    return cursor.rowcount


RESULTS: dict[SQLOperationType, Callable[[Any], Any]] = {
    SQLOperationType.SELECT: _all_of,
    SQLOperationType.SELECT_ONE: _one_of,
    SQLOperationType.SELECT_VALUE: _value_of,
    SQLOperationType.INSERT_UPDATE_DELETE: _count_of,
}
