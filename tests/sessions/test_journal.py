"""The turn journal: every step is on disk before the next, and completion is one transaction."""

from collections.abc import Callable

import pytest

from holdfast.core.contract import Message
from holdfast.core.errors import (
    InvalidInput,
    LeaseLost,
    NotWaiting,
    Refused,
    SessionBusy,
    SessionEnded,
    TurnAlreadyRunning,
    TurnExists,
    TurnNotFound,
    TurnNotRunning,
)
from holdfast.sessions import SessionDB, TurnRecord
from tests.sessions.databases import Database
from tests.sessions.store_fixtures import assistant, completed_turn, contents, hold_lease, together, user

MOMENTS = pytest.mark.parametrize("moment", ["before", "after"])


@pytest.fixture
def session(db: SessionDB) -> str:
    return db.create_session("s", source="cli").id


def tool_result(content: str) -> Message:
    return {"role": "tool", "content": content, "tool_call_id": "c1"}


def generation(db: SessionDB, session_id: str) -> int:
    session = db.get_session(session_id)
    assert session is not None
    return session.generation


@pytest.mark.clause("D10")
def test_opening_a_turn_stores_the_users_message_with_it(db: SessionDB, session: str) -> None:
    turn = db.turns.open(session, user("question"), turn_id="t1")
    assert turn == TurnRecord("t1", session, "running", turn.started, None, None, None)
    assert db.turns.get("t1") == turn
    assert db.turns.running(session) == turn
    assert db.get_messages(session) == [user("question")]
    assert db.sessions.read(session)[0].turn_id == "t1"


def test_a_turn_opens_with_a_message_or_takes_one_not_both_and_not_neither(
    db: SessionDB, session: str
) -> None:
    waiting = db.inbox.put(session, user("waits"))
    with pytest.raises(InvalidInput):
        db.turns.open(session)
    with pytest.raises(InvalidInput):
        db.turns.open(session, user("q"), take=waiting.id)
    assert db.turns.unfinished() == []


def test_a_session_runs_one_turn_at_a_time(db: SessionDB, session: str) -> None:
    first = db.turns.open(session, user("one"))
    with pytest.raises(TurnAlreadyRunning) as refused:
        db.turns.open(session, user("two"))
    assert (refused.value.session_id, refused.value.turn_id) == (session, first.id)
    assert db.get_messages(session) == [user("one")]
    db.turns.complete(first.id)
    assert db.turns.open(session, user("two")).state == "running"


def test_a_turn_id_is_used_once_whatever_became_of_the_turn(db: SessionDB, session: str) -> None:
    db.turns.open(session, user("one"), turn_id="t1")
    db.turns.complete("t1")
    waiting = db.inbox.put(session, user("waits"))
    other = db.create_session("other", source="cli").id
    attempts: list[Callable[[], TurnRecord]] = [
        lambda: db.turns.open(session, user("two"), turn_id="t1"),
        lambda: db.turns.open(session, take=waiting.id, turn_id="t1"),
        lambda: db.turns.open(other, user("two"), turn_id="t1"),
    ]
    for attempt in attempts:
        with pytest.raises(TurnExists) as refused:
            attempt()
        assert refused.value.turn_id == "t1"
    assert (db.get_messages(session), db.get_messages(other)) == ([user("one")], [])
    assert db.inbox.waiting(session) == [waiting]
    assert db.turns.unfinished() == []


def test_an_ended_session_is_said_to_be_ended_before_a_turn_id_is_said_to_be_used(
    db: SessionDB, session: str
) -> None:
    db.turns.open(session, user("one"), turn_id="t1")
    db.turns.complete("t1")
    db.sessions.end(session, "done")
    with pytest.raises(SessionEnded):
        db.turns.open(session, user("two"), turn_id="t1")


def test_of_many_that_open_a_turn_by_the_same_id_in_different_sessions_one_does(database: Database) -> None:
    stores = [database.open() for _ in range(2)]
    for n in range(6):
        stores[0].create_session(f"s{n}", source="cli")
    outcomes = together(
        *(lambda n=n: stores[n % 2].turns.open(f"s{n}", user("q"), turn_id="t1") for n in range(6))
    )
    assert [type(outcome) for outcome in outcomes].count(TurnExists) == 5
    assert len(stores[0].turns.unfinished()) == 1


def test_of_many_threads_that_open_a_turn_exactly_one_does(database: Database) -> None:
    stores = [database.open() for _ in range(2)]
    stores[0].create_session("s", source="cli")
    outcomes = together(*(lambda n=n: stores[n % 2].turns.open("s", user(str(n))) for n in range(8)))
    won = [outcome for outcome in outcomes if isinstance(outcome, TurnRecord)]
    lost = [outcome for outcome in outcomes if isinstance(outcome, TurnAlreadyRunning)]
    assert (len(won), len(lost)) == (1, 7)
    assert {error.turn_id for error in lost} == {won[0].id}
    assert len(stores[0].get_messages("s")) == 1


def test_a_turn_id_is_used_once(db: SessionDB, session: str) -> None:
    db.create_session("other", source="cli")
    db.turns.open(session, user("one"), turn_id="t")
    with pytest.raises(Refused):
        db.turns.open("other", user("two"), turn_id="t")
    assert db.get_messages("other") == []
    assert db.turns.running("other") is None


def test_taking_a_message_moves_it_from_the_inbox_into_the_turn(db: SessionDB, session: str) -> None:
    waiting = db.inbox.put(session, user("question"))
    turn = db.turns.open(session, take=waiting.id)
    taken = db.inbox.get(waiting.id)
    assert taken is not None
    assert (taken.state, taken.turn_id) == ("taken", turn.id)
    assert db.inbox.waiting(session) == []
    assert db.turns.messages(turn.id) == [user("question")]


def test_a_message_is_taken_once_and_only_while_it_waits(db: SessionDB, session: str) -> None:
    db.create_session("other", source="cli")
    taken = db.inbox.put(session, user("taken"))
    withdrawn = db.inbox.put("other", user("withdrawn"))
    foreign = db.inbox.put(session, user("foreign"))
    running = db.turns.open(session, take=taken.id)
    db.inbox.withdraw(withdrawn.id)
    cases = [
        (taken.id, "taken"),
        (withdrawn.id, "withdrawn"),
        (foreign.id, "in another session"),
        (987654, "unknown"),
    ]
    for inbox_id, state in cases:
        with pytest.raises(NotWaiting) as refused:
            db.turns.open("other", take=inbox_id)
        assert (refused.value.inbox_id, refused.value.state) == (inbox_id, state)
    assert db.turns.running("other") is None
    assert db.get_messages("other") == []
    other = db.turns.open("other", user("q"))
    for inbox_id, state in cases:
        with pytest.raises(NotWaiting) as refused:
            db.turns.join(other.id, inbox_id)
        assert (refused.value.inbox_id, refused.value.state) == (inbox_id, state)
    assert db.get_messages("other") == [user("q")]
    assert [each.id for each in db.inbox.waiting(session)] == [foreign.id]
    assert db.turns.running(session) == running


@pytest.mark.clause("I1")
def test_a_steering_message_joins_the_running_turn_at_its_place(db: SessionDB, session: str) -> None:
    turn = db.turns.open(session, user("question"))
    db.turns.append(turn.id, [assistant("step")])
    steer = db.inbox.put(session, user("rather this"), mode="steer", addressed_to=turn.id)
    assert db.turns.join(turn.id, steer.id) == user("rather this")
    db.turns.append(turn.id, [assistant("this, then")])
    said = ["question", "step", "rather this", "this, then"]
    assert contents(db.turns.messages(turn.id)) == said
    assert contents(db.get_messages(session)) == said
    found = db.inbox.get(steer.id)
    assert found is not None
    assert (found.state, found.turn_id, found.addressed_to) == ("taken", turn.id, turn.id)


@pytest.mark.clause("I1")
def test_of_two_turns_that_reach_for_one_message_one_gets_it(database: Database) -> None:
    one, two = database.open(), database.open()
    one.create_session("s", source="cli")
    turn = one.turns.open("s", user("q"))
    for number in range(10):
        steer = one.inbox.put("s", user(f"steer {number}"), mode="steer")
        outcomes = together(
            lambda steer=steer: one.turns.join(turn.id, steer.id),  # type: ignore[misc]
            lambda steer=steer: two.turns.join(turn.id, steer.id),  # type: ignore[misc]
            lambda steer=steer: two.inbox.withdraw(steer.id),  # type: ignore[misc]
        )
        assert sum(isinstance(each, NotWaiting) for each in outcomes) == 2
        found = one.inbox.get(steer.id)
        assert found is not None
        joined = f"steer {number}" in contents(one.turns.messages(turn.id))
        assert joined == (found.state == "taken")
    assert one.inbox.waiting("s") == []


@pytest.mark.clause("D1")
def test_completion_stores_answer_state_generation_and_what_is_owed(db: SessionDB, session: str) -> None:
    turn = db.turns.open(session, user("question"))
    done = db.turns.complete(turn.id, assistant("answer"), providers=["b", "a", "b"])
    assert (done.state, done.generation, done.reason) == ("completed", 1, None)
    assert done.ended is not None
    assert generation(db, session) == 1
    assert db.turns.get(turn.id) == done
    assert contents(db.get_messages(session)) == ["question", "answer"]
    owed = db.outbox.list("owed")
    assert sorted((each.provider, each.session_id, each.turn_id) for each in owed) == [
        ("a", session, turn.id),
        ("b", session, turn.id),
    ]
    assert db.turns.unfinished() == []
    assert db.turns.running(session) is None


@pytest.mark.clause("D1")
def test_a_provider_name_that_can_not_be_stored_completes_nothing(db: SessionDB, session: str) -> None:
    turn = db.turns.open(session, user("question"))
    with pytest.raises(InvalidInput, match="provider"):
        db.turns.complete(turn.id, assistant("answer"), providers=["fine", ""])
    assert db.turns.running(session) == turn
    assert db.get_messages(session) == [user("question")]
    assert db.outbox.list("owed") == []


def test_generations_count_completed_turns_only(db: SessionDB, session: str) -> None:
    db.turns.fail(db.turns.open(session, user("one")).id, "model error")
    db.turns.interrupt(db.turns.open(session, user("two")).id, "user")
    assert generation(db, session) == 0
    assert [completed_turn(db, session).generation for _ in range(3)] == [1, 2, 3]
    assert generation(db, session) == 3


@pytest.mark.parametrize("end", ["interrupt", "fail"])
def test_a_turn_that_stops_early_keeps_its_partial_work(db: SessionDB, session: str, end: str) -> None:
    turn = db.turns.open(session, user("question"))
    db.turns.append(turn.id, [assistant("step")])
    stop = db.turns.interrupt if end == "interrupt" else db.turns.fail
    stopped = stop(turn.id, "because 🎉", [assistant("half a sent"), tool_result("cancelled")])
    assert stopped.state == {"interrupt": "interrupted", "fail": "failed"}[end]
    assert (stopped.reason, stopped.generation) == ("because 🎉", None)
    assert contents(db.get_messages(session)) == ["question", "step", "half a sent", "cancelled"]
    assert db.outbox.list("owed") == []
    assert db.sessions.uncommitted() == []
    assert db.turns.running(session) is None
    for bad in ("nul \x00", "half \ud800"):
        again = db.turns.open(session, user("again"))
        with pytest.raises(InvalidInput):
            stop(again.id, bad)
        db.turns.complete(again.id)


@pytest.mark.parametrize("end", ["completed", "interrupted", "failed"])
def test_a_turn_that_ended_goes_no_further(db: SessionDB, session: str, end: str) -> None:
    turn = db.turns.open(session, user("question"))
    match end:
        case "completed":
            db.turns.complete(turn.id, providers=["p"])
        case "interrupted":
            db.turns.interrupt(turn.id, "stop")
        case _:
            db.turns.fail(turn.id, "error")
    late = db.inbox.put(session, user("late"))
    before = db.export_session(session)
    for call in (
        lambda: db.turns.append(turn.id, [assistant("late")]),
        lambda: db.turns.complete(turn.id, assistant("late"), providers=["p", "q"]),
        lambda: db.turns.interrupt(turn.id, "late", [assistant("late")]),
        lambda: db.turns.fail(turn.id, "late", [assistant("late")]),
        lambda: db.turns.join(turn.id, late.id),
    ):
        with pytest.raises(TurnNotRunning) as refused:
            call()
        assert (refused.value.turn_id, refused.value.state) == (turn.id, end)
    assert db.export_session(session) == before
    assert len(db.outbox.list("owed")) == (1 if end == "completed" else 0)


def test_an_unknown_turn_is_refused_by_name(db: SessionDB, session: str) -> None:
    waiting = db.inbox.put(session, user("waits"))
    assert db.turns.get("nobody") is None
    assert db.turns.messages("nobody") == []
    for call in (
        lambda: db.turns.append("nobody", [assistant("x")]),
        lambda: db.turns.complete("nobody"),
        lambda: db.turns.interrupt("nobody", "x"),
        lambda: db.turns.fail("nobody", "x"),
        lambda: db.turns.join("nobody", waiting.id),
    ):
        with pytest.raises(TurnNotFound):
            call()
    assert len(db.inbox.waiting(session)) == 1


def test_unfinished_turns_of_all_sessions_are_listed_oldest_first(database: Database) -> None:
    db = database.open()
    opened = []
    for session_id in ("c", "a", "b"):
        db.create_session(session_id, source="cli")
        completed_turn(db, session_id)
        opened.append(db.turns.open(session_id, user("q")))
        database.clock.advance(1)
    assert database.open().turns.unfinished() == opened


def test_a_turn_reads_as_one_across_rotations_each_message_once(db: SessionDB, session: str) -> None:
    turn = db.turns.open(session, user("question"))
    db.turns.append(turn.id, [assistant("one"), tool_result("two")])
    db.rotate(session, "b", [user("summary")], carry_from=1)
    db.turns.append(turn.id, [assistant("three")])
    db.rotate("b", "c", [user("summary 2")], carry_from=2)
    moved = db.turns.get(turn.id)
    assert moved is not None
    assert (moved.session_id, moved.state) == ("c", "running")
    db.turns.complete(turn.id, assistant("answer"), providers=["p"])
    assert contents(db.turns.messages(turn.id)) == ["question", "one", "two", "three", "answer"]
    assert contents(db.get_messages("c")) == ["summary 2", "two", "three", "answer"]
    assert [each.session_id for each in db.outbox.list("owed")] == ["c"]


def test_steps_of_a_turn_race_with_rotations_and_none_is_lost(database: Database) -> None:
    writer, rotator = database.open(), database.open()
    writer.create_session("0", source="cli")
    turn = writer.turns.open("0", user("question"))

    def write() -> None:
        for number in range(40):
            writer.turns.append(turn.id, [assistant(str(number))])

    def rotate() -> None:
        for number in range(8):
            rotator.rotate(str(number), str(number + 1), [], carry_from=0)

    assert together(write, rotate) == [None, None]
    wanted = ["question", *map(str, range(40))]
    assert contents(writer.turns.messages(turn.id)) == wanted
    assert contents(writer.get_messages("8")) == wanted
    assert writer.check() == []


def test_a_session_in_which_a_turn_runs_does_not_end(db: SessionDB, session: str) -> None:
    turn = db.turns.open(session, user("question"))
    with pytest.raises(SessionBusy, match=f"turn '{turn.id}' is running"):
        db.sessions.end(session, "user left")
    db.turns.complete(turn.id, assistant("answer"))
    db.sessions.end(session, "user left")


@pytest.mark.clause("D10")
def test_a_node_that_lost_the_sessions_lease_can_not_go_on_with_its_turn(database: Database) -> None:
    db = database.open()
    db.create_session("s", source="cli")
    lease = hold_lease(db, "session:s", "node a", ttl_seconds=10)
    stalled = db.turns.under(lease)
    turn = stalled.open("s", user("q"))
    stalled.append(turn.id, [assistant("one step")])
    waiting = db.inbox.put("s", user("and this"), mode="steer")
    database.clock.advance(10)
    said = db.get_messages("s")
    calls: tuple[Callable[[], object], ...] = (
        lambda: stalled.append(turn.id, [assistant("late")]),
        lambda: stalled.join(turn.id, waiting.id),
        lambda: stalled.complete(turn.id, assistant("late"), providers=["p"]),
        lambda: stalled.interrupt(turn.id, "late"),
        lambda: stalled.fail(turn.id, "late"),
    )
    successor = hold_lease(db, "session:s", "node b", ttl_seconds=10)
    for call in calls:
        with pytest.raises(LeaseLost, match="another process"):
            call()
    assert db.get_messages("s") == said
    assert db.turns.running("s") == turn
    assert db.outbox.backlog("p").owed == 0
    assert [each.id for each in db.inbox.waiting("s")] == [waiting.id]
    db.turns.under(successor).complete(turn.id, assistant("done"))
    with pytest.raises(LeaseLost):
        stalled.open("s", user("next"))
    assert db.turns.running("s") is None
