"""Reads the file of the OpenAI Agents SDK's `SQLiteSession`: tables `agent_sessions` and `agent_messages`.

A row is an item of the Responses API. Messages, function calls and their results become messages of the chat
API, which Holdfast stores; a run of calls is one message. Reasoning is kept beside the next answer. Items of
hosted tools have no place in the chat API: they are left out and counted by their type.
"""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from holdfast.core.contract import Message
from holdfast.core.messages import HOLDFAST_KEY, storable
from holdfast.sessions.foreign.chat_content import chat_content
from holdfast.sessions.foreign.contract import (
    MICROSECONDS,
    ForeignConversation,
    ForeignSession,
    ForeignStore,
    opened,
)

PROGRAM = "the OpenAI Agents SDK"
SOURCE = "openai-agents"
Timed = tuple[int, Message]


def read_openai_agents(path: Path) -> ForeignStore:
    """Every session of the file. Raises `InvalidInput` for another file."""
    with opened(path, ("agent_sessions", "agent_messages"), PROGRAM) as connection:
        sessions = connection.execute(
            "select * from agent_sessions order by created_at, session_id"
        ).fetchall()
        rows = connection.execute("select * from agent_messages order by id").fetchall()
    store = ForeignStore(rows=len(rows))
    for session in sessions:
        own = [row for row in rows if row["session_id"] == session["session_id"]]
        items = _Items(store)
        for row in own:
            items.add(_time(row["created_at"]), row["message_data"])
        if messages := items.messages():
            name = str(session["session_id"])
            found = ForeignSession(f"{SOURCE}-{name}", _time(session["created_at"]), messages)
            store.conversations.append(ForeignConversation(name, SOURCE, [found]))
        else:
            store.empty += 1
    known = {session["session_id"] for session in sessions}
    if homeless := sum(row["session_id"] not in known for row in rows):
        store.leave_out("their session is not in the store", homeless)
    return store


def _time(stored: str) -> int:
    """SQLite's CURRENT_TIMESTAMP, which is in UTC."""
    return int(datetime.fromisoformat(stored).replace(tzinfo=UTC).timestamp()) * MICROSECONDS


class _Items:
    """Turns items into messages, one after another."""

    def __init__(self, store: ForeignStore) -> None:
        self._store = store
        self._messages: list[Timed] = []
        self._thoughts: list[str] = []
        self._reasoning_rows = 0

    def add(self, created: int, stored: str) -> None:
        try:
            item = json.loads(stored)
        except ValueError:
            item = None
        if not isinstance(item, dict):
            self._store.leave_out("they are not JSON objects")
            return
        kind = item.get("type") or ("message" if "role" in item else "?")
        match kind:
            case "message":
                self._append(
                    created, {"role": str(item["role"]), "content": chat_content(item.get("content"))}
                )
            case "function_call":
                self._call(created, item)
            case "function_call_output":
                text = item.get("output")
                content = storable(text) if isinstance(text, str) else chat_content(text)
                self._append(
                    created, {"role": "tool", "tool_call_id": item.get("call_id"), "content": content}
                )
            case "reasoning":
                self._think(item)
            case _:
                self._store.leave_out(f"items of type {kind} have no place in a chat")

    def messages(self) -> list[Timed]:
        """What they became."""
        if self._reasoning_rows:
            self._store.leave_out("reasoning without an answer", self._reasoning_rows)
        return self._messages

    def _append(self, created: int, message: dict[str, Any]) -> None:
        if message["role"] == "assistant" and self._thoughts:
            message[HOLDFAST_KEY] = {"reasoning": "\n".join(self._thoughts)}
            self._thoughts, self._reasoning_rows = [], 0
        self._messages.append((created, cast(Message, message)))

    def _call(self, created: int, item: dict[str, Any]) -> None:
        function = {"name": item.get("name", ""), "arguments": item.get("arguments") or "{}"}
        call = {"id": item.get("call_id"), "type": "function", "function": function}
        last: Any = self._messages[-1][1] if self._messages else {}
        # Calls of one answer stand in one message, which may also have a text.
        if last.get("role") == "assistant" and not self._thoughts:
            last.setdefault("tool_calls", []).append(call)
        else:
            self._append(created, {"role": "assistant", "content": "", "tool_calls": [call]})

    def _think(self, item: dict[str, Any]) -> None:
        parts = [*(item.get("summary") or ()), *(item.get("content") or ())]
        texts = [storable(part["text"]) for part in parts if isinstance(part, dict) and part.get("text")]
        if texts:
            self._thoughts += texts
            self._reasoning_rows += 1
        else:
            self._store.leave_out("reasoning without a text")
