"""How conversations stand, many in one read."""

from holdfast.sessions import SessionDB
from tests.sessions.store_fixtures import completed_turn, user


def test_many_conversations_are_looked_at_in_one_read(db: SessionDB) -> None:
    for name in ("idle", "runs", "over", "waits"):
        db.create_session(name, source="cli", title=name)
    completed_turn(db, "runs")
    db.rotate("runs", "child", [user("summary")], carry_from=2)
    turn = db.turns.open("child", user("go on"))
    db.hold_session("runs", "me")
    db.sessions.end("over", "cleared")
    db.inbox.put("waits", user("a"))
    db.inbox.put("waits", user("b"))
    found = {each.root_id: each for each in db.statuses.of(["idle", "runs", "over", "waits", "nowhere"])}
    assert set(found) == {"idle", "runs", "over", "waits"}
    runs = found["runs"]
    assert (runs.session_id, runs.turn_id, runs.holder, runs.title) == ("child", turn.id, "me", "runs")
    assert (found["over"].ended, found["idle"].ended, found["idle"].holder) == (True, False, None)
    assert (found["waits"].waiting, found["idle"].waiting) == (2, 0)
