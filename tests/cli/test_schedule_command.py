"""`holdfast schedule`, as a person types it."""

import json

import pytest

from holdfast import SessionDB
from tests.cli.real_terminal import Home, run

# Each test is several processes.
pytestmark = pytest.mark.slow


def test_a_schedule_is_added_listed_paused_resumed_run_and_removed(home: Home) -> None:
    added = run(home, "schedule", "add", "every weekday at 8", "look at the harbour", "--zone", "Asia/Tokyo")
    assert added.returncode == 0, added.stderr
    assert added.stdout.startswith("added schedule 1: every weekday at 8, next ")
    assert "No server runs" in added.stdout
    listed = run(home, "schedule", "list").stdout
    assert "08:00" in listed
    assert "look at the harbour" in listed
    assert "not run yet" in listed
    assert listed.endswith("! No server runs on this store, so nothing is run. Start one: holdfast web\n")
    assert run(home, "schedule", "pause", "1").returncode == 0
    assert run(home, "schedule", "pause", "1").returncode == 3
    assert "paused" in run(home, "schedule").stdout
    assert "is active" in run(home, "schedule", "resume", "1").stdout
    assert "due now" in run(home, "schedule", "run", "1").stdout
    assert "  due" in run(home, "schedule", "show", "1").stdout
    shown = json.loads(run(home, "schedule", "--json").stdout)
    assert not shown["served"]
    assert shown["schedules"][0]["last_run"]["state"] == "due"
    assert run(home, "schedule", "remove", "1").returncode == 0
    assert "There are no schedules" in run(home, "schedule").stdout
    gone = run(home, "schedule", "run", "1")
    assert (gone.returncode, gone.stderr) == (3, "holdfast: there is no schedule 1\n")


def test_what_is_not_understood_is_an_error_and_stores_nothing(home: Home) -> None:
    for given, problem in (
        (("whenever", "look"), "no time that is understood"),
        (("every hour", "look", "--zone", "Mars"), "no time zone"),
        (("every hour", "look", "--session", "9"), "no conversations yet"),
        (("at 2001-01-01 8", "look"), "has passed"),
        (("every hour", " "), "what to do"),
    ):
        refused = run(home, "schedule", "add", *given)
        assert (refused.returncode, problem in refused.stderr) == (2, True), refused.stderr
    with SessionDB(home.database) as db:
        assert db.schedules.all() == []
