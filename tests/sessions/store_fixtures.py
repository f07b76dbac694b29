"""Messages, turns, deliveries, calls on threads and stores that die, for tests of the store."""

import json
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from hypothesis import strategies as st

from holdfast.core.contract import Message
from holdfast.process import holder_name, is_provably_gone
from holdfast.sessions import Delivery, SessionDB, TurnRecord
from holdfast.sessions.contract import SECOND
from holdfast.sessions.held_lease import HeldLease
from holdfast.testing import CrashingEngine, FakeClock
from tests.polling import pauses

T = TypeVar("T")

LONG = 30.0  # a deadline, never reached

Call = Callable[[], Any]

# Every character but half surrogate pairs; those have tests of their own.
text = st.text(st.characters(codec="utf-8"))
json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=8,
)
parts = st.lists(
    st.fixed_dictionaries({"type": st.just("text"), "text": text})
    | st.fixed_dictionaries({"type": st.just("image_url"), "image_url": json_values}),
    max_size=3,
)
roles = st.sampled_from(["system", "developer", "user", "assistant", "tool"])
messages: st.SearchStrategy[Any] = st.builds(
    lambda extra, plain: {**extra, **plain},
    st.dictionaries(text, json_values, max_size=3),
    st.fixed_dictionaries({"role": roles}, optional={"content": text | st.none() | parts, "name": text}),
)

sendable_messages: st.SearchStrategy[Any] = st.builds(
    lambda extra, plain: {**extra, **plain},
    st.dictionaries(text, json_values, max_size=3),
    st.fixed_dictionaries(
        {"role": roles},
        optional={
            "content": text
            | st.none()
            | st.lists(st.fixed_dictionaries({"type": st.just("text"), "text": text}), max_size=3),
            "name": text,
        },
    ),
)


def user(content: str) -> Message:
    return {"role": "user", "content": content}


def assistant(content: str) -> Message:
    return {"role": "assistant", "content": content}


def contents(said: Sequence[Message]) -> list[Any]:
    return [message.get("content") for message in said]


def completed_turn(
    db: SessionDB, session_id: str, question: str = "why?", *, providers: Sequence[str] = ()
) -> TurnRecord:
    turn = db.turns.open(session_id, user(question))
    return db.turns.complete(turn.id, assistant(f"because of {question}"), providers=providers)


class Outcome:
    """What one call on its own thread came to."""

    def __init__(self, call: Call) -> None:
        self.result: Any = None
        self.error: BaseException | None = None
        self._call = call
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.result = self._call()
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            self.error = error

    def wait(self) -> "Outcome":
        self._thread.join(LONG)
        assert not self._thread.is_alive(), "a caller was left waiting"
        return self

    @property
    def is_waiting(self) -> bool:
        return self._thread.is_alive()


def together(*calls: Callable[[], T]) -> list[T | BaseException]:
    """Start all calls at the same moment, each on its own thread; what each returned or raised."""
    outcomes: dict[int, T | BaseException] = {}
    barrier = threading.Barrier(len(calls))

    def run(number: int, call: Callable[[], T]) -> None:
        barrier.wait(LONG)
        try:
            outcomes[number] = call()
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            outcomes[number] = error

    threads = [
        threading.Thread(target=run, args=(number, call), daemon=True) for number, call in enumerate(calls)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG)
        assert not thread.is_alive()
    return [outcomes[number] for number in range(len(calls))]


def crashing(db: SessionDB) -> tuple[SessionDB, CrashingEngine]:
    """A second store on the engine of the first, which dies when told to."""
    engine = CrashingEngine(db._engine)  # noqa: SLF001 - a store is built on an engine, and keeps it
    return SessionDB.on(engine), engine


def with_own_clock(db: SessionDB) -> tuple[SessionDB, FakeClock]:
    """A second store on the same engine, as a process of its own: it renews leases by its own clock."""
    clock = FakeClock()
    return SessionDB.on(db._engine, clock=clock), clock  # noqa: SLF001 - as above


def hold_lease(db: SessionDB, name: str, holder: str, *, ttl_seconds: float) -> HeldLease:
    """A lease that no thread renews, for a holder that goes on after a pause."""
    lease = db.leases.acquire(name, holder, ttl_seconds=ttl_seconds)
    assert lease is not None
    return HeldLease(lease, ttl_seconds)


def until(condition: Callable[[], bool]) -> None:
    """Wait for something that another thread brings about."""
    deadline, pause, looks = time.monotonic() + LONG, threading.Event(), pauses()
    while not condition():
        assert time.monotonic() < deadline
        pause.wait(next(looks))


LEASE = 60.0


def owe(db: SessionDB, session_id: str, turns: int, *providers: str) -> list[str]:
    """Complete some turns that are owed to the providers; the turns' ids."""
    names = providers or ("p",)
    return [completed_turn(db, session_id, providers=names).id for _ in range(turns)]


def claim(db: SessionDB, limit: int = 1, provider: str = "p") -> list[Delivery]:
    return db.outbox.claim(provider, lease_seconds=LEASE, limit=limit)


def claim_one(db: SessionDB, provider: str = "p") -> Delivery:
    [delivery] = claim(db, provider=provider)
    return delivery


def claim_for_the_dead(db: SessionDB, provider: str = "p", limit: int = 1) -> list[Delivery]:
    """Claimed by a process of this machine that is dead."""
    machine, pid, _, namespace, number = holder_name().split(":")
    dead = f"{machine}:{pid}:1:{namespace}:{number}"  # the process that has this id now began later
    assert is_provably_gone(dead)
    left = claim(db, limit, provider)
    for each in left:
        db.outbox.give_back(each)
    ids = json.dumps([each.id for each in left])
    db._engine.write(  # noqa: SLF001 - a claim names the process that makes it
        lambda tx: list(tx.queries.claim_run(ids=ids, lease=dead, lease_us=int(LEASE * SECOND)))
    )
    return [found(db, each) for each in left]


def found(db: SessionDB, delivery: Delivery) -> Delivery:
    stored = db.outbox.get(delivery.id)
    assert stored is not None
    return stored
