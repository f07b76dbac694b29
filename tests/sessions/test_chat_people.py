"""Who may talk with the agent on a chat platform: nobody, until the owner says so."""

import pytest

from holdfast.core.errors import InvalidInput
from holdfast.sessions import SessionDB
from holdfast.sessions.chat_people import MAX_PAIRINGS, PAIRING_SECONDS
from tests.sessions.databases import Database


@pytest.mark.clause("G6", "S5")
def test_a_stranger_is_let_in_by_a_code(db: SessionDB) -> None:
    pairing = db.chat_people.pair("a", "p1", "Ada", "CODE0001")
    assert pairing is not None
    assert pairing.code == "CODE0001"
    again = db.chat_people.pair("a", "p1", "Ada", "CODE0002")
    assert again == pairing, "a stranger has one code"
    assert db.chat_people.get("a", "p1") is None
    assert db.chat_people.approve("CODE0002") is None
    person = db.chat_people.approve("CODE0001", "guest")
    assert person is not None
    assert (person.person, person.role, person.name) == ("p1", "guest", "Ada")
    assert db.chat_people.approve("CODE0001") is None
    assert db.chat_people.get("b", "p1") is None, "an id counts on its own account"


def test_a_code_expires_and_few_strangers_wait_at_a_time(database: Database) -> None:
    db = database.open()
    for number in range(MAX_PAIRINGS):
        assert db.chat_people.pair("a", f"p{number}", "", f"CODE{number}") is not None
    assert db.chat_people.pair("a", "late", "", "CODE9") is None
    assert db.chat_people.pair("b", "late", "", "CODE9") is not None
    assert len(db.chat_people.pairings("a")) == MAX_PAIRINGS
    database.clock.advance(PAIRING_SECONDS + 1)
    assert db.chat_people.pairings("a") == []
    assert db.chat_people.approve("CODE0") is None
    assert db.chat_people.pair("a", "late", "", "CODE8") is not None


def test_a_role_can_be_given_changed_and_taken_back(db: SessionDB) -> None:
    db.chat_people.pair("a", "p1", "Ada", "CODE")
    db.chat_people.put("a", "p1", "owner", name="Ada")
    assert db.chat_people.pairings("a") == []
    db.chat_people.put("a", "p1", "blocked")
    assert [(each.name, each.role) for each in db.chat_people.list("a")] == [("Ada", "blocked")]
    assert db.chat_people.remove("a", "p1")
    assert not db.chat_people.remove("a", "p1")
    with pytest.raises(InvalidInput):
        db.chat_people.put("a", "p1", "king")  # type: ignore[arg-type]
