"""A store in memory does not wait for a recorded turn, and whatever is asked next finds it."""

from holdfast.sessions import SessionDB
from tests.sessions.steps import contents, user


def test_what_was_recorded_is_found_by_whatever_comes_next() -> None:
    with SessionDB(":memory:") as db:
        for number in range(600):
            db.turns.record("s", [user(str(number))], providers=["p"])
        assert [each.session_id for each in db.outbox.claim("p", lease_seconds=60, limit=2)] == ["s", "s"]
        assert contents(db.get_messages("s")) == [str(number) for number in range(600)]


def test_a_recorded_turn_that_fails_undoes_nothing_else() -> None:
    with SessionDB(":memory:") as db:
        db.create_session("ended", source="cli")
        db.end_session("ended", "done")
        for session in ("s", "ended", "s"):
            db.turns.record(session, [user(f"in {session}")])
        assert contents(db.get_messages("s")) == ["in s", "in s"]
        assert db.get_messages("ended") == []


def test_the_caller_is_told_at_once_that_something_is_to_be_done() -> None:
    told: list[int] = []
    with SessionDB(":memory:") as db:
        db.turns.record(
            "s", [user("one")], providers=["p"], then=lambda: told.append(db.outbox.backlog("p").owed)
        )
    assert told == [1]
