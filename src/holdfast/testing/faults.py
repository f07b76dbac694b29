"""Faults on demand: a store whose process dies just before or just after a commit.

`ProcessDied` is a `BaseException`, so no `except Exception` on the way can survive it by accident, as
nothing survives a real SIGKILL. Open a store with `SessionDB.on(CrashingEngine(engine))`.
"""

from collections.abc import Callable
from typing import Literal, NoReturn, TypeVar

from holdfast.core.errors import StoreClosed
from holdfast.sessions.contract import Engine, Transaction

T = TypeVar("T")

Moment = Literal["before", "after"]


class ProcessDied(BaseException):
    """Stands for the death of the process: whatever was not on disk by now is gone."""

    def __init__(self, moment: Moment) -> None:
        super().__init__(f"the process died {moment} the commit")
        self.moment = moment


class CrashingEngine:
    """An engine that dies at a write once it is armed, and works as usual until then.

    Armed "before", all of the write's statements run and then nothing of them is committed. Armed
    "after", everything is committed and the caller never hears of it. One that died "for good" then reads
    and writes nothing, for code that catches what is raised at it.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._armed: Moment | None = None
        self._skip = 0
        self._for_good = False
        self.dead = False
        self.location = engine.location
        self.recovery = engine.recovery

    def arm(self, moment: Moment, *, skip: int = 0, for_good: bool = False) -> None:
        """Die at the next write but `skip`, before or after its commit."""
        self._armed, self._skip, self._for_good = moment, skip, for_good

    def disarm(self) -> None:
        self._armed = None

    @property
    def armed(self) -> bool:
        """Whether a coming write will die; false again once one has."""
        return self._armed is not None

    def write_later(self, work: Callable[[Transaction], object], then: Callable[[], object]) -> None:
        self.write(work)
        then()

    def write(self, work: Callable[[Transaction], T]) -> T:
        self._refuse_dead()
        if self._armed is None or self._skip:
            self._skip = max(0, self._skip - 1)
            return self._engine.write(work)
        # Taken once per call: an engine may run `work` again, and it must die again then.
        moment, self._armed, self.dead = self._armed, None, self._for_good

        def work_and_die(tx: Transaction) -> NoReturn:
            work(tx)
            raise ProcessDied("before")

        if moment == "before":
            return self._engine.write(work_and_die)
        self._engine.write(work)
        raise ProcessDied("after")

    def read(self, work: Callable[[Transaction], T]) -> T:
        self._refuse_dead()
        return self._engine.read(work)

    def visit(self, call: Callable[[], T], then: Callable[[T], object]) -> None:
        """None, so that each write of a call is one at which it may die."""

    def refresh_search(self) -> None:
        self._engine.refresh_search()

    def check(self) -> list[str]:
        return self._engine.check()

    def backup(self, target: str) -> None:
        self._engine.backup(target)

    def close(self) -> None:
        self._engine.close()

    def _refuse_dead(self) -> None:
        if self.dead:
            raise StoreClosed(self.location)
