"""The tools for schedules: what an agent adds is asked about first, and speaks in its conversation."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.core.errors import ToolFailed
from holdfast.sessions import SessionDB
from holdfast.sessions.schedules import NewSchedule
from holdfast.tools.contract import Tool
from holdfast.tools.schedules import ScheduleTools
from tests.tools.call_fixtures import Calls


@pytest.fixture
def db(tmp_path: Path, calls: Calls) -> Iterator[SessionDB]:
    with SessionDB(tmp_path / "db.sqlite") as opened:
        opened.create_session(calls.session_id, source="cli")
        yield opened


@pytest.fixture
def tools(db: SessionDB) -> dict[str, Tool]:
    return {each.name: each for each in ScheduleTools(db, "Europe/Berlin").tools()}


def test_a_schedule_is_added_after_approval_to_the_conversation_at_hand(
    calls: Calls, db: SessionDB, tools: dict[str, Tool]
) -> None:
    said = calls.run(tools["add_schedule"], when="every weekday at 8", text="look at the harbour").text
    assert said.startswith("added: 1: every weekday at 8 (Europe/Berlin), next ")
    [added] = db.schedules.all()
    assert (added.session_id, added.text, added.created_by) == (
        calls.session_id,
        "look at the harbour",
        "agent",
    )
    [asked] = calls.person.asked
    assert asked.kind == "add_schedule"
    assert "look at the harbour" in asked.subject


def test_what_the_person_does_not_allow_is_neither_added_nor_removed(
    calls: Calls, db: SessionDB, tools: dict[str, Tool]
) -> None:
    kept = db.schedules.add(NewSchedule("look", "every hour", "UTC"))
    calls.person.yes = False
    with pytest.raises(ToolFailed, match="did not allow"):
        calls.run(tools["add_schedule"], when="every hour", text="look")
    with pytest.raises(ToolFailed, match="did not allow"):
        calls.run(tools["remove_schedule"], number=kept.id)
    assert db.schedules.all() == [kept]


def test_the_model_reads_what_is_wrong_with_a_time(calls: Calls, tools: dict[str, Tool]) -> None:
    with pytest.raises(ToolFailed, match="no time that is understood"):
        calls.run(tools["add_schedule"], when="whenever", text="look")
    with pytest.raises(ToolFailed, match="no time zone"):
        calls.run(tools["add_schedule"], when="every hour", text="look", time_zone="Mars")


def test_schedules_are_listed_and_removed_by_their_numbers(
    calls: Calls, db: SessionDB, tools: dict[str, Tool]
) -> None:
    assert calls.run(tools["list_schedules"]).text == "there are no schedules"
    first = db.schedules.add(NewSchedule("look\nat it", "every hour", "UTC"))
    second = db.schedules.add(NewSchedule("rest", "every hour", "UTC"))
    db.schedules.pause(second.id)
    lines = calls.run(tools["list_schedules"]).text.splitlines()
    assert lines[0].endswith(": look at it")
    assert lines[1] == "2: every hour (UTC), paused: rest"
    calls.run(tools["remove_schedule"], number=first.id)
    assert [each.id for each in db.schedules.all()] == [second.id]
    with pytest.raises(ToolFailed, match="no schedule 99"):
        calls.run(tools["remove_schedule"], number=99)


def test_schedules_of_somebody_else_are_not_seen_or_removed(calls: Calls, db: SessionDB) -> None:
    theirs = db.schedules.add(NewSchedule("look", "every hour", "UTC", scope="anna"))
    own = {each.name: each for each in ScheduleTools(db).tools()}
    calls.scope = "ben"
    assert calls.run(own["list_schedules"]).text == "there are no schedules"
    with pytest.raises(ToolFailed, match="no schedule"):
        calls.run(own["remove_schedule"], number=theirs.id)
    calls.run(own["add_schedule"], when="in 5 minutes", text="rest")
    assert [each.scope for each in db.schedules.all()] == ["anna", "ben"]


def test_what_a_subagent_adds_speaks_in_the_conversation_of_its_caller(calls: Calls, db: SessionDB) -> None:
    db.create_session("sub", source="agent", parent=calls.session_id, relation="delegate")
    main, calls.session_id = calls.session_id, "sub"
    add, *_ = ScheduleTools(db, "UTC").tools()
    calls.run(add, when="in 5 minutes", text="rest")
    assert [each.session_id for each in db.schedules.all()] == [main]
