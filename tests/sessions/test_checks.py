"""A check finds what no constraint holds by itself, and says what a person can do about it."""

import io

import pytest

from holdfast.cli.main import run
from holdfast.sessions import SessionDB
from tests.sessions.store_fixtures import completed_turn, user

REOPEN_THE_PARENT = "update sessions set ended = null, end_reason = null where id = 's'"


def spoil(db: SessionDB, statement: str) -> None:
    db._engine.write(lambda tx: tx.connection.execute(statement))  # noqa: SLF001 - what no method does


@pytest.mark.parametrize(
    ("statement", "finding"),
    [
        (REOPEN_THE_PARENT, "session s goes on in child but has not ended by compression"),
        ("update sessions set end_reason = 'bored' where id = 's'", "has not ended by compression"),
        ("update turns set generation = 7 where session_id = 's'", "generation 7, its session only 1"),
        ("update turns set session_id = 's' where state = 'running'", "runs in session s"),
        ("update inbox set session_id = 's'", "waits in session s"),
        (
            "update turns set state = 'failed', generation = null where state = 'completed'",
            "which is failed",
        ),
    ],
)
def test_what_no_constraint_holds_is_found(db: SessionDB, statement: str, finding: str) -> None:
    db.create_session("s", source="cli")
    completed_turn(db, "s", providers=["p"])
    db.rotate("s", "child", [], carry_from=0)
    db.turns.open("child", user("next"))
    db.inbox.put("child", user("and then"))
    assert db.check() == []
    spoil(db, statement)
    [found] = db.check()
    assert finding in found


def test_the_advice_fits_the_store(
    live_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with SessionDB.open(live_url) as db:
        db.create_session("s", source="cli")
        db.rotate("s", "child", [], carry_from=0)
        spoil(db, REOPEN_THE_PARENT)
    monkeypatch.setenv("HOLDFAST_STORE_URL", live_url)
    said = io.StringIO()
    assert run(["check"], said) == 4
    assert "session s goes on in child" in said.getvalue()
    assert ("sqlite3 FILE .recover" in said.getvalue()) == live_url.startswith("sqlite")
    assert ("backup of the server" in said.getvalue()) == live_url.startswith("postgres")
    assert capsys.readouterr().out == ""
