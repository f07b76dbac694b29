"""What a process learns about the others with one statement, which costs what it finds."""

from holdfast.sessions import SessionDB
from holdfast.sessions.activity import Activity
from holdfast.sessions.leases import lease_name
from tests.sessions.databases import Database
from tests.sessions.store_fixtures import assistant, completed_turn, user


def test_a_look_finds_what_is_busy_and_what_changed_since_the_last(db: SessionDB, database: Database) -> None:
    for name in ("quiet", "named", "spoken", "deleted", "busy"):
        db.create_session(name, source="cli")
    db.create_session("helper", source="delegate", parent="busy", relation="delegate")
    first = db.activity.read()
    assert not first.busy
    database.clock.advance(60)
    since = db.activity.read()
    assert not since.busy
    assert not since.recent
    database.clock.advance(60)
    db.conversations.set_title("named", "x")
    completed_turn(db, "spoken")
    db.delete_session("deleted")
    turn = db.turns.open("busy", user("hm"))
    db.turns.open("helper", user("task"))
    db.inbox.put("named", user("later"))
    found = db.activity.read(since.now)
    assert set(found.recent) == {"named", "spoken", "deleted", "busy"}
    assert set(found.busy) == {"busy", "named"}
    assert (found.busy["busy"].turn_id, found.busy["named"].turn_id) == (turn.id, "")
    database.clock.advance(60)
    later = db.activity.read(db.activity.read().now)
    assert not later.recent
    db.turns.complete(turn.id, assistant("done"))
    assert set(db.activity.read().busy) == {"named"}


def test_the_mark_of_a_conversation_differs_after_each_thing_that_is_stored(
    db: SessionDB, database: Database
) -> None:
    db.create_session("s", source="cli")
    database.clock.advance(60)
    turn = db.turns.open("s", user("hm"))
    lease = db.hold_session("s", "me")
    assert lease is not None

    def mark() -> object:
        return db.activity.read().busy["s"]

    marks = [mark()]
    for change in (
        lambda: db.turns.append(turn.id, [assistant("a")]),
        lambda: db.turns.save_partial(turn.id, "so far"),
        lambda: db.turns.save_partial(turn.id, "so far, and on"),
        lambda: db.inbox.put("s", user("later")),
        lambda: db.asks.put("ask", turn.id, {"kind": "none"}, lease=lease),
        lambda: db.asks.close("ask"),
        lambda: db.let_go_of_session("s", "me"),
    ):
        assert mark() == marks[-1], "nothing was stored"
        change()
        marks.append(mark())
        assert marks[-1] != marks[-2]


def test_a_look_finds_what_was_said_right_after_something_else_was(db: SessionDB, database: Database) -> None:
    """Most messages in a row leave the session's own row as it is; no look may miss them for that."""
    db.create_session("s", source="cli")
    db.create_session("quiet", source="cli")
    database.clock.advance(60)
    db.sessions.append_message("s", user("first"))
    spoken = db.conversations.find("s").last_active
    database.clock.advance(0.9)
    before = db.activity.read()
    for _ in range(3):
        database.clock.advance(0.03)
        db.sessions.append_message("s", user("more"))
        found = db.activity.read(before.now)
        assert set(found.recent) == {"s"}
        assert found.recent["s"] != before.recent.get("s")
        before = found
    assert db.conversations.find("s").last_active == spoken, "the row was left as it is"


def test_interrupts_and_answers_are_found_for_the_turns_that_are_open(db: SessionDB) -> None:
    for name in ("asked", "stopped", "told", "other"):
        db.create_session(name, source="cli")
    asked, stopped, told, other = (
        db.turns.open(name, user("hm")) for name in ("asked", "stopped", "told", "other")
    )
    lease = db.hold_session("asked", "me")
    assert lease is not None
    db.asks.put("ask", asked.id, {"kind": "none"}, lease=lease)
    db.leases.acquire(lease_name("stop", stopped.id), "you", ttl_seconds=60.0)
    db.inbox.put("told", user("stop it"), mode="interrupt", addressed_to=told.id)
    db.inbox.put("other", user("join"), mode="steer")

    def interrupted(found: Activity) -> set[str]:
        return set(found.interrupted)

    assert interrupted(db.activity.read()) == {stopped.id, told.id}
    assert db.activity.read().answers == ()
    assert db.asks.answer("ask", "blue", lease_name=lease.name)
    [answer] = db.activity.read().answers
    assert (answer.ask_id, answer.turn_id, answer.text) == ("ask", asked.id, "blue")
    for turn in (asked, stopped, told, other):
        db.turns.interrupt(turn.id, "enough")
    ended = db.activity.read()
    assert (interrupted(ended), ended.answers) == (set(), ())
