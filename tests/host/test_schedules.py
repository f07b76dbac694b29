"""Schedules in a server: what is due is said in its conversation, once, and the run ends with its turn."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.errors import StoreUnreachable
from holdfast.host import SessionHost
from holdfast.host.schedule_runner import ScheduleRunner, is_served
from holdfast.host.store_calls import StoreCalls
from holdfast.process import DaemonPool
from holdfast.sessions import SessionDB
from holdfast.sessions.schedules import NewSchedule, Schedule, ScheduledRun
from holdfast.testing import FakeClock
from tests.agent.agent_fixtures import until
from tests.host.host_fixtures import a_host
from tests.sessions.store_fixtures import user

HOUR = 3600
Wait = Callable[[Awaitable[Any]], Any]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def db(tmp_path: Path, clock: FakeClock) -> Iterator[SessionDB]:
    with SessionDB(tmp_path / "holdfast.db", clock=clock) as opened:
        yield opened


def serving(db: SessionDB, answers: int = 9) -> SessionHost:
    return a_host(db, ["it is calm"] * answers)


def add(db: SessionDB, rule: str = "every hour", **how: Any) -> Schedule:  # noqa: ANN401
    return db.schedules.add(NewSchedule("look at the harbour", rule, "Europe/Berlin", **how))


def last_run(db: SessionDB, schedule: Schedule) -> ScheduledRun | None:
    return next(iter(db.schedules.runs(schedule.id)), None)


async def until_run_ends(db: SessionDB, schedule: Schedule, count: int = 1) -> list[ScheduledRun]:
    def ended() -> list[ScheduledRun]:
        return [run for run in db.schedules.runs(schedule.id) if run.ended is not None]

    await until(lambda: len(ended()) >= count)
    return ended()


def said(db: SessionDB, session_id: str, role: str = "user") -> list[str]:
    return [str(each["content"]) for each in db.get_messages(session_id) if each["role"] == role]


def test_what_is_due_is_said_in_its_conversation_and_ends_with_its_turn(
    db: SessionDB, clock: FakeClock, wait: Wait
) -> None:
    db.create_session("s", source="test")
    schedule = add(db, session_id="s")

    async def scenario() -> None:
        async with serving(db) as host:
            host.serve_schedules()
            clock.advance(HOUR)
            [run] = await until_run_ends(db, schedule)
            assert (run.state, run.error, run.delivery) == ("done", "", "none")
            [text] = said(db, "s")
            assert text.startswith("[Schedule 1 (every hour, due Wednesday 2023-11-15 00:13 Europe/Berlin)")
            assert text.endswith("\n\nlook at the harbour")
            assert said(db, "s", "assistant") == ["it is calm"]
            turn = db.turns.get(str(run.turn_id))
            assert turn is not None
            assert turn.state == "completed"

    wait(scenario())


def test_a_schedule_without_a_session_speaks_in_one_of_its_own_each_time(
    db: SessionDB, clock: FakeClock, wait: Wait
) -> None:
    schedule = add(db)

    async def scenario() -> None:
        async with serving(db) as host:
            host.serve_schedules()
            for count in (1, 2):
                clock.advance(HOUR)
                await until_run_ends(db, schedule, count)
            session = db.get_session(schedule.session_id)
            assert session is not None
            assert (session.source, session.title) == ("schedule", "look at the harbour")
            assert len(said(db, schedule.session_id)) == 2

    wait(scenario())


def test_what_was_missed_while_nothing_ran_is_made_up_for_and_said_to_be_late(
    db: SessionDB, clock: FakeClock, wait: Wait
) -> None:
    once, skip = add(db), add(db, missed="skip")
    clock.advance(5.5 * HOUR)

    async def scenario() -> None:
        async with serving(db) as host:
            host.serve_schedules()
            [run] = await until_run_ends(db, once)
            assert (run.state, run.missed) == ("done", 4)
            assert "it runs late, and 4 earlier times were missed" in said(db, once.session_id)[0]
            [left_out] = await until_run_ends(db, skip)
            assert left_out.state == "skipped"
            assert db.get_session(skip.session_id) is None

    wait(scenario())


def test_a_schedule_of_another_process_is_noticed_and_a_run_by_hand_too(
    db: SessionDB, clock: FakeClock, tmp_path: Path, wait: Wait
) -> None:
    async def scenario() -> None:
        async with serving(db) as host:
            host.serve_schedules()
            await until(lambda: is_served(db))
            with SessionDB(tmp_path / "holdfast.db", clock=clock) as other:
                schedule = add(other, "every day at 8")
                other.schedules.run_now(schedule.id)
                [run] = await until_run_ends(other, schedule)
                assert run.state == "done"

    wait(scenario())


def test_a_run_whose_conversation_is_gone_fails(db: SessionDB, clock: FakeClock, wait: Wait) -> None:
    db.create_session("s", source="test")
    schedule = add(db, session_id="s", room="lobby")
    db.delete_session("s")

    async def scenario() -> None:
        async with serving(db) as host:
            host.serve_schedules()
            clock.advance(HOUR)
            [run] = await until_run_ends(db, schedule)
            assert (run.state, run.delivery) == ("failed", "due")
            assert "there is no session 's'" in run.error
            assert db.get_session("s") is None

    wait(scenario())


def test_a_turn_that_is_interrupted_fails_its_run(db: SessionDB, clock: FakeClock, wait: Wait) -> None:
    schedule = add(db)

    async def scenario() -> None:
        reached, never = asyncio.Event(), asyncio.Event()

        async def hang(_: object) -> str:
            reached.set()
            await never.wait()
            return "never said"

        async with a_host(db, [hang]) as host:
            host.serve_schedules()
            clock.advance(HOUR)
            await reached.wait()
            assert last_run(db, schedule).state == "running"  # type: ignore[union-attr]
            assert await host.interrupt(schedule.session_id)
            [run] = await until_run_ends(db, schedule)
            assert run.state == "failed"
            assert run.error

    wait(scenario())


def test_only_servers_run_schedules_and_one_says_that_it_does(
    db: SessionDB, clock: FakeClock, wait: Wait
) -> None:
    schedule = add(db)
    clock.advance(HOUR)

    async def scenario() -> None:
        async with serving(db) as host:
            await host.ask("other", "hello")
            assert last_run(db, schedule) is None
            assert not is_served(db)

    wait(scenario())


class Steps:
    """A runner whose steps are taken by hand, with a sender that a test can break."""

    def __init__(self, db: SessionDB) -> None:
        self.db = db
        self.pool = DaemonPool("store", workers=2, backlog=10)
        self.problem: Exception | None = None
        self.runner = ScheduleRunner(db, StoreCalls(db, self.pool), self.send, "me")

    async def send(self, session_id: str, text: str, *, key: str | None = None, create: bool = True) -> Any:  # noqa: ANN401
        if self.problem is not None:
            raise self.problem
        assert not create
        return Sent(self.db.inbox.put(session_id, user(text), key=key).id)

    async def until_idle(self) -> None:
        while await self.runner.run_once():
            pass


class Sent:
    def __init__(self, inbox_id: int) -> None:
        self.inbox_id = inbox_id


def test_a_store_that_is_out_of_reach_delays_a_run_and_does_not_fail_it(
    db: SessionDB, clock: FakeClock, wait: Wait
) -> None:
    schedule = add(db)
    clock.advance(HOUR)

    async def scenario() -> None:
        steps = Steps(db)
        steps.problem = StoreUnreachable("/here", "no answer")
        with pytest.raises(StoreUnreachable):
            await steps.until_idle()
        assert last_run(db, schedule).state == "running"  # type: ignore[union-attr]
        steps.problem = None
        assert not await steps.runner.run_once(), "the claim is not over yet"
        clock.advance(db.lease_seconds)
        await steps.until_idle()
        assert len(db.inbox.waiting(schedule.session_id)) == 1
        steps.pool.close(5)

    wait(scenario())


def test_two_servers_say_each_run_once(db: SessionDB, clock: FakeClock, tmp_path: Path, wait: Wait) -> None:
    schedules = [add(db, missed="all") for _ in range(3)]
    clock.advance(4 * HOUR)

    async def scenario() -> None:
        with SessionDB(tmp_path / "holdfast.db", clock=clock) as other:
            steps = [Steps(db), Steps(other)]
            await asyncio.gather(*(each.until_idle() for each in steps))
            # One that met the other's claim looks again later.
            await steps[0].until_idle()
            for schedule in schedules:
                waiting = db.inbox.waiting(schedule.session_id)
                runs = list(reversed(db.schedules.runs(schedule.id)))
                assert len(waiting) == len(runs) == 4
                assert [run.inbox_id for run in runs] == [each.id for each in waiting], "in order"
            for each in steps:
                each.pool.close(5)

    wait(scenario())


def test_a_schedule_whose_time_zone_is_unknown_here_is_paused_and_holds_up_no_other(
    db: SessionDB, clock: FakeClock, wait: Wait, caplog: pytest.LogCaptureFixture
) -> None:
    broken, fine = add(db), add(db)
    change = f"update schedules set zone = 'Mars/Base' where id = {broken.id}"  # noqa: S608
    db._engine.write(lambda tx: tx.connection.execute(change).rowcount)  # noqa: SLF001 - as by another release
    clock.advance(HOUR)

    async def scenario() -> None:
        steps = Steps(db)
        await steps.until_idle()
        paused = db.schedules.get(broken.id)
        assert paused is not None
        assert paused.state == "paused"
        assert "host.schedule_paused" in caplog.text
        assert len(db.inbox.waiting(fine.session_id)) == 1
        steps.pool.close(5)

    wait(scenario())
