"""What worker processes do. Run as `python -m tests.sessions.workers.scenarios SCENE URL ARGUMENTS`.

A scene says what it has done, one line of JSON after each call that returned, and stops at a gate until
its parent tells it to go on. Imports are few: a kill test starts hundreds of these.
"""

import json
import os
import sys
from collections.abc import Callable
from typing import Any

from holdfast.core.errors import AlreadyContinued, LeaseLost, SessionEnded
from holdfast.sessions import SessionDB
from holdfast.testing import FakeClock
from tests.sessions.workers.writer import write_for_ever

PATIENCE = 60.0


def say(word: object) -> None:
    os.write(1, json.dumps(word).encode() + b"\n")


def gate() -> Any:  # noqa: ANN401 - any JSON
    """Wait for the parent's word."""
    return json.loads(sys.stdin.readline())


def open_store(url: str, *, real_time: bool = False) -> SessionDB:
    """The database as the parent sees it. SQLite's clock is each process's own: here it stands still."""
    clock = None if real_time or not url.startswith("sqlite") else FakeClock()
    return SessionDB.open(url, clock=clock, patience=PATIENCE)


def compact(url: str, name: str) -> None:
    """Compact the session it is told, under the lock, as the agent does; once per word at the gate."""
    with open_store(url) as db:
        say("ready")
        while (session := gate()) is not None:
            say(compacted(db, session, name))


def compacted(db: SessionDB, session: str, name: str) -> dict[str, Any]:
    before = db.get_messages(session)
    outcome = {"moved_to": None, "summaries": 0, "unchanged": True}
    if not db.try_acquire_compression_lock(session, name):
        return outcome | {"unchanged": db.get_messages(session) == before}
    try:
        found = db.get_session(session)
        if found is None or found.ended is not None:
            return outcome
        outcome["summaries"] = 1
        opening = f"summary of {len(before)} messages by {name}"
        rotation = db.rotate(
            session,
            f"{session} by {name}",
            [{"role": "user", "content": opening}],
            carry_from=len(before),
            holder=name,
        )
        return outcome | {"moved_to": rotation.child_id}
    finally:
        db.release_compression_lock(session, name)


def rotate_unlocked(url: str, name: str) -> None:
    """Rotate with no lock at all; says the child it moved to, or the one it adopts."""
    with open_store(url) as db:
        say("ready")
        while (session := gate()) is not None:
            try:
                rotation = db.rotate(
                    session,
                    f"{session} by {name}",
                    [{"role": "user", "content": name}],
                    carry_from=0,
                )
                say({"moved_to": rotation.child_id})
            except AlreadyContinued as lost:
                say({"adopted": lost.child_id})


def hold(url: str, session: str, name: str, *, real_time: bool = False) -> None:
    """Take the compression lock and keep it; rotate when told to."""
    db = open_store(url, real_time=real_time)
    say(db.try_acquire_compression_lock(session, name))
    gate()
    try:
        db.rotate(session, f"{session} by {name}", [], carry_from=0, holder=name)
        say("rotated")
    except LeaseLost:
        say("lost")


def rotate_for_ever(url: str, session: str, name: str, opening: int) -> None:
    """One rotation after the other along the conversation."""
    db = open_store(url)
    number = 0
    while True:
        number += 1
        parent = db.sessions.live_end(session)
        count = len(db.sessions.read(parent))
        child = f"{name}.{number}"
        messages = [{"role": "user", "content": f"{child} {at}"} for at in range(opening)]
        db.rotate(parent, child, messages, carry_from=max(0, count - 5))  # type: ignore[arg-type]
        say(child)


def rotate_now_and_then(url: str, session: str, name: str, times: int) -> None:
    """Rotate `times` times, with the look and the rotation apart; says what was carried from where."""
    with open_store(url) as db:
        for number in range(times):
            parent = db.sessions.live_end(session)
            seen = len(db.sessions.read(parent))
            say({"parent": parent, "from": seen})
            gate()
            rotation = db.rotate(parent, f"{name}.{number}", [], carry_from=seen)
            say({"parent": parent, "child": rotation.child_id, "from": seen})


def append_for_ever(url: str, session: str, name: str) -> None:
    """Append to wherever the conversation goes on; says the number of each message stored."""
    db = open_store(url)
    number, end = 0, session
    while True:
        try:
            db.sessions.append_message(end, {"role": "user", "content": f"{name} {number}"})
        except SessionEnded as moved:
            end = moved.live_end or end
            continue
        say(number)
        number += 1


def complete_turn(url: str, session: str, turn: str, providers: list[str]) -> None:
    """Open a turn, say so, complete it, say so, and wait for the end."""
    db = open_store(url)
    db.turns.open(session, {"role": "user", "content": f"question {turn}"}, turn_id=turn)
    say("opened")
    db.turns.complete(turn, {"role": "assistant", "content": f"answer {turn}"}, providers=providers)
    say("completed")
    gate()


def open_turn(url: str, session: str, turn: str) -> None:
    """Put a message, open a turn with it, say so, and wait for the end."""
    db = open_store(url)
    word = db.inbox.put(session, {"role": "user", "content": f"question {turn}"})
    say(word.id)
    db.turns.open(session, take=word.id, turn_id=turn)
    say("opened")
    gate()


def write(url: str, name: str, own: str, shared: str) -> None:
    """The kill test's writer."""
    write_for_ever(open_store(url, real_time=True), name, own, shared, say)


SCENES: dict[str, Callable[..., None]] = {
    scene.__name__: scene
    for scene in (
        compact,
        rotate_unlocked,
        hold,
        rotate_for_ever,
        rotate_now_and_then,
        append_for_ever,
        complete_turn,
        open_turn,
        write,
    )
}

if __name__ == "__main__":
    SCENES[sys.argv[1]](sys.argv[2], **json.loads(sys.argv[3]))
