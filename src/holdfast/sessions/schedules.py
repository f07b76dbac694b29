"""Schedules: messages that are due at certain times, and the runs that come of them.

When a schedule is due, one process records its runs and moves it on (`plan`), by a guarded update; a run is
unique by its schedule and its due time. A run is claimed, its message is sent with the run's key, and what
was sent is marked: a crash in between leads to the same message again, which the inbox stores once. The run
ends with its turn (`settle`). Telling a chat of it is another state: `to_deliver` and `settle_delivery`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from holdfast.core.errors import InvalidInput, ScheduleNotFound, WrongScheduleState
from holdfast.core.ids import id_for, new_id
from holdfast.core.schedule_rules import normal_text
from holdfast.core.schedule_times import MISSED_POLICIES, MissedPolicy, RunPlan, ScheduleTimes
from holdfast.sessions.codec import UNSTORABLE, checked_limit, checked_name, checked_seconds, is_storable
from holdfast.sessions.contract import Engine, Operation, Transaction
from holdfast.sessions.operations import operation
from holdfast.sessions.transcripts import root_of

ScheduleState = Literal["active", "paused", "removed"]
RunState = Literal["due", "running", "done", "failed", "skipped"]
RunDelivery = Literal["none", "due", "sent", "failed"]

KEPT_RUNS = 100
"""How many runs of a schedule stay on record."""
MAX_ERROR_LENGTH = 2_000
MAX_TEXT_LENGTH = 100_000


@dataclass(frozen=True, slots=True)
class NewSchedule:
    """A schedule to be added."""

    text: str
    rule: str
    zone: str
    session_id: str | None = None
    """The conversation that it speaks in; None: one of its own."""
    missed: MissedPolicy = "once"
    room: str | None = None
    """The chat that is told how a run ended."""
    scope: str = ""
    """Whose it is; empty: the owner's of the store."""
    created_by: str = ""


@dataclass(frozen=True, slots=True)
class Schedule:
    """A schedule as the store has it."""

    id: int
    scope: str
    session_id: str
    has_own_session: bool
    text: str
    rule: str
    zone: str
    missed: MissedPolicy
    state: ScheduleState
    next_due: int | None
    """None: it is never due any more."""
    room: str | None
    created_by: str
    created: int

    @property
    def times(self) -> ScheduleTimes:
        return ScheduleTimes.read(self.rule, self.zone, self.created)


@dataclass(frozen=True, slots=True)
class ScheduledRun:
    """One run of a schedule."""

    id: int
    schedule_id: int
    due: int
    state: RunState
    missed: int
    """How many times before it were missed and have no run."""
    inbox_id: int | None
    turn_id: str | None
    room: str | None
    """The chat to tell of it, as the schedule named it when the run was due."""
    delivery: RunDelivery
    error: str
    delivery_error: str
    created: int
    started: int | None
    ended: int | None

    @property
    def key(self) -> str:
        """The key that its message is sent with, the same for every try."""
        return id_for("scheduled run", str(self.schedule_id), str(self.due))


@dataclass(frozen=True, slots=True)
class ScheduleWork:
    """What there is to do, and when."""

    now: int
    next_due: int | None
    next_send: int | None
    running: int
    ended: int


class Schedules:
    """The schedules of a store."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    # by a person or an agent

    def add(self, new: NewSchedule) -> Schedule:
        """Store a schedule; `InvalidInput` for a rule that is not understood, or never comes."""
        return self._engine.write(add_schedule(new))

    def all(self, scope: str | None = None) -> list[Schedule]:
        """All schedules, or those of one scope, oldest first."""
        return self._engine.read(
            lambda tx: [_schedule(row) for row in tx.queries.list_schedules(scope=scope)]
        )

    def get(self, schedule_id: int) -> Schedule | None:
        return self._engine.read(lambda tx: _find(tx, schedule_id))

    def pause(self, schedule_id: int) -> None:
        """From now on it is not due; a run that no process has claimed yet is skipped."""

        def work(tx: Transaction) -> None:
            if not tx.queries.pause_schedule(id=schedule_id):
                raise _wrong_state(tx, schedule_id, "paused")
            tx.queries.skip_due_runs(schedule_id=schedule_id)

        self._engine.write(Operation("pause_schedule", work))

    def resume(self, schedule_id: int) -> Schedule:
        """It is due again from its next time on; the times of the pause are left out."""

        def work(tx: Transaction) -> Schedule:
            found = _require(tx, schedule_id)
            next_due = found.times.after(_now(tx))
            if next_due is None:
                raise InvalidInput(f"the time of schedule {schedule_id} has passed; add another one")
            if not tx.queries.resume_schedule(id=schedule_id, next_due=next_due):
                raise _wrong_state(tx, schedule_id, "resumed")
            return _require(tx, schedule_id)

        return self._engine.write(Operation("resume_schedule", work))

    def remove(self, schedule_id: int) -> None:
        """Delete it with its runs. A run that is under way goes on, and is told to its chat."""

        def work(tx: Transaction) -> None:
            if not tx.queries.remove_schedule(id=schedule_id):
                raise ScheduleNotFound(schedule_id)
            _forget_removed(tx)

        self._engine.write(Operation("remove_schedule", work))

    def run_now(self, schedule_id: int) -> ScheduledRun:
        """Let it run once beside its times, also while it is paused."""

        def work(tx: Transaction) -> ScheduledRun:
            _require(tx, schedule_id)
            now = _now(tx)
            tx.queries.add_run(schedule_id=schedule_id, due=now, state="due", missed=0)
            return next(run for run in _runs(tx, schedule_id, KEPT_RUNS) if run.due == now)

        return self._engine.write(Operation("run_schedule", work))

    def runs(self, schedule_id: int, *, limit: int = 20) -> list[ScheduledRun]:
        """Its runs, newest first."""
        checked_limit(limit)
        return self._engine.read(lambda tx: _runs(tx, schedule_id, limit))

    # by the process that runs them

    def work(self) -> ScheduleWork:
        """What there is to do; one statement, whose cost grows with what is open."""
        return self._engine.read_once(lambda tx: ScheduleWork(*tx.queries.schedule_work()))

    def due(self) -> Schedule | None:
        """A schedule that is due and whose runs are not recorded."""

        def work(tx: Transaction) -> Schedule | None:
            row = tx.queries.due_schedule()
            return None if row is None else _schedule(row)

        return self._engine.read(work)

    def plan(self, schedule: Schedule, plan: RunPlan) -> bool:
        """Record the runs of a schedule and move it on; False when another process did, or it was changed."""

        def work(tx: Transaction) -> bool:
            moved = tx.queries.move_schedule(id=schedule.id, seen=schedule.next_due, next_due=plan.next_due)
            if not moved:
                return False
            for run in plan.runs:
                tx.queries.add_run(schedule_id=schedule.id, due=run.due, state=run.state, missed=run.missed)
            tx.queries.forget_old_runs(schedule_id=schedule.id, keep=KEPT_RUNS)
            return True

        return self._engine.write(Operation("plan_runs", work))

    def claim(self, *, lease_seconds: float) -> tuple[Schedule, ScheduledRun] | None:
        """Take a run whose message is to be sent; when it is not marked in time, it can be claimed again."""
        lease_us = checked_seconds("a claim", lease_seconds)

        def work(tx: Transaction) -> tuple[Schedule, ScheduledRun] | None:
            row = tx.queries.claimable_run()
            if row is None or not tx.queries.claim_scheduled_run(id=row[0], lease_us=lease_us):
                return None
            schedule = _schedule(tx.queries.schedule_of_run(id=row[0]))
            return schedule, ScheduledRun(*tx.queries.get_run(id=row[0]))

        return self._engine.write(Operation("claim_scheduled_run", work))

    def mark_sent(self, run: ScheduledRun, inbox_id: int) -> bool:
        """Its message is stored. False when another process has marked or ended it: nothing changes."""

        def work(tx: Transaction) -> bool:
            return bool(tx.queries.mark_run_sent(id=run.id, inbox_id=inbox_id))

        return self._engine.write(Operation("mark_run_sent", work))

    def fail(self, run: ScheduledRun, error: str) -> bool:
        """Its message can't be sent. False as with `mark_sent`."""

        def work(tx: Transaction) -> bool:
            failed = bool(tx.queries.fail_run(id=run.id, error=_kept(error)))
            _forget_removed(tx)
            return failed

        return self._engine.write(Operation("fail_run", work))

    def settle(self) -> int:
        """End the runs whose turns have ended, in whichever process; returns how many."""

        def work(tx: Transaction) -> int:
            settled = int(tx.queries.settle_runs())
            if settled:
                _forget_removed(tx)
            return settled

        return self._engine.write(Operation("settle_runs", work))

    # by whoever tells the chats

    def to_deliver(self, *, limit: int = 100) -> list[ScheduledRun]:
        """The runs that have ended and that a chat is still to be told of, oldest first."""
        checked_limit(limit)
        return self._engine.read(
            lambda tx: [ScheduledRun(*row) for row in tx.queries.runs_to_deliver(limit=limit)]
        )

    def settle_delivery(self, run_id: int, state: Literal["sent", "failed"], error: str = "") -> bool:
        """Its chat was told, or can't be. False when that was settled before."""
        return self._engine.write(
            Operation("settle_run_delivery", lambda tx: settle_run_delivery(tx, run_id, state, error))
        )


def settle_run_delivery(
    tx: Transaction, run_id: int, state: Literal["sent", "failed"], error: str = ""
) -> bool:
    """For an operation that stores the message to a chat in the same transaction."""
    settled = bool(tx.queries.settle_run_delivery(id=run_id, delivery=state, error=_kept(error)))
    _forget_removed(tx)
    return settled


@operation
def add_schedule(new: NewSchedule) -> Callable[[Transaction], Schedule]:
    """Store a schedule, due at its first time."""
    _check(new)
    own = new.session_id is None

    def work(tx: Transaction) -> Schedule:
        now = _now(tx)
        next_due = ScheduleTimes.read(new.rule, new.zone, now).after(now)
        if next_due is None:
            raise InvalidInput(f"{new.rule!r:.80} never comes, or has passed already in {new.zone}")
        session_id = new_id() if new.session_id is None else root_of(tx, new.session_id)
        schedule_id = tx.queries.add_schedule(
            scope=new.scope,
            session_id=session_id,
            own_session=int(own),
            text=new.text,
            rule=normal_text(new.rule),
            zone=new.zone,
            missed=new.missed,
            next_due=next_due,
            room=new.room,
            created_by=new.created_by,
            created=now,
        )
        return _require(tx, schedule_id)

    return work


def _check(new: NewSchedule) -> None:
    if not new.text.strip() or len(new.text) > MAX_TEXT_LENGTH or not is_storable(new.text):
        raise InvalidInput(
            f"a schedule says what to do, in 1 to {MAX_TEXT_LENGTH:,} characters of plain text"
        )
    if new.missed not in MISSED_POLICIES:
        raise InvalidInput(f"missed is one of {', '.join(MISSED_POLICIES)}, not {new.missed!r:.40}")
    if new.room is not None:
        checked_name("a room", new.room)
    for what, value in (("a scope", new.scope), ("who adds it", new.created_by)):
        if value:
            checked_name(what, value)
    ScheduleTimes.read(new.rule, new.zone, 0)


def _schedule(row: Sequence[Any]) -> Schedule:
    number, scope, session_id, own, *rest = row
    return Schedule(number, scope, session_id, bool(own), *rest)


def _find(tx: Transaction, schedule_id: int) -> Schedule | None:
    row = tx.queries.get_schedule(id=schedule_id)
    return None if row is None else _schedule(row)


def _require(tx: Transaction, schedule_id: int) -> Schedule:
    found = _find(tx, schedule_id)
    if found is None:
        raise ScheduleNotFound(schedule_id)
    return found


def _runs(tx: Transaction, schedule_id: int, limit: int) -> list[ScheduledRun]:
    return [ScheduledRun(*row) for row in tx.queries.runs_of_schedule(schedule_id=schedule_id, limit=limit)]


def _wrong_state(tx: Transaction, schedule_id: int, wanted: str) -> WrongScheduleState:
    return WrongScheduleState(schedule_id, _require(tx, schedule_id).state, wanted)


def _forget_removed(tx: Transaction) -> None:
    tx.queries.forget_removed_runs()
    tx.queries.forget_removed_schedules()


def _now(tx: Transaction) -> int:
    return int(tx.queries.store_time())


def _kept(error: str) -> str:
    # An error may hold anything; it must be storable whatever it says.
    return UNSTORABLE.sub("\ufffd", error)[:MAX_ERROR_LENGTH]
