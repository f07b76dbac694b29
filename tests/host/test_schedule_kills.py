"""A server that runs schedules is killed right after any of its commits: the next one goes on."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from holdfast.host.schedule_runner import is_served
from holdfast.sessions import SessionDB
from holdfast.sessions.schedules import NewSchedule, Schedule
from tests.agent.agent_fixtures import until
from tests.host.host_processes import host_processes

LEASE = 2.0
COMMITS = (
    "plan_runs",
    "claim_scheduled_run",
    "send_message",
    "mark_run_sent",
    "take_next",
    "complete_unless_steered",
    "settle_runs",
)


def wind_back(db: SessionDB, schedule_id: int) -> None:
    """Let a schedule be due now."""
    sql = f"update schedules set next_due = created, created = created - 3600000000 where id = {schedule_id}"  # noqa: S608
    assert db._engine.write(lambda tx: tx.connection.execute(sql).rowcount) == 1  # noqa: SLF001


def states(db: SessionDB, schedule: Schedule) -> list[str]:
    return [run.state for run in db.schedules.runs(schedule.id)]


@pytest.mark.clause("G8")
@pytest.mark.slow
@pytest.mark.soak_cases("postgres-(plan_runs|mark_run_sent|settle_runs|take_next)")
@pytest.mark.parametrize("commit", COMMITS)
def test_a_run_is_said_and_answered_once_wherever_its_server_is_killed(
    store_url: str, tmp_path: Path, wait: Callable[[Awaitable[Any]], Any], commit: str
) -> None:
    async def scenario() -> None:
        with SessionDB.open(store_url) as db:
            added = db.schedules.add(NewSchedule("look", "every hour", "UTC", room="lobby"))
            wind_back(db, added.id)
            async with host_processes(store_url, tmp_path) as start:
                how = {"lease": LEASE, "host": {"after_crash": "resume"}}
                first = await start(**how, kill_after=commit)
                with suppress(ConnectionError):
                    await first.do("serve_schedules")
                await until(lambda: first.ended)
                second = await start(**how)
                await second.do("serve_schedules")
                await until(lambda: states(db, added) == ["done"])
                await until(lambda: is_served(db))
                said = db.get_messages(added.session_id)
                assert [each["role"] for each in said] == ["user", "assistant"]
                assert str(said[0]["content"]).endswith("look")
                [owed] = db.schedules.to_deliver()
                assert (owed.state, owed.room) == ("done", "lobby")
                await second.close()

    wait(scenario())


@pytest.mark.slow
def test_two_servers_run_many_schedules_once_each_and_one_goes_on_when_the_other_is_killed(
    store_url: str, tmp_path: Path, wait: Callable[[Awaitable[Any]], Any]
) -> None:
    async def scenario() -> None:
        with SessionDB.open(store_url) as db:
            added = [db.schedules.add(NewSchedule(f"look {n}", "every hour", "UTC")) for n in range(12)]
            async with host_processes(store_url, tmp_path) as start:
                how = {"lease": LEASE, "host": {"after_crash": "resume"}}
                servers = [await start(**how), await start(**how)]
                for server in servers:
                    await server.do("serve_schedules")
                for each in added:
                    wind_back(db, each.id)
                await until(lambda: any(db.schedules.runs(each.id) for each in added))
                await servers[0].kill()
                await until(lambda: all(states(db, each) == ["done"] for each in added))
                for each in added:
                    said = db.get_messages(each.session_id)
                    assert [message["role"] for message in said] == ["user", "assistant"]
                await servers[1].close()

    wait(scenario())
