"""`reads_limited_to`: what this thread reads from a store meanwhile is only what belongs to one scope.

The first wall between accounts is the code that asks for a scope. On PostgreSQL this is the second: the
server itself leaves out the rows of others (`postgres/row_security.py`), whatever the code asks for. SQLite
has no such means; there it changes nothing. Writes are not limited.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from holdfast.sessions.contract import OWNER

_scope: ContextVar[str] = ContextVar("read_limit", default=OWNER)


@contextmanager
def reads_limited_to(scope: str) -> Iterator[None]:
    """Until the end of the block; the owner's scope is no limit, since the owner may see everything."""
    before = _scope.set(scope)
    try:
        yield
    finally:
        _scope.reset(before)


def read_limit() -> str:
    """The scope to which reads are limited now, or the owner's."""
    return _scope.get()
