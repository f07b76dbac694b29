"""Sessions and their messages: creating, appending, reading, ending, and the conversation around one."""

from collections.abc import Callable
from typing import Any, cast

import pytest

from holdfast.core.errors import (
    HoldfastError,
    InvalidInput,
    SessionEnded,
    SessionExists,
    SessionNotFound,
    TurnNotFound,
    TurnNotRunning,
)
from holdfast.sessions import SessionDB
from holdfast.sessions.contract import Relation
from tests.sessions.databases import Database
from tests.sessions.store_fixtures import assistant, completed_turn, contents, together, user

UNSTORABLE_IDS = ["", "\x00", "a\x00b", "\ud800", "half \udfff pair", "x" * 501]
ODD_IDS = [
    " ",
    "a b",
    "'; drop table sessions; --",
    "../../etc/passwd",
    "naïve/日本語/🎉/\u202eabc",
    "tab\tand\nnewline",
    "%s :id $1 ?",
    "x" * 500,
    "🎉" * 500,
]


def test_a_new_session_is_open_and_empty(db: SessionDB) -> None:
    session = db.create_session("s", source="cli", title="A talk")
    assert db.get_session("s") == session
    assert (session.source, session.title, session.parent, session.relation) == (
        "cli",
        "A talk",
        None,
        None,
    )
    assert (session.ended, session.end_reason) == (None, None)
    assert (session.generation, session.committed_generation) == (0, 0)
    assert db.get_messages("s") == []


def test_an_unknown_session_has_no_row_no_messages_and_no_children(db: SessionDB) -> None:
    assert db.get_session("nobody") is None
    assert db.get_messages("nobody") == []
    assert db.sessions.read("nobody") == []
    assert db.children("nobody") == []


def test_an_unknown_session_is_refused_by_name_where_it_must_exist(db: SessionDB) -> None:
    calls: list[Callable[[], object]] = [
        lambda: db.sessions.append_message("nobody", user("hi")),
        lambda: db.sessions.end("nobody", "done"),
        lambda: db.conversations.set_title("nobody", "t"),
        lambda: db.sessions.live_end("nobody"),
        lambda: db.sessions.lineage("nobody"),
        lambda: db.turns.open("nobody", user("hi")),
        lambda: db.inbox.put("nobody", user("hi")),
        lambda: db.export_session("nobody"),
        lambda: db.rotate("nobody", "child", [], carry_from=0),
    ]
    for call in calls:
        with pytest.raises(SessionNotFound) as refused:
            call()
        assert refused.value.session_id == "nobody"


def test_a_session_is_created_once(db: SessionDB) -> None:
    first = db.create_session("s", source="cli")
    with pytest.raises(SessionExists) as refused:
        db.create_session("s", source="web", title="other")
    assert refused.value.session_id == "s"
    assert db.get_session("s") == first


def test_of_many_threads_that_create_one_session_exactly_one_does(database: Database) -> None:
    stores = [database.open() for _ in range(3)]

    def create(number: int) -> str:
        return stores[number % 3].create_session("s", source=f"thread{number}").source

    outcomes = together(*(lambda n=n: create(n) for n in range(9)))
    won = [outcome for outcome in outcomes if isinstance(outcome, str)]
    assert len(won) == 1
    assert all(isinstance(other, SessionExists) for other in outcomes if other not in won)
    session = stores[0].get_session("s")
    assert session is not None
    assert session.source == won[0]


@pytest.mark.parametrize("session_id", ODD_IDS)
def test_any_text_of_up_to_500_characters_is_an_id(db: SessionDB, session_id: str) -> None:
    db.create_session(session_id, source="cli")
    db.sessions.append_message(session_id, user("hello"))
    turn = completed_turn(db, session_id, providers=["p"])
    db.inbox.put(session_id, user("later"), key=session_id)
    db.rotate(session_id, session_id[:-1] + "ç", [], carry_from=1)
    assert turn.session_id == session_id
    assert db.children(session_id) == [session_id[:-1] + "ç"]
    assert db.sessions.live_end(session_id) == session_id[:-1] + "ç"
    assert [hit.session_id for hit in db.search("hello")] == [session_id]
    assert len(db.export_session(session_id)) == 1 + 2 + 1 + 5 + 1


@pytest.mark.parametrize("session_id", UNSTORABLE_IDS)
def test_an_id_that_can_not_be_stored_is_invalid_input(db: SessionDB, session_id: str) -> None:
    with pytest.raises(InvalidInput, match="session id"):
        db.create_session(session_id, source="cli")
    with pytest.raises(InvalidInput, match="source"):
        db.create_session("s", source=session_id)
    db.create_session("s", source="cli")
    with pytest.raises(InvalidInput, match="turn id"):
        db.turns.open("s", user("hi"), turn_id=session_id)
    with pytest.raises(InvalidInput, match="end reason"):
        db.sessions.end("s", session_id)
    with pytest.raises(InvalidInput):
        db.rotate("s", session_id, [], carry_from=0)
    with pytest.raises(InvalidInput):
        db.inbox.put("s", user("hi"), key=session_id)
    with pytest.raises(InvalidInput):
        db.leases.acquire(session_id, "me", ttl_seconds=1)
    with pytest.raises(InvalidInput):
        db.leases.acquire("name", session_id, ttl_seconds=1)
    assert db.children("s") == []
    assert db.inbox.waiting("s") == []


@pytest.mark.parametrize("unknown", UNSTORABLE_IDS)
def test_asking_for_an_id_that_can_not_exist_fails_by_name_or_finds_nothing(
    db: SessionDB, unknown: str
) -> None:
    db.create_session("s", source="cli")
    calls: list[Callable[[], object]] = [
        lambda: db.get_session(unknown),
        lambda: db.get_messages(unknown),
        lambda: db.sessions.read(unknown),
        lambda: db.children(unknown),
        lambda: db.sessions.append_message(unknown, user("hi")),
        lambda: db.sessions.append_message("s", user("hi"), turn_id=unknown),
        lambda: db.sessions.end(unknown, "done"),
        lambda: db.sessions.live_end(unknown),
        lambda: db.turns.get(unknown),
        lambda: db.turns.append(unknown, [user("hi")]),
        lambda: db.turns.running(unknown),
        lambda: db.inbox.put(unknown, user("hi")),
        lambda: db.inbox.put("s", user("hi"), addressed_to=unknown),
        lambda: db.inbox.waiting(unknown),
        lambda: db.outbox.enqueue(unknown, "p"),
        lambda: db.outbox.claim(unknown, lease_seconds=1),
        lambda: db.outbox.backlog(unknown).owed,
        lambda: db.leases.current(unknown),
        lambda: db.sessions.mark_committed(unknown, 1),
        lambda: db.sessions.uncommitted_messages(unknown),
        lambda: db.export_session(unknown),
        lambda: db.get_compression_lock_holder(unknown),
    ]
    for number, call in enumerate(calls):
        try:
            found = call()
        except HoldfastError:
            continue
        assert not found, number
    assert db.get_messages("s") == []
    assert db.check() == []


def test_numbers_too_large_to_store_are_refused_by_name_or_find_nothing(db: SessionDB) -> None:
    db.create_session("s", source="cli")
    huge = 2**70
    for call in (
        lambda: db.sessions.mark_committed("s", huge),
        lambda: db.sessions.uncommitted_messages("s", through=huge),
        lambda: db.inbox.withdraw(huge),
        lambda: db.turns.open("s", take=huge),
        lambda: db.outbox.retry(huge),
        lambda: db.outbox.list("owed", after=huge),
        lambda: db.sessions.read("s", start=huge),
        lambda: db.inbox.get(huge),
    ):
        try:
            found = cast(Any, call())
        except HoldfastError:
            continue
        assert not found
    assert db.turns.unfinished() == []


@pytest.mark.parametrize(
    ("parent", "relation"),
    [("p", None), (None, "branch"), ("p", "continuation"), ("p", "cousin"), (None, "continuation")],
)
def test_a_parent_and_a_relation_that_do_not_fit_are_invalid(
    db: SessionDB, parent: str | None, relation: Relation | None
) -> None:
    db.create_session("p", source="cli")
    with pytest.raises(InvalidInput, match="parent"):
        db.create_session("s", source="cli", parent=parent, relation=relation)
    assert db.get_session("s") is None


def test_a_branch_and_a_delegate_name_their_parent(db: SessionDB) -> None:
    db.create_session("p", source="cli")
    db.create_session("b", source="cli", parent="p", relation="branch")
    db.create_session("d", source="cli", parent="p", relation="delegate")
    assert sorted(db.children("p")) == ["b", "d"]
    assert db.sessions.live_end("p") == "p"
    assert db.sessions.lineage("p") == ["p"]
    assert db.sessions.lineage("b") == ["b"]


def test_an_unknown_parent_is_refused_and_creates_nothing(db: SessionDB) -> None:
    with pytest.raises(SessionNotFound) as refused:
        db.create_session("s", source="cli", parent="nobody", relation="branch")
    assert refused.value.session_id == "nobody"
    assert db.get_session("s") is None


def test_messages_come_back_in_order_with_their_places(db: SessionDB) -> None:
    db.create_session("s", source="cli")
    assert db.sessions.append_message("s", user("one")) == 0
    assert db.sessions.append_messages("s", [assistant("two"), user("three")]) == [1, 2]
    assert db.get_messages("s") == [user("one"), assistant("two"), user("three")]
    stored = db.sessions.read("s")
    assert [(each.session_id, each.seq, each.turn_id, each.carried) for each in stored] == [
        ("s", 0, None, False),
        ("s", 1, None, False),
        ("s", 2, None, False),
    ]


def test_reading_in_pages_shows_every_message_once(db: SessionDB) -> None:
    db.create_session("s", source="cli")
    db.sessions.append_messages("s", [user(str(number)) for number in range(25)])
    pages = [db.sessions.read("s", start=start, limit=10) for start in (0, 10, 20, 30)]
    assert [len(page) for page in pages] == [10, 10, 5, 0]
    assert [each.message.get("content") for page in pages for each in page] == [
        str(number) for number in range(25)
    ]
    assert db.sessions.read("s", limit=0) == []
    assert len(db.sessions.read("s", start=-5)) == 25


def test_a_negative_limit_is_invalid_everywhere(db: SessionDB) -> None:
    db.create_session("s", source="cli")
    completed_turn(db, "s", "words", providers=["p"])
    db.inbox.put("s", user("later"))
    for call in (
        lambda: db.sessions.read("s", limit=-1),
        lambda: db.inbox.waiting("s", limit=-1),
        lambda: db.outbox.list("owed", limit=-1),
        lambda: db.outbox.claim("p", lease_seconds=1, limit=-1),
        lambda: db.search("words", limit=-1),
    ):
        with pytest.raises(InvalidInput, match="limit"):
            call()
    assert db.outbox.list("claimed") == []


def test_an_append_stores_all_of_its_messages_or_none(db: SessionDB) -> None:
    db.create_session("s", source="cli")
    bad = cast(Any, {"role": "user", "content": object()})
    with pytest.raises(InvalidInput):
        db.sessions.append_messages("s", [user("one"), bad])
    with pytest.raises(TurnNotFound):
        db.sessions.append_messages("s", [user("one"), user("two")], turn_id="no such turn")
    assert db.get_messages("s") == []
    assert db.search("one") == []
    assert db.sessions.append_message("s", user("first")) == 0


def test_many_threads_append_to_one_session_without_gaps(database: Database) -> None:
    stores = [database.open() for _ in range(4)]
    stores[0].create_session("s", source="cli")

    def append(number: int) -> list[int]:
        return [
            stores[number % 4].sessions.append_message("s", user(f"{number}.{step}")) for step in range(20)
        ]

    outcomes = together(*(lambda n=n: append(n) for n in range(8)))
    places = [seq for each in outcomes for seq in cast(list[int], each)]
    assert sorted(places) == list(range(160))
    said = contents(stores[0].get_messages("s"))
    for number, own in enumerate(outcomes):
        assert [said[seq] for seq in cast(list[int], own)] == [f"{number}.{n}" for n in range(20)]


def test_an_ended_session_refuses_messages_by_name(db: SessionDB) -> None:
    db.create_session("s", source="cli")
    db.sessions.end("s", "user left")
    for call in (
        lambda: db.sessions.append_message("s", user("late")),
        lambda: db.sessions.end("s", "again"),
        lambda: db.turns.open("s", user("late")),
        lambda: db.inbox.put("s", user("late")),
        lambda: db.rotate("s", "child", [], carry_from=0),
    ):
        with pytest.raises(SessionEnded) as refused:
            call()
        assert (refused.value.session_id, refused.value.end_reason) == ("s", "user left")
        assert refused.value.live_end is None
    session = db.get_session("s")
    assert session is not None
    assert (session.end_reason, session.ended is not None) == ("user left", True)
    assert db.get_messages("s") == []


def test_a_continued_session_names_the_live_end(db: SessionDB) -> None:
    db.create_session("a", source="cli")
    db.rotate("a", "b", [], carry_from=0)
    db.rotate("b", "c", [], carry_from=0)
    for call in (
        lambda: db.sessions.append_message("a", user("late")),
        lambda: db.turns.open("a", user("late")),
        lambda: db.sessions.end("a", "again"),
    ):
        with pytest.raises(SessionEnded, match="'c'") as refused:
            call()
        assert (refused.value.end_reason, refused.value.live_end) == ("compression", "c")


def test_a_message_joins_only_a_running_turn_of_its_own_session(db: SessionDB) -> None:
    for session_id in ("s", "other"):
        db.create_session(session_id, source="cli")
    turn = db.turns.open("s", user("question"))
    assert db.sessions.append_message("s", assistant("step"), turn_id=turn.id) == 1
    with pytest.raises(TurnNotFound):
        db.sessions.append_message("other", assistant("step"), turn_id=turn.id)
    db.turns.complete(turn.id, assistant("done"))
    with pytest.raises(TurnNotRunning) as refused:
        db.sessions.append_message("s", assistant("late"), turn_id=turn.id)
    assert refused.value.state == "completed"
    assert contents(db.get_messages("s")) == ["question", "step", "done"]


def test_a_title_can_be_set_changed_and_removed(db: SessionDB) -> None:
    db.create_session("s", source="cli")
    for title in ("First", "日本 🎉 'quoted'", None, ""):
        db.conversations.set_title("s", title)
        session = db.get_session("s")
        assert session is not None
        assert session.title == title
    for bad in ("nul \x00", "half \ud800"):
        with pytest.raises(InvalidInput):
            db.conversations.set_title("s", bad)
        with pytest.raises(InvalidInput):
            db.create_session("t", source="cli", title=bad)


def test_the_store_reads_its_own_writes_from_every_open_store(database: Database) -> None:
    first, second = database.open(), database.open()
    first.create_session("s", source="cli")
    for number in range(20):
        writer, reader = (first, second) if number % 2 else (second, first)
        writer.sessions.append_message("s", user(str(number)))
        assert len(reader.get_messages("s")) == number + 1
        assert len(writer.get_messages("s")) == number + 1


@pytest.mark.clause("L13")
def test_uncommitted_sessions_are_found_after_a_crash_until_a_commit_covers_them(
    database: Database,
) -> None:
    db = database.open()
    for session_id in ("clean", "dirty", "failed"):
        db.create_session(session_id, source="cli")
    for _ in range(3):
        completed_turn(db, "dirty")
    turn = db.turns.open("failed", user("q"))
    db.turns.fail(turn.id, "model error")
    restarted = database.open()
    assert restarted.sessions.uncommitted() == ["dirty"]
    assert restarted.sessions.mark_committed("dirty", 2)
    assert restarted.sessions.uncommitted() == ["dirty"], "the third turn came after that commit"
    assert restarted.sessions.mark_committed("dirty", 3)
    assert restarted.sessions.uncommitted() == []
    assert not restarted.sessions.mark_committed("dirty", 3), "nothing new"
    assert not restarted.sessions.mark_committed("dirty", 1), "a late commit never takes the mark back"
    assert not restarted.sessions.mark_committed("dirty", 9), "no turn of that generation was completed"
    assert not restarted.sessions.mark_committed("nobody", 1)


@pytest.mark.clause("L13")
def test_a_rotation_does_not_hide_uncommitted_turns(db: SessionDB) -> None:
    db.create_session("a", source="cli")
    completed_turn(db, "a")
    db.rotate("a", "b", [], carry_from=0)
    assert db.sessions.uncommitted() == ["a"]
    completed_turn(db, "b")
    assert sorted(db.sessions.uncommitted()) == ["a", "b"]
