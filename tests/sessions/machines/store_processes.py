"""Where a stateful machine plays: a fresh database per example, and processes that can die.

A `Process` is a store on an engine of its own. Its lease keeper never wakes, so that nothing happens
between two steps of a machine: time passes and leases are renewed only by the machine's rules.
"""

import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import TypeVar

import pytest

from holdfast.core.errors import HoldfastError, StoreClosed
from holdfast.sessions import Engine, SessionDB
from holdfast.sessions.postgres import PostgresEngine
from holdfast.sessions.sqlite import SqliteEngine
from holdfast.testing import FakeClock
from holdfast.testing.faults import CrashingEngine, Moment, ProcessDied
from holdfast.testing.postgres_clock import PostgresClock
from tests.sessions.databases import PostgresPlace, StoreClock

T = TypeVar("T")

MEMORY_DISK = Path("/dev/shm")


class StoppedClock:
    """The clock of a process that never gets around to its background work."""

    def now(self) -> float:
        return 0.0

    def monotonic(self) -> float:
        return 0.0

    def wait(self, stop: threading.Event, timeout: float) -> bool:
        return stop.wait()


@dataclass
class MachineDatabase:
    """One example's database: engines on it, and its clock."""

    open_engine: Callable[[], Engine]
    clock: StoreClock


NewDatabase = Callable[[], MachineDatabase]


@contextmanager
def sqlite_databases() -> Iterator[NewDatabase]:
    """Fresh files on a disk in memory where there is one; they are gone with the test."""
    room = MEMORY_DISK if MEMORY_DISK.is_dir() else None
    with tempfile.TemporaryDirectory(dir=room, prefix="holdfast-") as folder:
        numbers = count()

        def new_database() -> MachineDatabase:
            clock = FakeClock()
            path = f"{folder}/{next(numbers)}.db"
            return MachineDatabase(lambda: SqliteEngine(path, clock=clock, patience=30), clock)

        yield new_database


@contextmanager
def postgres_databases(server: str) -> Iterator[NewDatabase]:
    """One schema, emptied for each example; its clock only ever goes on."""
    place = PostgresPlace(server)
    SessionDB.open(place.url).close()
    clock = PostgresClock(place.connection)
    emptied = (
        "truncate sessions, turns, messages, inbox, outbox, leases, deletions, schedules, schedule_runs"
        " restart identity cascade"
    )

    def new_database() -> MachineDatabase:
        place.connection.execute(emptied)
        return MachineDatabase(lambda: PostgresEngine(place.url, patience=30, connections=2), clock)

    yield new_database
    place.drop()


class Process:
    """A store that can be told to die at its next commit."""

    def __init__(self, database: MachineDatabase) -> None:
        self.engine = CrashingEngine(database.open_engine())
        self.db = SessionDB.on(self.engine, clock=StoppedClock())

    def die(self) -> None:
        """Leave without a word: nothing is released, nothing is finished."""
        self.engine.close()

    def tidy(self) -> None:
        """End the threads of a store, dead or alive."""
        with suppress(StoreClosed):
            self.db.close()
        self.engine.close()


@dataclass
class StoreProcesses:
    """Several processes on one database. One that dies is replaced by a new one."""

    database: MachineDatabase
    size: int
    processes: list[Process] = field(default_factory=list)
    dead: list[Process] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.processes = [Process(self.database) for _ in range(self.size)]

    def db(self, who: int) -> SessionDB:
        return self.processes[who].db

    def bury(self, who: int) -> None:
        """The process is gone; another one starts in its place."""
        self.processes[who].die()
        self.dead.append(self.processes[who])
        self.processes[who] = Process(self.database)

    def restart(self, who: int) -> None:
        """A clean stop and a new start."""
        self.processes[who].tidy()
        self.processes[who] = Process(self.database)

    def tidy(self) -> None:
        for process in (*self.processes, *self.dead):
            process.tidy()

    def step(
        self, who: int, crash: Moment | None, call: Callable[[SessionDB], T], model: Callable[[], object]
    ) -> T | None:
        """Do something in the store, and in the model what the store says has happened.

        A death before the commit changes nothing, one after it everything, and a refusal is the same on
        both sides. None when the caller got no answer.
        """
        process = self.processes[who]
        if crash is not None:
            process.engine.arm(crash)
        try:
            answer = call(process.db)
        except ProcessDied as death:
            self.bury(who)
            if death.moment == "after":
                model()
            return None
        except HoldfastError as refusal:
            process.engine.disarm()
            must_be_refused(model, refusal)
            return None
        process.engine.disarm()
        model()
        return answer


def must_be_refused(model: Callable[[], object], refusal: HoldfastError) -> None:
    """The model refuses with the same error, down to its facts."""
    with pytest.raises(type(refusal)) as refused:
        model()
    assert vars(refused.value) == vars(refusal)
