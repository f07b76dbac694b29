"""`StoreCalls`: how the host reaches its store: off the loop, and not any more once it is ending."""

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from holdfast.core.errors import HostClosed, OtherLoop, WrongScope
from holdfast.process import DaemonPool, off_loop
from holdfast.sessions import SessionDB
from holdfast.sessions.contract import OWNER, Operation

T = TypeVar("T")
P = ParamSpec("P")


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
        return await off_loop(self._pool, fn, *args, **kwargs)

    async def run(self, operation: Callable[P, Operation[T]], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """For a named operation: `SessionDB.run`."""
        self.require_open()
        return await self._db.run(self._pool, operation, *args, **kwargs)


def require_scope_of(db: SessionDB, session_id: str, scope: str) -> None:
    """Raises `WrongScope` when the session is of another scope; blocks on the store."""
    if db.sessions.scopes([session_id]).get(session_id, OWNER) != scope:
        raise WrongScope(session_id)
