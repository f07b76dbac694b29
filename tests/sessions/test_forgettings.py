"""A forgetting is stored before it is carried out, keeps its turns from all providers, and no content."""

import pytest

from holdfast.core.errors import InvalidInput
from holdfast.sessions import SessionDB
from holdfast.sessions.forgettings import ForgettingTask
from tests.sessions.databases import Database
from tests.sessions.store_fixtures import claim_one, completed_turn


@pytest.fixture
def told(db: SessionDB) -> SessionDB:
    """A store with a session of two turns: one is delivered to p, the other is owed to p and q."""
    db.create_session("s", source="cli")
    completed_turn(db, "s", providers=["p"])
    db.outbox.mark_delivered(claim_one(db))
    completed_turn(db, "s", providers=["p", "q"])
    return db


def task_of(db: SessionDB, provider: str = "p") -> ForgettingTask:
    task = db.forgettings.next_task(provider)
    assert task is not None
    return task


def forget_all(db: SessionDB, key: str = "k", **request: object) -> int:
    turns = db.forgettings.turns_of("s")
    return db.forgettings.accept(key, "conversation", turns, dict(request), providers=["p"])


def test_turns_that_are_still_owed_reach_no_provider_any_more(told: SessionDB) -> None:
    forget_all(told)
    assert told.outbox.claim("p", lease_seconds=9) == []
    assert told.outbox.claim("q", lease_seconds=9) == []
    turn_id = told.forgettings.turns_of("s")[0][1]
    assert not told.outbox.enqueue(turn_id, "r")
    assert told.sessions.uncommitted_messages("s") == []


def test_a_turn_that_was_set_aside_is_dropped(told: SessionDB) -> None:
    told.outbox.set_aside(claim_one(told), error="no")
    forget_all(told)
    assert told.outbox.backlog("p").set_aside == 0


def test_each_provider_that_was_told_has_a_task_until_it_answers(told: SessionDB) -> None:
    forget_all(told)
    assert [each.provider for each in told.forgettings.list()[0].providers] == ["p"]
    assert told.forgettings.next_task("q") is None
    told.forgettings.settle(task_of(told), "p", "done", forgotten=3)
    assert told.forgettings.next_task("p") is None
    (done,) = told.forgettings.list()
    assert [(each.state, each.forgotten) for each in done.providers] == [("done", 3)]


def test_a_delivery_under_way_is_waited_for_and_never_comes_back(told: SessionDB) -> None:
    delivery = claim_one(told)
    forget_all(told)
    assert task_of(told).under_way
    told.outbox.give_back(delivery)
    assert not task_of(told).under_way
    assert told.outbox.claim("p", lease_seconds=9) == []


def test_the_request_is_gone_once_every_provider_has_answered(told: SessionDB, database: Database) -> None:
    forget_all(told, person="ann")

    def requests() -> list[str | None]:
        rows = database.open()._engine.read(  # noqa: SLF001 - what is on disk
            lambda tx: list(tx.connection.execute("select request from forgettings"))
        )
        return [row[0] for row in rows]

    assert "ann" in str(requests()[0])
    task = task_of(told)
    told.forgettings.settle(task, "p", "failed", note="no way")
    assert requests() != [None]
    told.forgettings.retry(task.forgetting_id)
    told.forgettings.settle(task_of(told), "p", "unable", note="it can't")
    assert requests() == [None]
    with pytest.raises(InvalidInput):
        told.forgettings.retry(task.forgetting_id)


def test_a_deferred_task_comes_again_after_its_delay(told: SessionDB, database: Database) -> None:
    forget_all(told)
    told.forgettings.defer(task_of(told), "p", delay_seconds=5, note="later")
    assert told.forgettings.next_task("p") is None
    database.clock.advance(6)
    assert task_of(told).attempts == 1


def test_the_same_key_is_the_same_forgetting(told: SessionDB) -> None:
    first = forget_all(told)
    assert forget_all(told) == first
    other = forget_all(told, "other")
    assert other > first
    assert told.forgettings.newest() == other
    assert told.forgettings.get(first) is not None
    assert told.forgettings.get(other + 1) is None


def test_turns_are_selected_by_time(told: SessionDB, database: Database) -> None:
    database.clock.advance(100)
    late = completed_turn(told, "s", providers=["p"])
    ended = told.turns.get(late.id)
    assert ended is not None
    assert ended.ended is not None
    moment = ended.ended / 1_000_000
    assert told.forgettings.turns_between(moment - 50, moment + 1) == [("s", late.id)]
    assert len(told.forgettings.turns_between(0, moment)) == 2
    assert told.forgettings.existing([late.id, "none"]) == [("s", late.id)]


def test_a_session_is_whole_only_with_all_of_its_turns(told: SessionDB) -> None:
    turns = told.forgettings.turns_of("s")
    assert told.forgettings.whole_sessions(turns) == ["s"]
    assert told.forgettings.whole_sessions(turns[:1]) == []
    told.forgettings.accept("k", "memories", turns[1:], {}, providers=["p"])
    assert told.forgettings.whole_sessions(turns[:1]) == ["s"]


def test_a_deleted_conversation_is_still_forgotten(told: SessionDB) -> None:
    forget_all(told)
    told.delete_session("s")
    assert len(task_of(told).request["turns"]) == 2
