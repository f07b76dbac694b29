"""Reads the sessions of hermes-agent: `state.db` in its folder, tables `sessions` and `messages`.

A session that ended by compression goes on in its child: both are one conversation here. Messages that were
summarised in place (`compacted`) come back as the session before the summary. Messages that the person took
back (`active = 0`) are left out and counted.
"""

import json
import sqlite3
from pathlib import Path
from typing import Any, cast

from holdfast.core.contract import Message
from holdfast.core.messages import HOLDFAST_KEY, storable
from holdfast.sessions.foreign.contract import (
    MICROSECONDS,
    ForeignConversation,
    ForeignSession,
    ForeignStore,
    opened,
)

PROGRAM = "hermes-agent"
FILE = "state.db"
PARTS = "\x00json:"
"""How it marks a content that is a list of parts."""
COMPRESSION = "compression"
REASONING = ("reasoning_content", "reasoning")


def read_hermes(path: Path) -> ForeignStore:
    """Everything in a `state.db`, or in the one in a folder. Raises `InvalidInput` for another file."""
    file = path / FILE if path.is_dir() else path
    with opened(file, ("sessions", "messages"), PROGRAM) as connection:
        sessions = {
            row["id"]: row for row in connection.execute("select * from sessions order by started_at, id")
        }
        rows = connection.execute("select * from messages order by session_id, id").fetchall()
    return _Reader(sessions, rows).read()


class _Reader:
    def __init__(self, sessions: dict[str, sqlite3.Row], rows: list[sqlite3.Row]) -> None:
        self._sessions = sessions
        self._store = ForeignStore(rows=len(rows))
        self._rows: dict[str, list[sqlite3.Row]] = {}
        for row in rows:
            self._rows.setdefault(row["session_id"], []).append(row)
        self._next = self._continuations()

    def read(self) -> ForeignStore:
        for session_id in self._rows.keys() - self._sessions.keys():
            self._store.leave_out("their session is not in the store", len(self._rows[session_id]))
        continued = set(self._next.values())
        for session_id, row in self._sessions.items():
            if session_id in continued:
                continue
            chain = [session_id]
            while chain[-1] in self._next:
                chain.append(self._next[chain[-1]])
            sessions = [part for each in chain for part in self._parts(each)]
            if sessions:
                found = ForeignConversation(session_id, str(row["source"] or PROGRAM), sessions, row["title"])
                self._store.conversations.append(found)
            else:
                self._store.empty += 1
        return self._store

    def _continuations(self) -> dict[str, str]:
        """The child that goes on for each session that ended by compression: the oldest one."""
        found: dict[str, str] = {}
        for session_id, row in self._sessions.items():
            parent = row["parent_session_id"]
            ended = self._sessions[parent]["end_reason"] if parent in self._sessions else None
            if ended == COMPRESSION and parent not in found and parent != session_id:
                found[parent] = session_id
        return found

    def _parts(self, session_id: str) -> list[ForeignSession]:
        """The session, after the one with what was summarised in place."""
        started = _time(self._sessions[session_id]["started_at"])
        before: list[tuple[int, Message]] = []
        now: list[tuple[int, Message]] = []
        for row in self._rows.get(session_id, []):
            if row["active"]:
                now.append((_time(row["timestamp"]), _message(row)))
            elif row["compacted"]:
                before.append((_time(row["timestamp"]), _message(row)))
            else:
                self._store.leave_out("the person took them back")
        named = f"hermes-{session_id}"
        parts = [
            ForeignSession(f"{named}-before-summary", started, before),
            ForeignSession(named, started, now),
        ]
        return [part for part in parts if part.messages]


def _time(seconds: float | None) -> int:
    return int((seconds or 0) * MICROSECONDS)


def _message(row: sqlite3.Row) -> Message:
    message: dict[str, Any] = {"role": str(row["role"]), "content": _content(row["content"])}
    if row["tool_calls"]:
        message["tool_calls"] = json.loads(row["tool_calls"])
    for theirs, ours in (("tool_call_id", "tool_call_id"), ("tool_name", "name")):
        if row[theirs]:
            message[ours] = row[theirs]
    if thought := next((row[name] for name in REASONING if row[name]), ""):
        message[HOLDFAST_KEY] = {"reasoning": storable(thought)}
    return cast(Message, message)


def _content(stored: str | None) -> Any:  # noqa: ANN401 - a text or a list of parts
    if stored is None:
        return ""
    if stored.startswith(PARTS):
        return json.loads(stored.removeprefix(PARTS))
    return storable(stored)
