"""A store in memory does not wait for a recorded turn, and whatever is asked next finds it."""

import pytest

from holdfast.core.errors import InvalidInput
from holdfast.sessions import SessionDB
from tests.sessions.store_fixtures import contents, user


def test_what_was_recorded_is_found_by_whatever_comes_next() -> None:
    with SessionDB(":memory:") as db:
        for number in range(600):
            db.turns.record("s", [user(str(number))], providers=["p"])
        assert [each.session_id for each in db.outbox.claim("p", lease_seconds=60, limit=2)] == ["s", "s"]
        assert contents(db.get_messages("s")) == [str(number) for number in range(600)]


def test_questions_with_their_answers_are_kept_word_for_word_and_in_order() -> None:
    strange = ["", "half a \ud83d pair", "a \x00 byte", "東京 🦉", "plain"]
    with SessionDB(":memory:") as db:
        for text in strange:
            db.turns.record_exchange("s", (text, f"about {text}"), providers=["p"])
            db.turns.record("s", [user(f"between {text}")])
        said = [each for text in strange for each in (text, f"about {text}", f"between {text}")]
        assert contents(db.get_messages("s")) == said
        assert len(db.outbox.claim("p", lease_seconds=60, limit=50)) == len(strange)


def test_a_session_id_that_no_store_keeps_is_refused_before_the_call_returns() -> None:
    with SessionDB(":memory:") as db, pytest.raises(InvalidInput, match="a session id"):
        db.turns.record_exchange("\x00", ("one", "1"), providers=["p"])


def test_a_recorded_turn_that_fails_undoes_nothing_else() -> None:
    with SessionDB(":memory:") as db:
        db.create_session("ended", source="cli")
        db.sessions.end("ended", "done")
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
