"""Following another process through the store: each message once, each turn with its beginning and end."""

import asyncio
from typing import Any

import pytest

from holdfast.core.contract import Message
from holdfast.core.events import ApprovalAsked, Event
from holdfast.host.event_stream import EventStream
from holdfast.host.remote_turns import RemoteTurns
from holdfast.sessions import SessionDB
from holdfast.sessions.contract import TurnRecord
from holdfast.sessions.leases import session_lease
from tests.host.host_fixtures import host_parts
from tests.sessions.store_fixtures import hold_lease


class Watcher:
    """A remote_turns, and what it has shown."""

    def __init__(self, db: SessionDB) -> None:
        self._stream = EventStream("s", 100)
        self._remote_turns = RemoteTurns(host_parts(db), self._stream)
        self._seen = 0

    async def _show(self) -> None:
        self._remote_turns.show(self._remote_turns.read("s"))

    def look(self) -> list[str]:
        """What one look shows, in short."""
        asyncio.run(self._show())
        events = [numbered.event for numbered in self._stream._kept if numbered.number > self._seen]  # noqa: SLF001
        self._seen = self._stream.number
        return [short(event) for event in events]


def short(event: Event) -> str:
    facts: dict[str, Any] = event.to_json()
    what = next(
        (str(facts[name]) for name in ("text", "final_response", "name", "child_id") if name in facts), ""
    )
    return f"{facts['kind']} {what}".strip()


def user(text: str) -> Message:
    return {"role": "user", "content": text}


def assistant(text: str) -> Message:
    return {"role": "assistant", "content": text}


def test_turns_that_end_and_begin_between_two_looks_are_all_shown(db: SessionDB) -> None:
    db.create_session("s", source="test")
    watcher = Watcher(db)
    assert watcher.look() == []
    first = db.turns.open("s", user("one"))
    assert watcher.look() == ["TurnStarted one"]
    db.turns.complete(first.id, assistant("1"))
    second = db.turns.open("s", user("two"))
    db.turns.interrupt(second.id, "enough", [assistant("2")])
    third = db.turns.open("s", user("three"))
    assert watcher.look() == [
        *("TextDelta 1", "TurnCompleted 1"),
        *("TurnStarted two", "TextDelta 2", "TurnInterrupted"),
        "TurnStarted three",
    ]
    db.turns.fail(third.id, "broken")
    assert watcher.look() == ["TurnFailed"]
    assert watcher.look() == []


def test_whoever_comes_in_mid_turn_is_shown_that_turn_from_its_beginning(db: SessionDB) -> None:
    db.create_session("s", source="test")
    earlier = db.turns.open("s", user("earlier"))
    db.turns.complete(earlier.id, assistant("shown elsewhere"))
    turn = db.turns.open("s", user("look"))
    call = {"id": "c", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    db.turns.append(turn.id, [{**assistant("well"), "tool_calls": [call]}])  # type: ignore[list-item]
    watcher = Watcher(db)
    assert watcher.look() == ["TurnStarted look", "TextDelta well", "ToolStarted read"]
    db.turns.append(turn.id, [{"role": "tool", "tool_call_id": "c", "content": "found"}])
    waiting = db.inbox.put("s", user("and this"), mode="steer")
    db.turns.join(turn.id, waiting.id)
    assert watcher.look() == ["ToolFinished read", "MessageJoined and this"]


def test_a_turn_that_begins_in_the_moment_of_the_first_look_is_shown_with_what_it_asks(
    db: SessionDB, monkeypatch: pytest.MonkeyPatch
) -> None:
    db.create_session("s", source="test")
    lease = hold_lease(db, session_lease("s"), "another", ttl_seconds=600)
    running = db.turns.running

    def then_one_begins(session_id: str) -> TurnRecord | None:
        found = running(session_id)
        monkeypatch.undo()
        turn = db.turns.open("s", user("go"))
        call = {"id": "c", "type": "function", "function": {"name": "install", "arguments": "{}"}}
        db.turns.append(turn.id, [{**assistant(""), "tool_calls": [call]}])  # type: ignore[list-item]
        what = {"subject": "make install", "subject_kind": "command", "reason": "", "destructive": False}
        where = {"session_id": "s", "turn_id": turn.id, "call_id": "c", "ask_id": "a"}
        asked = ApprovalAsked(**where, **what, seconds=60.0)  # type: ignore[arg-type]
        db.asks.put("a", turn.id, asked.to_json(), lease=lease)
        return found

    monkeypatch.setattr(db.turns, "running", then_one_begins)
    watcher = Watcher(db)
    seen = watcher.look() + watcher.look()
    assert seen[:2] == ["TurnStarted go", "ToolStarted install"]
    assert seen[2].startswith("ApprovalAsked")


def test_a_rotation_is_followed_without_a_word_lost_or_said_twice(db: SessionDB) -> None:
    db.create_session("s", source="test")
    watcher = Watcher(db)
    watcher.look()
    turn = db.turns.open("s", user("one"))
    assert watcher.look() == ["TurnStarted one"]
    db.turns.append(turn.id, [assistant("before")])
    db.rotate("s", "child", [user("a summary")], carry_from=1)
    db.turns.append(turn.id, [assistant("after")])
    db.turns.complete(turn.id, assistant("done"))
    assert watcher.look() == [
        *("TextDelta before", "SessionRotated child", "TextDelta after"),
        *("TextDelta done", "TurnCompleted done"),
    ]


def test_an_answer_is_shown_as_it_is_saved_and_each_word_once(db: SessionDB) -> None:
    db.create_session("s", source="test")
    watcher = Watcher(db)
    turn = db.turns.open("s", user("go"))
    db.turns.save_partial(turn.id, "One ")
    assert watcher.look() == ["TurnStarted go"]
    assert watcher.look() == ["TextDelta One"]
    assert watcher.look() == []
    db.turns.save_partial(turn.id, "One two ")
    assert watcher.look() == ["TextDelta two"]
    call = {"id": "c", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    db.turns.append(turn.id, [{**assistant("One two three"), "tool_calls": [call]}])  # type: ignore[list-item]
    assert watcher.look() == ["TextDelta three", "ToolStarted read"]
    db.turns.append(turn.id, [{"role": "tool", "tool_call_id": "c", "content": "found"}])
    db.turns.save_partial(turn.id, "So")
    assert watcher.look() == ["ToolFinished read"]
    assert watcher.look() == ["TextDelta So"]
    db.turns.complete(turn.id, assistant("So"))
    assert watcher.look() == ["TurnCompleted So"]


def test_a_broken_answer_that_was_partly_shown_is_said_to_begin_again(db: SessionDB) -> None:
    db.create_session("s", source="test")
    watcher = Watcher(db)
    turn = db.turns.open("s", user("go"))
    watcher.look()
    db.turns.save_partial(turn.id, "Half of ")
    assert watcher.look() == ["TextDelta Half of"]
    void: dict[str, Any] = {**assistant("Half of it"), "holdfast": {"superseded": "the line broke"}}
    db.turns.append(turn.id, [void])  # type: ignore[list-item]
    assert watcher.look() == ["ModelRetrying"]
    db.turns.complete(turn.id, assistant("The whole"))
    assert watcher.look() == ["TextDelta The whole", "TurnCompleted The whole"]
