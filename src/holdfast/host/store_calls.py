"""`StoreCalls`: how the host reaches its store: off the loop, and not any more once it is ending.

A request of an account limits what its own task reads (`limit_reads`): see `sessions/read_limit.py`. What the
host does for it in tasks of its own is not limited, because these outlive the request and serve others too.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import ParamSpec, TypeVar

from holdfast.core.errors import HostClosed, OtherLoop, WrongScope
from holdfast.process import DaemonPool, off_loop
from holdfast.sessions import SessionDB
from holdfast.sessions.contract import OWNER, Operation
from holdfast.sessions.read_limit import reads_limited_to

T = TypeVar("T")
P = ParamSpec("P")

_limit: ContextVar[tuple[asyncio.Task[object] | None, str]] = ContextVar("limit", default=(None, OWNER))


@contextmanager
def limit_reads(scope: str) -> Iterator[None]:
    """Limit what the current task, and none that it starts, reads from a store to a scope."""
    before = _limit.set((asyncio.current_task(), scope))
    try:
        yield
    finally:
        _limit.reset(before)


class StoreCalls:
    """Shared by a host and all its parts: once it is closed, none of them reaches the store."""

    def __init__(self, db: SessionDB, pool: DaemonPool) -> None:
        self._db = db
        self._pool = pool
        self._loop = asyncio.get_running_loop()
        self.closed = False

    def require_open(self) -> None:
        """Raise `HostClosed` once the host is ending, and `OtherLoop` on another loop than the host's."""
        if self.closed:
            raise HostClosed
        if asyncio.get_running_loop() is not self._loop:
            raise OtherLoop("host")

    async def __call__(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        self.require_open()
        task, scope = _limit.get()
        if scope == OWNER or task is not asyncio.current_task():
            return await off_loop(self._pool, fn, *args, **kwargs)

        def limited() -> T:
            with reads_limited_to(scope):
                return fn(*args, **kwargs)

        return await off_loop(self._pool, limited)

    async def run(self, operation: Callable[P, Operation[T]], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """For a named operation: `SessionDB.run`."""
        self.require_open()
        return await self._db.run(self._pool, operation, *args, **kwargs)


def require_scope_of(db: SessionDB, session_id: str, scope: str) -> None:
    """Raises `WrongScope` when the session is of another scope; blocks on the store."""
    if db.sessions.scopes([session_id]).get(session_id, OWNER) != scope:
        raise WrongScope(session_id)
