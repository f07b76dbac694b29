"""A conversation that has something of everything, as it is exported, and how tests change such lines."""

import json

from holdfast.sessions import SessionDB
from tests.sessions.store_fixtures import assistant, completed_turn, user

Lines = list[str]


def conversation(db: SessionDB) -> Lines:
    """Export a conversation that has something of everything."""
    db.create_session("root", source="cli")
    db.create_session("a", source="cli", title="Über 🎉", parent="root", relation="branch")
    db.sessions.append_message("a", {"role": "system", "content": "be kind"})
    completed_turn(db, "a", "first \u2028 question", providers=["p"])
    db.turns.fail(db.turns.open("a", user("second")).id, "model \x7f error", [assistant("half")])
    running = db.turns.open("a", user("third"))
    db.rotate("a", "b", [user("summary")], carry_from=3)
    db.turns.append(running.id, [{"role": "tool", "content": "nul \x00", "tool_call_id": "c"}])
    db.rotate("b", "c", [], carry_from=1)
    db.inbox.put("c", user("waits"), mode="steer", addressed_to=running.id, key="k")
    db.inbox.put("c", {"role": "user", "content": None})
    db.sessions.mark_committed("a", 1)
    return db.export_session("b")


def edited(line: str, **changes: object) -> str:
    [(kind, fields)] = json.loads(line).items()
    return json.dumps({kind: fields | changes})


def line_of(lines: Lines, kind: str, nth: int = 0) -> int:
    return [number for number, line in enumerate(lines) if kind in json.loads(line)][nth]
