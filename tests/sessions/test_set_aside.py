"""Dead letters: what a provider refuses is set aside, and a person lists, retries or drops it."""

import pytest

from holdfast.core.errors import (
    DeliveryNotFound,
    InvalidInput,
    NotSetAside,
)
from holdfast.core.states import DELIVERY
from holdfast.sessions import Backlog, Delivery, SessionDB
from tests.sessions.databases import Database
from tests.sessions.store_fixtures import claim, claim_one, found, owe


@pytest.fixture
def session(db: SessionDB) -> str:
    return db.create_session("s", source="cli").id


@pytest.mark.clause("D3")
def test_what_is_set_aside_does_not_hold_back_its_followers(db: SessionDB, session: str) -> None:
    bad, good = owe(db, session, 2)
    refused = claim_one(db)
    db.outbox.set_aside(refused, error="400: too long")
    following = claim_one(db)
    assert (refused.turn_id, following.turn_id) == (bad, good)
    [letter] = db.outbox.list("set_aside")
    assert (letter.turn_id, letter.last_error) == (bad, "400: too long")
    assert (letter.attempts, letter.lease, letter.settled) == (1, None, None)


@pytest.mark.clause("D3")
def test_a_person_can_retry_what_was_set_aside(db: SessionDB, session: str) -> None:
    first, second = owe(db, session, 2)
    letter = claim_one(db)
    db.outbox.set_aside(letter, error="400")
    db.outbox.retry(letter.id)
    retried = found(db, letter)
    assert (retried.state, retried.attempts, retried.last_error) == ("owed", 0, "400")
    batch = claim(db, limit=2)
    assert [each.turn_id for each in batch] == [first, second], "in its old place"
    assert db.outbox.list("set_aside") == []


@pytest.mark.clause("D3")
def test_a_person_can_drop_what_was_set_aside_and_it_stays_on_record(db: SessionDB, session: str) -> None:
    owe(db, session, 1)
    letter = claim_one(db)
    db.outbox.set_aside(letter, error="400")
    db.outbox.drop(letter.id)
    [dropped] = db.outbox.list("dropped")
    assert (dropped.id, dropped.last_error) == (letter.id, "400")
    assert dropped.settled is not None
    assert claim(db) == []
    assert not db.outbox.enqueue(dropped.turn_id, "p"), "it was owed already"


@pytest.mark.clause("D3")
def test_only_what_was_set_aside_can_be_retried_or_dropped(db: SessionDB, session: str) -> None:
    owe(db, session, 4)
    states: dict[str, Delivery] = {"delivered": claim_one(db)}
    db.outbox.mark_delivered(states["delivered"])
    states["dropped"] = claim_one(db)
    db.outbox.set_aside(states["dropped"], error="x")
    db.outbox.drop(states["dropped"].id)
    states["claimed"] = claim_one(db)
    [states["owed"]] = db.outbox.list("owed")
    for state, delivery in states.items():
        before = found(db, delivery)
        for call in (db.outbox.retry, db.outbox.drop):
            with pytest.raises(NotSetAside) as refused:
                call(delivery.id)
            assert (refused.value.delivery_id, refused.value.state) == (delivery.id, state)
        assert found(db, delivery) == before
    for call in (db.outbox.retry, db.outbox.drop):
        with pytest.raises(DeliveryNotFound):
            call(424242)
    assert db.outbox.get(424242) is None


@pytest.mark.clause("D3")
def test_dead_letters_are_listed_in_pages_by_provider(db: SessionDB, session: str) -> None:
    owe(db, session, 7, "a", "b")
    for _ in range(7):
        for provider in ("a", "b"):
            db.outbox.set_aside(claim_one(db, provider), error="x")
    first = db.outbox.list("set_aside", provider="a", limit=5)
    rest = db.outbox.list("set_aside", provider="a", after=first[-1].id, limit=5)
    assert (len(first), len(rest)) == (5, 2)
    assert {each.provider for each in [*first, *rest]} == {"a"}
    ids = [each.id for each in [*first, *rest]]
    assert ids == sorted(set(ids))
    assert len(db.outbox.list("set_aside")) == 14
    for state in DELIVERY.states:
        db.outbox.list(state)
    with pytest.raises(InvalidInput, match="state"):
        db.outbox.list("dead")


def test_the_backlog_counts_what_is_owed_and_what_is_set_aside(database: Database) -> None:
    db = database.open()
    assert db.outbox.backlog("p") == Backlog("p", 0, None, 0)
    db.create_session("s", source="cli")
    for _ in range(4):
        owe(db, "s", 1)
        database.clock.advance(1)
    created = [each.created for each in db.outbox.list("owed")]
    db.outbox.set_aside(claim_one(db), error="x")
    held = claim_one(db)
    assert db.outbox.backlog("p") == Backlog("p", 3, created[1], 1)
    db.outbox.mark_delivered(held)
    assert db.outbox.backlog("p") == Backlog("p", 2, created[2], 1)
