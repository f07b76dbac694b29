"""What real processes do in the tests of the PostgreSQL engine: `python -m … ROLE URL`."""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import psycopg

from holdfast.core.errors import StoreClosed
from holdfast.sessions import SessionDB

PROVIDER = "memory"
LEASE = 60


def open_only(url: str) -> None:
    """Open a store that may be opened for the first time by many at once."""
    SessionDB.open(url).close()


def forget_to_close(url: str) -> None:
    """Leave without a word; nothing of the store may hold up the exit."""
    SessionDB.open(url).create_session("forgotten", source="test")


def fork(url: str) -> None:
    """A forked child must not speak on its parent's connections, nor wait for its threads."""
    with SessionDB.open(url) as db:
        db.create_session("before", source="test")
        with elsewhere(db._engine._change):  # type: ignore[attr-defined]  # noqa: SLF001
            child = os.fork()
        if not child:
            signal.alarm(10)
            try:
                db.create_session("in the child", source="test")
            except StoreClosed:
                os._exit(0)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        db.create_session("after", source="test")


@contextmanager
def elsewhere(lock: AbstractContextManager[object]) -> Iterator[None]:
    """Another thread holds the lock meanwhile."""
    taken, let_go = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            taken.set()
            let_go.wait(30)

    threading.Thread(target=hold, daemon=True).start()
    taken.wait(30)
    yield
    let_go.set()


def deliver(url: str) -> None:
    """Claim and deliver until nothing is owed; the provider is a table that notes what reached it."""
    with SessionDB.open(url) as db, psycopg.connect(url, autocommit=True) as provider:
        while db.outbox.backlog(PROVIDER).owed:
            for delivery in db.outbox.claim(PROVIDER, lease_seconds=LEASE, limit=3):
                provider.execute(
                    "insert into reached (session_id, turn_id) values (%s, %s)",
                    (delivery.session_id, delivery.turn_id),
                )
                db.outbox.mark_delivered(delivery)


ROLES = {each.__name__: each for each in (open_only, forget_to_close, fork, deliver)}

if __name__ == "__main__":
    ROLES[sys.argv[1]](sys.argv[2])
