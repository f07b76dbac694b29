"""What an account's conversations keep is counted once for each message, and given back by a deletion."""

import pytest

from holdfast.core.errors import InvalidInput
from holdfast.sessions import SessionDB
from holdfast.sessions.storage_use import SESSIONS_AT_ONCE
from holdfast.sessions.user_records import User, UserChanges
from tests.sessions.databases import Database, StillPostgres
from tests.sessions.store_fixtures import completed_turn, user

pytestmark = pytest.mark.clause("N5")

SAID = 30_000
MORE = 1_000
"""What a turn stores beside the text of the question, at most: its answer quotes the question once."""


def account(db: SessionDB, name: str = "Ada", limit: int | None = None) -> User:
    made = db.users.create(name, storage_limit=limit)
    db.create_session(name.lower(), source="web", scope=made.scope)
    return made


def test_a_turn_counts_with_what_it_stores_and_nobody_elses_does(db: SessionDB) -> None:
    ada, ben = account(db), account(db, "Ben")
    empty = db.users.measure_storage(ada.scope)
    completed_turn(db, "ada", "ä" * SAID)
    size = db.users.measure_storage(ada.scope)
    # Two bytes for each letter, in the question and in the answer.
    assert 4 * SAID <= size - empty < 4 * SAID + MORE
    assert db.users.measure_storage(ada.scope) == size, "nothing is counted twice"
    assert db.users.measure_storage(ben.scope) < MORE
    found = db.users.get(ada.id)
    assert found is not None
    assert found.storage_used == size


def test_what_waits_and_what_was_withdrawn_count_as_it_stands_in_the_inbox(db: SessionDB) -> None:
    ada = account(db)
    sent = db.inbox.put("ada", user("a" * SAID))
    assert SAID <= db.users.measure_storage(ada.scope) < SAID + MORE
    db.inbox.edit(sent.id, user("a" * SAID * 2))
    behind = db.inbox.put("ada", user("b" * SAID))
    db.inbox.withdraw(behind.id)
    assert 3 * SAID <= db.users.measure_storage(ada.scope) < 3 * SAID + MORE
    db.inbox.withdraw(sent.id)
    assert 3 * SAID <= db.users.measure_storage(ada.scope) < 3 * SAID + MORE


def test_to_delete_a_conversation_gives_its_storage_back(db: SessionDB) -> None:
    ada = account(db)
    completed_turn(db, "ada", "a" * SAID)
    db.create_session("other", source="web", scope=ada.scope)
    completed_turn(db, "other", "b" * SAID)
    both = db.users.measure_storage(ada.scope)
    db.delete_session("ada")
    left = db.users.measure_storage(ada.scope, within_s=3600)
    assert left < both - 2 * SAID, "a deletion is seen although it was measured lately"
    assert left >= 2 * SAID


def test_copies_in_a_branch_count(db: SessionDB) -> None:
    ada = account(db)
    completed_turn(db, "ada", "a" * SAID)
    before = db.users.measure_storage(ada.scope)
    db.conversations.branch("ada", "copy")
    assert db.users.measure_storage(ada.scope) >= before + 2 * SAID


def test_an_account_with_many_conversations_is_counted_in_parts_to_the_end(db: SessionDB) -> None:
    ada = account(db)
    for number in range(2 * SESSIONS_AT_ONCE):
        db.create_session(f"s{number}", source="web", scope=ada.scope)
        db.sessions.append_messages(f"s{number}", [user("a" * MORE)])
    assert db.users.measure_storage(ada.scope) >= 2 * SESSIONS_AT_ONCE * MORE


def test_an_account_is_due_when_something_has_happened_in_it(database: Database) -> None:
    db = database.open()
    ada, ben = account(db), account(db, "Ben")
    assert set(db.users.to_measure(60)) == {ada.scope, ben.scope}, "both are new"
    for each in (ada, ben):
        db.users.measure_storage(each.scope)
    assert db.users.to_measure(60) == []
    database.clock.advance(600)
    for each in (ada, ben):
        db.users.measure_storage(each.scope)
    database.clock.advance(600)
    assert db.users.to_measure(60) == [], "nothing was said since"
    completed_turn(db, "ben")
    assert db.users.to_measure(60) == [ben.scope]
    db.users.measure_storage(ben.scope)
    db.turns.open("ada", user("runs"))
    database.clock.advance(600)
    db.users.measure_storage(ben.scope)
    assert db.users.to_measure(60) == [ada.scope], "a turn runs"


def test_a_limit_is_set_changed_and_taken_away(db: SessionDB) -> None:
    ada = account(db, limit=SAID)
    assert (ada.storage_limit, ada.is_full) == (SAID, False)
    completed_turn(db, "ada", "a" * SAID)
    db.users.measure_storage(ada.scope)
    found = db.users.get(ada.id)
    assert found is not None
    assert found.is_full
    assert not db.users.change(ada.id, UserChanges(storage_limit=10 * SAID)).is_full
    assert db.users.change(ada.id, UserChanges(storage_limit=-1)).storage_limit is None
    assert db.audit.list(limit=1)[0].detail == "storage_limit=none"
    with pytest.raises(InvalidInput):
        db.users.create("Ben", storage_limit=-5)
    with pytest.raises(InvalidInput):
        db.users.change(ada.id, UserChanges(storage_limit=2**60))


def test_a_conversation_that_is_being_deleted_holds_up_no_measurement(still_postgres: StillPostgres) -> None:
    database = still_postgres.database()
    db = database.open()
    ada = account(db)
    completed_turn(db, "ada", "a" * SAID)
    db.create_session("other", source="web", scope=ada.scope)
    completed_turn(db, "other", "b" * SAID)
    deleting = still_postgres.place.connection
    # As a deletion does; autocommit is on, so the transaction is this block.
    with deleting.transaction():
        deleting.execute("select 1 from sessions where id = 'ada' for update")
        assert 2 * SAID <= db.users.measure_storage(ada.scope) < 4 * SAID, "the other one alone is counted"
    assert db.users.measure_storage(ada.scope) >= 4 * SAID
    database.close()
