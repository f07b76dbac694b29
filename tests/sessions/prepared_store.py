"""A store as each named operation wants to find it, and how an operation is asked for as production does."""

import asyncio
from collections.abc import Callable
from typing import Any

from holdfast.process import DaemonPool
from holdfast.sessions import SessionDB
from holdfast.sessions.contract import Operation
from holdfast.sessions.held_lease import HeldLease
from tests.sessions.store_fixtures import claim_one, completed_turn, hold_lease, user

Ask = Callable[[SessionDB], object]
POOL = DaemonPool("store", workers=1, backlog=10)


def on_a_loop(operation: Callable[..., Operation[Any]], *args: object, **kwargs: object) -> Ask:
    return lambda db: asyncio.run(db.run(POOL, operation, *args, **kwargs))


class Prepared:
    """A store with one session, as each operation wants to find it."""

    def __init__(self, db: SessionDB) -> None:
        self.db = db
        db.create_session("s", source="cli")

    def waits(self, **how: Any) -> int:  # noqa: ANN401
        return self.db.inbox.put("s", user("waits"), **how).id

    def runs(self) -> str:
        return self.db.turns.open("s", user("runs"), turn_id="t").id

    def held(self, name: str = "session:s") -> HeldLease:
        return hold_lease(self.db, name, "me", ttl_seconds=600)

    def asks(self) -> HeldLease:
        self.runs()
        lease = self.held()
        self.db.asks.put("a", "t", {"type": "question"}, lease=lease)
        return lease

    def answered(self) -> None:
        lease = self.asks()
        assert self.db.asks.answer("a", "blue", lease_name=lease.name)

    def owes(self) -> None:
        completed_turn(self.db, "s", providers=["p"])

    def set_aside(self) -> int:
        self.owes()
        delivery = claim_one(self.db)
        self.db.outbox.set_aside(delivery, error="no")
        return delivery.id
