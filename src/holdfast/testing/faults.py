"""Faults on demand: a store whose process dies just before or just after a commit.

`ProcessDied` is a `BaseException`, so that no `except Exception` catches it: nothing survives a real SIGKILL.
Open a store with `SessionDB.on(CrashingEngine(engine))`. Its operations run the same code as without faults,
on the same thread.
"""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Literal, NoReturn, Self, TypeVar

from holdfast.core.clock import SystemClock
from holdfast.core.errors import StoreClosed
from holdfast.process import DaemonPool
from holdfast.sessions.contract import Engine, Operation, Transaction
from holdfast.sessions.db import PATIENCE_SECONDS

T = TypeVar("T")

Moment = Literal["before", "after"]


class ProcessDied(BaseException):
    """Simulates the death of the process: everything that is not on disk is lost."""

    def __init__(self, moment: Moment) -> None:
        super().__init__(f"the process died {moment} the commit")
        self.moment = moment


def name_of(work: Callable[[Transaction], object]) -> str:
    """The name of an operation; empty for other work."""
    return work.name if isinstance(work, Operation) else ""


class EngineProxy:
    """An engine in front of another one. Subclasses change what happens to each write, on either way to it.

    `changed` gives the work to run in the place of a write and may raise; `done` is called after its commit.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.location = engine.location
        self.recovery = engine.recovery
        self.is_shared = engine.is_shared
        self.notifications = engine.notifications

    def changed(self, work: Callable[[Transaction], T]) -> Callable[[Transaction], T]:
        return work

    def done(self, work: Callable[[Transaction], T]) -> None:
        """The write is committed; what is raised here reaches its caller."""

    def write(self, work: Callable[[Transaction], T]) -> T:
        result = self._engine.write(Operation(name_of(work), self.changed(work)))
        self.done(work)
        return result

    def write_later(self, work: Callable[[Transaction], object], then: Callable[[], object]) -> None:
        self.write(work)
        then()

    async def run(self, operation: Operation[T], pool: DaemonPool) -> T:
        result = await self._engine.run(Operation(name_of(operation), self.changed(operation)), pool)
        self.done(operation)
        return result

    def read(self, work: Callable[[Transaction], T]) -> T:
        return self._engine.read(work)

    def read_once(self, work: Callable[[Transaction], T]) -> T:
        return self.read(work)

    def refresh_search(self) -> None:
        self._engine.refresh_search()

    def check(self) -> list[str]:
        return self._engine.check()

    def backup(self, target: str) -> None:
        self._engine.backup(target)

    def close(self) -> None:
        self._engine.close()


class CrashingEngine(EngineProxy):
    """An engine that dies at a write once it is armed, and works as usual until then.

    Armed "before", all statements of the write run, and none is committed. Armed "after", everything is
    committed, and the caller gets no result. An engine that died "for good" refuses all later reads and
    writes, because some code catches `ProcessDied` and goes on.
    """

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._armed: Moment | None = None
        self._dies_after: Callable[[Transaction], object] | None = None
        self._skip = 0
        self._only: str | None = None
        self._for_good = False
        self.dead = False
        self.written: Counter[str] = Counter()
        """How often each named operation was asked for."""
        self.cut_off: set[tuple[str, Moment]] = set()
        """The named operations at which it has died, and when."""

    @classmethod
    def on_file(cls, path: str | Path) -> Self:
        """The SQLite store in a file, in front of which faults can be armed."""
        from holdfast.sessions.sqlite import SqliteEngine

        return cls(SqliteEngine(str(path), clock=SystemClock(), patience=PATIENCE_SECONDS))

    def arm(self, moment: Moment, *, skip: int = 0, for_good: bool = False, at: str | None = None) -> None:
        """Die at the next write but `skip`, before or after its commit; `at` counts one operation only."""
        self._armed, self._skip, self._for_good, self._only = moment, skip, for_good, at

    def disarm(self) -> None:
        self._armed = None

    def restart(self) -> None:
        """As a new process: it works again, and is not armed."""
        self._armed, self.dead = None, False

    @property
    def armed(self) -> bool:
        """Whether a coming write will die; false again once one has."""
        return self._armed is not None

    def changed(self, work: Callable[[Transaction], T]) -> Callable[[Transaction], T]:
        self._refuse_dead()
        name = name_of(work)
        self.written[name] += 1
        if self._armed is None or self._only not in (None, name):
            return work
        if self._skip:
            self._skip -= 1
            return work
        # Taken once per call: an engine may run `work` again, and it must die again then.
        moment, self._armed, self.dead = self._armed, None, self._for_good
        if moment == "after":
            self._dies_after = work
            return work

        def work_and_die(tx: Transaction) -> NoReturn:
            work(tx)
            self.cut_off.add((name, "before"))
            raise ProcessDied("before")

        return work_and_die

    def done(self, work: Callable[[Transaction], T]) -> None:
        if self._dies_after is work:
            self._dies_after = None
            self.cut_off.add((name_of(work), "after"))
            raise ProcessDied("after")

    def read(self, work: Callable[[Transaction], T]) -> T:
        self._refuse_dead()
        return super().read(work)

    def _refuse_dead(self) -> None:
        if self.dead:
            raise StoreClosed(self.location)
