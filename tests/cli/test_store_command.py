"""`holdfast store upgrade`, as a person types it."""

import sqlite3
from contextlib import closing

import pytest

from holdfast import SessionDB
from holdfast.sessions.migrations import all_steps
from holdfast.sessions.upgrading import StoreUpgrade
from tests.cli.real_terminal import Home, run

# Each test is several processes.
pytestmark = pytest.mark.slow

OLD = 12


def test_the_plan_of_an_old_store_is_shown_and_then_run(home: Home) -> None:
    home.database.parent.mkdir(parents=True, exist_ok=True)
    home.database.touch()
    StoreUpgrade(f"sqlite:///{home.database}", patience=5.0, steps=all_steps("sqlite")[:OLD]).run()
    newest = all_steps("sqlite")[-1].name
    plan = run(home, "store", "upgrade", "--plan")
    assert plan.returncode == 0, plan.stderr
    assert f"schema 0012.pre; this program knows {newest}" in plan.stdout
    assert (
        "these steps would be run:\n  0013.pre file changes\n    makes the table file_changes" in plan.stdout
    )
    assert "Stop every program that knows only schema 0012 first" in plan.stdout
    assert plan.stdout == run(home, "store", "upgrade", f"sqlite:///{home.database}", "--plan").stdout
    done = run(home, "store", "upgrade")
    assert "these steps were run:" in done.stdout
    assert "up to date" in run(home, "store", "upgrade", "--plan").stdout
    with SessionDB(home.database) as db:
        assert db.check() == []


def test_a_store_that_is_newer_or_not_there_is_refused(home: Home) -> None:
    missing = run(home, "store", "upgrade", "--plan")
    assert (missing.returncode, "no such file" in missing.stderr) == (4, True), missing.stderr
    SessionDB(home.database).close()
    with closing(sqlite3.connect(home.database)) as other, other:
        other.execute("update meta set value = '9999.pre' where key = 'schema'")
        other.execute("update meta set value = '9999' where key = 'oldest_program'")
    newer = run(home, "store", "upgrade")
    assert (newer.returncode, "written by a newer Holdfast" in newer.stderr) == (4, True), newer.stderr
