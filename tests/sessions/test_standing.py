"""How conversations stand, and which of them something happened to: looks that cost what they find."""

from holdfast.sessions import SessionDB
from tests.sessions.steps import assistant, completed_turn, user
from tests.sessions.stores import Database


def test_many_conversations_are_looked_at_in_one_read(db: SessionDB) -> None:
    for name in ("idle", "runs", "over", "waits"):
        db.create_session(name, source="cli", title=name)
    completed_turn(db, "runs")
    db.rotate("runs", "child", [user("summary")], carry_from=2)
    turn = db.turns.open("child", user("go on"))
    db.hold_session("runs", "me")
    db.end_session("over", "cleared")
    db.inbox.put("waits", user("a"))
    db.inbox.put("waits", user("b"))
    found = {each.root_id: each for each in db.standings(["idle", "runs", "over", "waits", "nowhere"])}
    assert set(found) == {"idle", "runs", "over", "waits"}
    runs = found["runs"]
    assert (runs.session_id, runs.turn_id, runs.holder, runs.title) == ("child", turn.id, "me", "runs")
    assert (found["over"].ended, found["idle"].ended, found["idle"].holder) == (True, False, None)
    assert (found["waits"].waiting, found["idle"].waiting) == (2, 0)


def test_a_look_finds_what_is_busy_and_what_changed_since_the_last(db: SessionDB, database: Database) -> None:
    for name in ("quiet", "named", "spoken", "deleted", "busy"):
        db.create_session(name, source="cli")
    db.create_session("helper", source="delegate", parent="busy", relation="delegate")
    first = db.news()
    assert first.busy == first.changed == frozenset()
    database.clock.advance(60)
    since = db.news().now
    database.clock.advance(60)
    db.set_title("named", "x")
    completed_turn(db, "spoken")
    db.delete_session("deleted")
    turn = db.turns.open("busy", user("hm"))
    db.turns.open("helper", user("task"))
    db.inbox.put("named", user("later"))
    news = db.news(since)
    assert news.changed == {"named", "spoken", "deleted", "busy"}
    assert news.busy == {"busy", "named"}
    database.clock.advance(60)
    later = db.news(db.news().now)
    assert later.changed == frozenset()
    db.turns.complete(turn.id, assistant("done"))
    assert db.news().busy == {"named"}


def test_a_look_finds_what_was_said_right_after_something_else_was(db: SessionDB, database: Database) -> None:
    """Most messages in a row leave the session's own row as it is; no look may miss them for that."""
    db.create_session("s", source="cli")
    db.create_session("quiet", source="cli")
    database.clock.advance(60)
    db.append_message("s", user("first"))
    spoken = db.listed("s").last_spoken
    database.clock.advance(0.9)
    since = db.news().now
    for _ in range(3):
        database.clock.advance(0.03)
        db.append_message("s", user("more"))
        news = db.news(since)
        assert news.changed == {"s"}
        since = news.now
    assert db.listed("s").last_spoken == spoken, "the row was left as it is"
