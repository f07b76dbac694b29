"""`ScheduleRunner`: runs the schedules of a store in a server.

`run_once` does one thing that is due: it ends runs whose turns have ended, records the runs of a schedule
whose time has come, or sends one run's message into its conversation. The store's clock decides what is due,
so all processes agree. Several may run on one store: guarded updates give each run to one of them, and the
key of a run makes its message the same one however often it is sent.

The task sleeps until something is due, but looks every few moments: another process may have changed a
schedule or ended a turn, and after the machine slept the time is another one.
"""

import asyncio
import logging
from contextlib import suppress
from datetime import UTC, datetime
from math import inf
from typing import Protocol

from holdfast.core.errors import (
    HoldfastError,
    HostClosed,
    InvalidInput,
    Retryable,
    SessionExists,
    StoreClosed,
    StoreFailure,
)
from holdfast.core.events import TURN_ENDS, Event
from holdfast.core.schedule_times import LATE_US
from holdfast.host.contract import Accepted
from holdfast.host.store_calls import StoreCalls
from holdfast.process import is_provably_gone
from holdfast.sessions import SessionDB
from holdfast.sessions.contract import SECOND
from holdfast.sessions.schedules import Schedule, ScheduledRun, ScheduleWork

logger = logging.getLogger(__name__)

LOOK_POLLS = 8
"""How many of a host's polls pass between two looks."""
LOOK_SECONDS = 2.0
SHORTEST_PAUSE = 0.01
SERVER_LEASE = "schedules"
"""Held by one of the servers, to say that there is one."""
SOURCE = "schedule"
TITLE_LENGTH = 60


class Send(Protocol):
    """`SessionHost.send`."""

    async def __call__(
        self, session_id: str, text: str, *, key: str | None = None, create: bool = True
    ) -> Accepted: ...


class ScheduleRunner:
    """Everything on the host's loop; the store is asked off it."""

    def __init__(
        self, db: SessionDB, call: StoreCalls, send: Send, holder: str, *, look_seconds: float = LOOK_SECONDS
    ) -> None:
        self._db = db
        self._call = call
        self._send = send
        self._holder = holder
        self._look_seconds = look_seconds
        self._woken = asyncio.Event()
        self._running = 0
        self._pause = look_seconds

    async def run(self) -> None:
        """Run what is due, until cancelled."""
        try:
            while True:
                if not await self._run_due():
                    return
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._pause):
                        await self._woken.wait()
                self._woken.clear()
        finally:
            # Not released, which would wait for the store: it runs out by itself.
            if (held := self._db.keeper.held(SERVER_LEASE, self._holder)) is not None:
                self._db.keeper.forget(held)

    async def _run_due(self) -> bool:
        """Do all that is due now; False when the store is closed."""
        try:
            await self._call(self._announce)
            while await self.run_once():
                pass
        except (StoreClosed, HostClosed):
            return False
        except Exception:
            logger.exception("host.schedules_failed")
            self._pause = self._look_seconds
        return True

    async def run_once(self) -> bool:
        """Do one thing that is due; False when nothing is."""
        work = await self._call(self._db.schedules.work)
        self._running, self._pause = work.running, min(self._look_seconds, _seconds_to_next(work))
        if work.ended and await self._call(self._db.schedules.settle):
            return True
        if _has_come(work, work.next_due) and await self._call(self._plan, work.now):
            return True
        return _has_come(work, work.next_send) and await self._send_one()

    def on_event(self, event: Event) -> None:
        """A turn has ended in this process: maybe that of a run."""
        if self._running and isinstance(event, TURN_ENDS):
            self._woken.set()

    def _plan(self, now: int) -> bool:
        """Record the runs of one schedule that is due; False when there is none. On a thread."""
        schedule = self._db.schedules.due()
        if schedule is None or schedule.next_due is None:
            return False
        try:
            plan = schedule.times.plan(schedule.next_due, max(now, schedule.next_due), schedule.missed)
        except InvalidInput:
            # Its time zone is not known on this machine. It must not hold up the others.
            logger.exception("host.schedule_paused", extra={"schedule": schedule.id})
            self._db.schedules.pause(schedule.id)
            return True
        if self._db.schedules.plan(schedule, plan):
            due = [run.due for run in plan.runs if run.state == "due"]
            logger.info("host.schedule_due", extra={"schedule": schedule.id, "runs": len(due)})
        return True

    async def _send_one(self) -> bool:
        # A process that dies before its message is sent leaves the run to another one.
        claimed = await self._call(self._db.schedules.claim, lease_seconds=self._db.lease_seconds)
        if claimed is None:
            return False
        schedule, run = claimed
        try:
            if schedule.has_own_session:
                await self._call(self._begin_session, schedule)
            sent = await self._send(schedule.session_id, run_text(schedule, run), key=run.key, create=False)
        except (Retryable, StoreFailure, HostClosed):
            # The claim runs out by itself, and the run is claimed again.
            raise
        except HoldfastError as refused:
            logger.warning("host.run_refused", extra={"run": run.id, "cause": repr(refused)})
            await self._call(self._db.schedules.fail, run, str(refused))
        else:
            await self._call(self._db.schedules.mark_sent, run, sent.inbox_id)
        return True

    def _begin_session(self, schedule: Schedule) -> None:
        """The conversation of a schedule begins with its first run. On a thread."""
        if self._db.get_session(schedule.session_id) is None:
            title = " ".join(schedule.text.split())[:TITLE_LENGTH]
            with suppress(SessionExists):
                self._db.create_session(schedule.session_id, source=SOURCE, title=title)

    def _announce(self) -> None:
        """Let others know that a server runs the schedules. On a thread."""
        if self._db.keeper.held(SERVER_LEASE, self._holder) is not None:
            return
        lease = self._db.leases.current(SERVER_LEASE)
        if lease is not None and is_provably_gone(lease.holder):
            self._db.leases.release(lease)
            lease = None
        if lease is None:
            self._db.keeper.acquire(SERVER_LEASE, self._holder)


def is_served(db: SessionDB) -> bool:
    """Whether a server runs the schedules of this store now. Blocking."""
    lease = db.leases.current(SERVER_LEASE)
    return lease is not None and not is_provably_gone(lease.holder)


def run_text(schedule: Schedule, run: ScheduledRun) -> str:
    """The message of a run: what it is, so that the model takes it for no new request, and what to do."""
    due = datetime.fromtimestamp(run.due / SECOND, UTC).astimezone(schedule.times.zone)
    late = ""
    if run.started is not None and run.started - run.due > LATE_US:
        late = "; it runs late"
        late += f", and {run.missed} earlier times were missed" if run.missed else ""
    when = f"{schedule.rule}, due {due:%A %Y-%m-%d %H:%M} {schedule.zone}"
    return f"[Schedule {schedule.id} ({when}{late}). Do now what it says:]\n\n{schedule.text}"


def _has_come(work: ScheduleWork, moment: int | None) -> bool:
    return moment is not None and moment <= work.now


def _seconds_to_next(work: ScheduleWork) -> float:
    """How long nothing will be due. What is due now and could not be done is tried at the next look."""
    moments = [each for each in (work.next_due, work.next_send) if each is not None and each > work.now]
    return max(SHORTEST_PAUSE, (min(moments) - work.now) / SECOND) if moments else inf
