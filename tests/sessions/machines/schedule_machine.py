"""The schedule machine: several servers plan, claim, send and end runs, and die before and after any commit.

A server does what `ScheduleRunner.run_once` does, one operation of the store after another; it may die at
each. The model knows for each schedule the times that have come, and what its policy makes of them.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from holdfast.core.schedule_times import LATE_US, MISSED_POLICIES, SECOND, MissedPolicy
from holdfast.sessions import SessionDB
from holdfast.sessions.schedules import NewSchedule, Schedule, ScheduledRun
from holdfast.testing.faults import Moment, ProcessDied
from tests.sessions.machines.store_processes import NewDatabase, StoreProcesses

SERVERS = 3
CLAIM = 20
HOUR = 3600

who = st.integers(0, SERVERS - 1)
moments: st.SearchStrategy[Moment | None] = st.sampled_from([None, None, None, "before", "after"])
pick = st.sampled_from([0, 0, 1, 2, 3])


@dataclass
class ModelSchedule:
    """What a schedule owes: one message for each of these due times, in this order, and no other."""

    schedule: Schedule
    next_due: int
    is_active: bool = True
    owed: list[int] = field(default_factory=list)

    def comes(self, now: int) -> None:
        """The times up to now are planned, as a server that looks at this moment does."""
        step = HOUR * SECOND
        come = list(range(self.next_due, now + 1, step))
        if not come:
            return
        policy: MissedPolicy = self.schedule.missed
        if policy == "all":
            self.owed += come
        elif policy == "once" or now - come[-1] <= LATE_US:
            self.owed.append(come[-1])
        self.next_due = come[-1] + step


def _tell(run: ScheduledRun, db: SessionDB) -> bool:
    return db.schedules.settle_delivery(run.id, "sent")


class ScheduleMachine(RuleBasedStateMachine):
    """Every run is said once, in order, whatever dies; its end and its delivery are each recorded once."""

    def __init__(self, new_database: NewDatabase) -> None:
        super().__init__()
        self.database = new_database()
        self.processes = StoreProcesses(self.database, SERVERS)
        self.claimed: list[tuple[Schedule, ScheduledRun] | None] = [None] * SERVERS
        self.model: dict[int, ModelSchedule] = {}
        self.delivered: list[int] = []

    @initialize()
    def begin(self) -> None:
        for number, policy in enumerate(MISSED_POLICIES):
            self.add(policy, "lobby" if number else None)
        self.time_passes(3 * HOUR)

    def add(self, policy: MissedPolicy, room: str | None) -> None:
        db = self.processes.db(0)
        added = db.schedules.add(NewSchedule("look", "every hour", "UTC", missed=policy, room=room))
        db.create_session(added.session_id, source="test")
        assert added.next_due is not None
        self.model[added.id] = ModelSchedule(added, added.next_due)

    def mortal(self, who: int, crash: Moment | None, call: Callable[[SessionDB], object]) -> bool:
        """Do something in a process that may die of it; True when it lives."""
        process = self.processes.processes[who]
        if crash is not None:
            process.engine.arm(crash)
        try:
            call(process.db)
        except ProcessDied:
            self.processes.bury(who)
            self.claimed[who] = None
            return False
        process.engine.disarm()
        return True

    # the servers

    @precondition(lambda self: self.processes.db(0).schedules.due() is not None)
    @rule(who=who, crash=moments)
    def plan(self, who: int, crash: Moment | None) -> None:
        schedule = self.processes.db(who).schedules.due()
        if schedule is None or schedule.next_due is None:
            return
        now = self.processes.db(who).schedules.work().now
        planned = schedule.times.plan(schedule.next_due, now, schedule.missed)
        self.mortal(who, crash, lambda db: db.schedules.plan(schedule, planned))
        stored = self.processes.db(who).schedules.get(schedule.id)
        assert stored is not None
        if stored.next_due != schedule.next_due:
            self.model[schedule.id].comes(now)

    @precondition(lambda self: self.processes.db(0).schedules.due() is not None)
    @rule(who=who, other=who)
    def plan_twice_at_once(self, who: int, other: int) -> None:
        """Two servers saw the same schedule; one of them moves it on."""
        schedule = self.processes.db(who).schedules.due()
        if schedule is None or schedule.next_due is None:
            return
        now = self.processes.db(who).schedules.work().now
        planned = schedule.times.plan(schedule.next_due, now, schedule.missed)
        assert self.processes.db(who).schedules.plan(schedule, planned)
        assert not self.processes.db(other).schedules.plan(schedule, planned)
        self.model[schedule.id].comes(now)

    @rule(who=who, crash=moments)
    def claim(self, who: int, crash: Moment | None) -> None:
        while self.processes.db(who).schedules.due() is not None:
            self.plan(who, None)
        found: list[tuple[Schedule, ScheduledRun] | None] = []
        if self.mortal(who, crash, lambda db: found.append(db.schedules.claim(lease_seconds=CLAIM))):
            self.claimed[who] = found[0] or self.claimed[who]

    @precondition(lambda self: any(self.claimed))
    @rule(who=who, put=moments, mark=moments)
    def send(self, who: int, put: Moment | None, mark: Moment | None) -> None:
        """Also long after the claim ran out, when another server has sent the same run."""
        while self.claimed[who] is None:
            who = (who + 1) % SERVERS
        claimed = self.claimed[who]
        assert claimed is not None
        schedule, run = claimed
        sent: list[int] = []

        def store(db: SessionDB) -> None:
            message = {"role": "user", "content": str(run.due)}
            sent.append(db.inbox.put(schedule.session_id, message, key=run.key).id)  # type: ignore[arg-type]

        if self.mortal(who, put, store):
            self.mortal(who, mark, lambda db: db.schedules.mark_sent(run, sent[0]))
            self.claimed[who] = None

    @precondition(lambda self: self.processes.db(0).inbox.sessions())
    @rule(who=who, crash=moments, back=pick, ok=st.booleans())
    def turn_ends(self, who: int, crash: Moment | None, back: int, ok: bool) -> None:
        db = self.processes.db(who)
        sessions = db.inbox.sessions()
        if not sessions:
            return
        session = sessions[back % len(sessions)]
        turn = db.turns.open(session, take=db.inbox.waiting(session)[0].id)
        if ok:
            db.turns.complete(turn.id, {"role": "assistant", "content": "done"})
        else:
            db.turns.interrupt(turn.id, "enough")
        self.mortal(who, crash, lambda db: db.schedules.settle())

    @rule(who=who, crash=moments)
    def settle(self, who: int, crash: Moment | None) -> None:
        self.mortal(who, crash, lambda db: db.schedules.settle())

    @precondition(lambda self: self.processes.db(0).schedules.to_deliver(limit=1))
    @rule(who=who, crash=moments)
    def deliver(self, who: int, crash: Moment | None) -> None:
        for run in self.processes.db(who).schedules.to_deliver(limit=1):
            self.mortal(who, crash, partial(_tell, run))
            if run.id not in {each.id for each in self.processes.db(who).schedules.to_deliver()}:
                self.delivered.append(run.id)

    # the people

    @rule(who=who, crash=moments, back=pick)
    def pause_or_resume(self, who: int, crash: Moment | None, back: int) -> None:
        model = self.model[sorted(self.model)[back % len(self.model)]]
        number, was_active = model.schedule.id, model.is_active
        before = {run.due for run in self.runs(number) if run.state == "due"}
        self.mortal(
            who,
            crash,
            lambda db: db.schedules.pause(number) if was_active else db.schedules.resume(number),
        )
        stored = self.processes.db(who).schedules.get(number)
        assert stored is not None
        model.is_active = stored.state == "active"
        if was_active and not model.is_active:
            model.owed = [due for due in model.owed if due not in before]
        if model.is_active and stored.next_due is not None:
            model.next_due = stored.next_due

    @rule(seconds=st.sampled_from([1, 10, CLAIM, 59, HOUR // 2, HOUR, 3 * HOUR]))
    def time_passes(self, seconds: int) -> None:
        self.database.clock.advance(seconds)

    @precondition(lambda self: any(self.claimed))
    @rule(who=who)
    def dies(self, who: int) -> None:
        self.processes.bury(who)
        self.claimed[who] = None

    # what holds at every moment

    def runs(self, number: int) -> list[ScheduledRun]:
        return list(reversed(self.processes.db(0).schedules.runs(number, limit=1000)))

    def said(self, model: ModelSchedule) -> list[int]:
        """The due times of the messages, in the order in which they were sent."""
        with_turn = [
            int(str(each["content"]))
            for each in self.processes.db(0).get_messages(model.schedule.session_id)
            if each["role"] == "user"
        ]
        waiting = self.processes.db(0).inbox.waiting(model.schedule.session_id)
        return with_turn + [int(str(each.message["content"])) for each in waiting]

    @invariant()
    def what_is_said_is_what_is_owed_once_and_in_order(self) -> None:
        for model in self.model.values():
            said = self.said(model)
            assert said == model.owed[: len(said)]

    @invariant()
    def each_run_is_where_its_message_is(self) -> None:
        for model in self.model.values():
            runs = [run for run in self.runs(model.schedule.id) if run.state != "skipped"]
            assert [run.due for run in runs] == model.owed
            for run in runs:
                assert (run.delivery != "none") <= (run.state in ("done", "failed"))
                assert (run.ended is not None) == (run.state in ("done", "failed"))
        assert len(self.delivered) == len(set(self.delivered))

    def teardown(self) -> None:
        try:
            self.drain()
        finally:
            self.processes.tidy()

    def drain(self) -> None:
        """In the end every run that is owed was said and has ended, and every chat was told once."""
        if not self.model:
            return
        db = self.processes.db(0)
        self.database.clock.advance(CLAIM)
        while (claimed := db.schedules.claim(lease_seconds=CLAIM)) is not None:
            schedule, run = claimed
            message = db.inbox.put(
                schedule.session_id, {"role": "user", "content": str(run.due)}, key=run.key
            )
            assert db.schedules.mark_sent(run, message.id)
        for session in db.inbox.sessions():
            for waiting in db.inbox.waiting(session):
                turn = db.turns.open(session, take=waiting.id)
                db.turns.complete(turn.id, {"role": "assistant", "content": "done"})
        db.schedules.settle()
        for run in db.schedules.to_deliver(limit=1000):
            assert db.schedules.settle_delivery(run.id, "sent")
            self.delivered.append(run.id)
        told = set()
        for model in self.model.values():
            assert self.said(model) == model.owed
            runs = [run for run in self.runs(model.schedule.id) if run.state != "skipped"]
            assert all(run.state in ("done", "failed") for run in runs)
            told |= {run.id for run in runs if run.delivery == "sent"}
            assert all((run.delivery == "sent") == (model.schedule.room is not None) for run in runs)
        assert told == set(self.delivered)
        assert db.check() == []
