"""`holdfast schedule`, as a person types it."""

import json
import subprocess
import sys

import pytest

from holdfast import SessionDB
from holdfast.host.schedule_runner import is_served
from tests.cli.real_terminal import COMMAND, PATIENCE, Home, run
from tests.sessions.store_fixtures import until

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


def test_a_web_server_runs_what_is_due_and_the_list_says_so(home: Home) -> None:
    home.script(["The harbour is calm."])
    assert run(home, "schedule", "add", "every day at 8", "look at the harbour").returncode == 0
    server = subprocess.Popen(
        [sys.executable, *COMMAND, "web", "--port", "0"],
        env=home.environment(),
        cwd=home.project,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stdout is not None
        assert "http://" in server.stdout.readline()
        with SessionDB(home.database) as db:
            until(lambda: is_served(db))
            assert "No server" not in run(home, "schedule", "run", "1").stdout
            until(lambda: db.schedules.runs(1)[0].state == "done")
            [said] = home.said()
            assert said.endswith("look at the harbour")
        listed = run(home, "schedule").stdout
        assert " done" in listed
        assert "No server" not in listed
    finally:
        server.terminate()
        server.communicate(timeout=PATIENCE)
    assert "No server" in run(home, "schedule").stdout
