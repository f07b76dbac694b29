"""`StoreCalls`: how the host reaches its store: off the loop, and not any more once it is ending."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from holdfast.core.errors import HostClosed
from holdfast.process import DaemonPool, off_loop
from holdfast.sessions import SessionDB

T = TypeVar("T")
P = ParamSpec("P")


class StoreCalls:
    """One for a host and all its parts: closing it closes the door for each of them."""

    def __init__(self, db: SessionDB, pool: DaemonPool) -> None:
        self._db = db
        self._pool = pool
        self.closed = False

    async def __call__(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        if self.closed:
            raise HostClosed
        return await off_loop(self._pool, fn, *args, **kwargs)

    async def visit(self, call: Callable[[], T], then: Callable[[T], object] = lambda _: None) -> T:
        """For short calls that change nothing but the store: `SessionDB.visit`."""
        if self.closed:
            raise HostClosed
        return await self._db.visit(self._pool, call, then)
