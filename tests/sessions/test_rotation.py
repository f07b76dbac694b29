"""Rotation: a session goes on in exactly one child, in one transaction, with nothing lost."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.core.errors import (
    AlreadyContinued,
    HoldfastError,
    InvalidInput,
    SessionEnded,
    SessionExists,
)
from holdfast.core.ids import new_id
from holdfast.sessions import Rotation, SessionDB, Transaction
from holdfast.testing import ProcessDied
from holdfast.testing.faults import Moment
from tests.fast_run import examples
from tests.sessions.databases import Database
from tests.sessions.store_fixtures import (
    assistant,
    completed_turn,
    contents,
    crashing,
    messages,
    together,
    user,
)


@pytest.fixture
def session(db: SessionDB) -> str:
    session_id = db.create_session("s", source="cli", title="A talk").id
    db.sessions.append_messages(session_id, [user("one"), assistant("two"), user("three")])
    return session_id


@pytest.mark.clause("C6", "C8")
def test_a_rotation_ends_the_parent_and_starts_one_child(db: SessionDB, session: str) -> None:
    opening = [user("summary of one and two")]
    assert db.rotate(session, "child", opening, carry_from=2) == Rotation("child", 1)
    parent, child = db.get_session(session), db.get_session("child")
    assert parent is not None
    assert child is not None
    assert (parent.end_reason, parent.ended is not None) == ("compression", True)
    assert (child.parent, child.relation, child.source, child.title) == (
        session,
        "continuation",
        "cli",
        "A talk",
    )
    assert (child.ended, child.generation) == (None, 0)
    assert contents(db.get_messages("child")) == ["summary of one and two", "three"]
    assert [each.carried for each in db.sessions.read("child")] == [False, True]
    assert db.children(session) == ["child"]
    assert db.sessions.lineage(session) == db.sessions.lineage("child") == [session, "child"]
    assert db.sessions.live_end(session) == db.sessions.live_end("child") == "child"
    assert db.sessions.append_message("child", user("four")) == 2
    assert db.check() == []


@pytest.mark.clause("C8")
def test_the_parents_transcript_stays_as_it_was_and_is_found(db: SessionDB, session: str) -> None:
    before = db.sessions.read(session)
    db.rotate(session, "child", [user("summary")], carry_from=2)
    assert db.sessions.read(session) == before
    assert [(hit.session_id, hit.seq) for hit in db.search("one")] == [(session, 0)]
    assert [(hit.session_id, hit.seq) for hit in db.search("three")] == [(session, 2)]
    assert [(hit.session_id, hit.seq) for hit in db.search("summary")] == [("child", 0)]
    assert db.export_session(session) == db.export_session("child")


@pytest.mark.clause("C7")
def test_what_arrived_while_the_summary_was_written_is_carried_in_order(db: SessionDB, session: str) -> None:
    seen = len(db.get_messages(session))
    turn = db.turns.open(session, user("late question"))
    db.turns.append(turn.id, [assistant("late step")])
    db.sessions.append_message(session, user("late loose"))
    rotation = db.rotate(session, "child", [user("summary")], carry_from=seen)
    assert rotation.carried == 3
    assert contents(db.get_messages("child")) == [
        "summary",
        "late question",
        "late step",
        "late loose",
    ]
    carried = db.sessions.read("child", start=1)
    assert [each.turn_id for each in carried] == [turn.id, turn.id, None]
    assert [each.created for each in carried] == [
        each.created for each in db.sessions.read(session, start=seen)
    ]


@pytest.mark.clause("C7")
def test_a_running_turn_goes_on_in_the_child(db: SessionDB, session: str) -> None:
    done = completed_turn(db, session)
    turn = db.turns.open(session, user("question"))
    db.rotate(session, "child", [], carry_from=0)
    assert db.turns.running(session) is None
    running = db.turns.running("child")
    assert running is not None
    assert (running.id, running.session_id) == (turn.id, "child")
    db.turns.append(turn.id, [assistant("step")])
    finished = db.turns.complete(turn.id, assistant("answer"))
    assert (finished.session_id, finished.generation) == ("child", 1)
    assert contents(db.get_messages("child"))[-3:] == ["question", "step", "answer"]
    kept = db.turns.get(done.id)
    assert kept is not None
    assert kept.session_id == session, "a turn that ended stays where it ended"


@pytest.mark.clause("C6")
def test_the_inbox_moves_in_order_and_nothing_else_of_it(db: SessionDB, session: str) -> None:
    taken = db.inbox.put(session, user("taken"))
    turn = db.turns.open(session, take=taken.id)
    waiting = [
        db.inbox.put(session, user("a"), mode="steer", addressed_to=turn.id, key="ka"),
        db.inbox.put(session, user("b"), mode="interrupt"),
        db.inbox.put(session, user("c")),
    ]
    withdrawn = db.inbox.put(session, user("withdrawn"))
    db.inbox.withdraw(withdrawn.id)
    db.rotate(session, "child", [], carry_from=0)
    moved = db.inbox.waiting("child")
    assert [each.id for each in moved] == [each.id for each in waiting]
    assert [(each.mode, each.addressed_to, each.key) for each in moved] == [
        (each.mode, each.addressed_to, each.key) for each in waiting
    ]
    assert db.inbox.waiting(session) == []
    for old in (taken, withdrawn):
        kept = db.inbox.get(old.id)
        assert kept is not None
        assert kept.session_id == session
    assert db.turns.join(turn.id, moved[0].id) == user("a")


@pytest.mark.clause("C5")
def test_a_second_rotation_without_any_lock_adopts_the_first_child(db: SessionDB, session: str) -> None:
    db.rotate(session, "child", [user("summary")], carry_from=3)
    with pytest.raises(AlreadyContinued) as lost:
        db.rotate(session, "second child", [user("other summary")], carry_from=0)
    assert (lost.value.session_id, lost.value.child_id) == (session, "child")
    assert db.get_session("second child") is None
    assert db.children(session) == ["child"]
    assert db.get_messages("child") == [user("summary")]


@pytest.mark.clause("C1", "C5")
@pytest.mark.parametrize("locked", [False, True], ids=["no lock", "lock"])
def test_of_many_rotations_at_once_exactly_one_makes_the_child(database: Database, locked: bool) -> None:
    stores = [database.open() for _ in range(4)]
    stores[0].create_session("0", source="cli")
    stores[0].sessions.append_messages("0", [user("one"), user("two")])
    for step in range(5):
        parent = str(step)

        def compact(number: int, parent: str = parent) -> str:
            db, holder = stores[number % 4], f"agent {number}"
            if not locked:
                db.rotate(parent, f"{parent} by {number}", [], carry_from=0)
                return f"{parent} by {number}"
            if not db.try_acquire_compression_lock(parent, holder):
                raise AlreadyContinued(parent, "")
            try:
                db.rotate(parent, f"{parent} by {number}", [], carry_from=0, holder=holder)
                return f"{parent} by {number}"
            finally:
                db.release_compression_lock(parent, holder)

        outcomes = together(*(lambda n=n: compact(n) for n in range(8)))
        [child] = [each for each in outcomes if isinstance(each, str)]
        lost = [each for each in outcomes if isinstance(each, AlreadyContinued)]
        assert len(lost) == 7
        assert {error.child_id for error in lost} <= {child, ""}
        assert locked or {error.child_id for error in lost} == {child}
        assert stores[1].children(parent) == [child]
        assert stores[1].get_compression_lock_holder(parent) is None
        assert contents(stores[2].get_messages(child)) == ["one", "two"]
        stores[3].rotate(child, str(step + 1), [], carry_from=0)
    assert stores[0].check() == []


@pytest.mark.clause("C5")
def test_the_schema_itself_refuses_a_second_continuation(db: SessionDB, session: str) -> None:
    db.rotate(session, "child", [], carry_from=0)

    def insert(tx: Transaction) -> None:
        tx.connection.execute(
            "insert into sessions (id, parent, relation, source, started)"
            " values ('fork', 's', 'continuation', 'cli', 1)"
        )

    with pytest.raises(HoldfastError, match="rules"):
        db._engine.write(insert)  # noqa: SLF001 - below every check in code
    assert db.children(session) == ["child"]


@pytest.mark.clause("C6")
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_crash_leaves_the_parent_open_or_one_usable_child(database: Database, moment: Moment) -> None:
    db, engine = crashing(database.open())
    db.create_session("s", source="cli")
    turn = db.turns.open("s", user("question"))
    waiting = db.inbox.put("s", user("waits"))
    engine.arm(moment)
    with pytest.raises(ProcessDied):
        db.rotate("s", "child", [user("summary")], carry_from=0)
    restarted = database.open()
    live = "s" if moment == "before" else "child"
    assert restarted.sessions.live_end("s") == live
    assert [each.session_id for each in restarted.turns.unfinished()] == [live]
    assert [each.id for each in restarted.inbox.waiting(live)] == [waiting.id]
    restarted.turns.complete(turn.id, assistant("answer"))
    texts = contents(restarted.get_messages(live))
    assert texts == (["question", "answer"] if live == "s" else ["summary", "question", "answer"])
    if moment == "before":
        assert restarted.get_session("child") is None
        restarted.rotate("s", "child", [user("summary")], carry_from=0)
    else:
        with pytest.raises(AlreadyContinued):
            restarted.rotate("s", "other", [], carry_from=0)
    assert restarted.children("s") == ["child"]
    assert restarted.check() == []


@pytest.mark.parametrize("carry_from", [-1, 4, 2**70, -(2**70)])
def test_carrying_from_outside_the_transcript_is_invalid(
    db: SessionDB, session: str, carry_from: int
) -> None:
    with pytest.raises(InvalidInput, match="carry_from"):
        db.rotate(session, "child", [], carry_from=carry_from)
    assert db.get_session("child") is None
    assert db.sessions.live_end(session) == session
    assert db.sessions.append_message(session, user("four")) == 3


def test_everything_or_nothing_may_be_carried(db: SessionDB, session: str) -> None:
    assert db.rotate(session, "all", [], carry_from=0).carried == 3
    assert contents(db.get_messages("all")) == ["one", "two", "three"]
    assert db.rotate("all", "none", [], carry_from=3).carried == 0
    assert db.get_messages("none") == []
    assert db.sessions.append_message("none", user("first")) == 0


def test_a_child_id_that_exists_is_refused_by_name_and_changes_nothing(db: SessionDB, session: str) -> None:
    db.create_session("taken", source="web")
    db.sessions.append_message("taken", user("mine"))
    waiting = db.inbox.put(session, user("waits"))
    for child in ("taken", session):
        with pytest.raises(SessionExists) as refused:
            db.rotate(session, child, [user("summary")], carry_from=1)
        assert refused.value.session_id == child
    assert db.sessions.live_end(session) == session
    assert db.children(session) == []
    assert db.get_messages("taken") == [user("mine")]
    assert [each.id for each in db.inbox.waiting(session)] == [waiting.id]
    assert db.sessions.append_message(session, user("four")) == 3


def test_an_ended_session_does_not_rotate(db: SessionDB, session: str) -> None:
    db.sessions.end(session, "user left")
    with pytest.raises(SessionEnded):
        db.rotate(session, "child", [], carry_from=0)
    assert db.get_session("child") is None


@pytest.mark.clause("C7")
def test_appends_race_with_rotations_and_every_acknowledged_one_is_carried(
    database: Database,
) -> None:
    writer, rotator = database.open(), database.open()
    writer.create_session("0", source="cli")
    acknowledged = []

    def write() -> None:
        for number in range(60):
            while True:
                try:
                    writer.sessions.append_message(writer.sessions.live_end("0"), user(str(number)))
                except SessionEnded:
                    continue
                acknowledged.append(str(number))
                break

    def rotate() -> None:
        for number in range(10):
            rotator.rotate(str(number), str(number + 1), [], carry_from=0)

    assert together(write, rotate) == [None, None]
    assert contents(writer.get_messages("10")) == acknowledged == [str(n) for n in range(60)]


@given(
    st.lists(messages, max_size=6),
    st.lists(messages, max_size=3),
    st.lists(st.floats(0, 1), max_size=4),
)
@settings(
    max_examples=examples(30), suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
def test_a_child_starts_with_its_opening_and_then_what_was_carried(
    db: SessionDB, said: list[Any], opening: list[Any], cuts: list[float]
) -> None:
    first = current = new_id()
    db.create_session(current, source="cli")
    db.sessions.append_messages(current, said)
    expected = said
    for cut in cuts:
        carry_from = int(cut * len(expected))
        child = new_id()
        rotation = db.rotate(current, child, opening, carry_from=carry_from)
        assert rotation.carried == len(expected) - carry_from
        expected = opening + expected[carry_from:]
        assert db.get_messages(child) == expected
        current = child
    assert db.get_messages(first) == said
    assert db.sessions.live_end(first) == current
    assert db.sessions.lineage(current)[0] == first
    assert len(db.sessions.lineage(current)) == len(cuts) + 1
