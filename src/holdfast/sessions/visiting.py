"""The short way from an event loop to a store: an engine with its own thread runs the whole call there."""

from collections.abc import Callable
from typing import TypeVar

from holdfast.process import DaemonPool, off_loop
from holdfast.sessions.contract import Engine

T = TypeVar("T")


async def visit(engine: Engine, pool: DaemonPool, call: Callable[[], T], then: Callable[[T], object]) -> T:
    """As one transaction on the engine's own thread; else on one of the pool's, each step a transaction.

    On SQLite that thread is the writer's: no other is woken.
    """
    coming = engine.visit(call, then)
    if coming is not None:
        return await coming

    def work() -> T:
        result = call()
        then(result)
        return result

    return await off_loop(pool, work)
