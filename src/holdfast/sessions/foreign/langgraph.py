"""Reads the file of LangGraph's `SqliteSaver`: tables `checkpoints` and `writes`, packed with msgpack.

Every checkpoint of a thread holds the whole state. The newest one tells which messages the thread has; the
older ones, when each of them came. Only bytes are unpacked: no class that a checkpoint names is imported.
"""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, cast

from holdfast.core.contract import Message
from holdfast.core.distribution import install_command
from holdfast.core.errors import InvalidInput
from holdfast.core.messages import HOLDFAST_KEY, storable
from holdfast.sessions.foreign.chat_content import chat_content
from holdfast.sessions.foreign.contract import (
    MICROSECONDS,
    ForeignConversation,
    ForeignSession,
    ForeignStore,
    opened,
)

PROGRAM = "LangGraph"
SOURCE = "langgraph"
PACKED = "msgpack"
EXTENSION_MODELS = (4, 5)
"""Extensions for objects of pydantic: module, class, fields."""
EXTENSION_SNAPSHOT = 7
"""The extension for the whole value of a channel that else keeps only changes."""
DELTAS = "counters_since_delta_snapshot"
ROLES = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool"}
CALLS = ("tool_use", "tool_call", "function_call", "input_json_delta")
"""Parts of a content that repeat the message's calls."""
THOUGHTS = {"thinking": "thinking", "reasoning": "reasoning"}
Fields = dict[str, Any]

CHECKPOINTS = "select * from checkpoints where thread_id = ? order by checkpoint_id"
WRITES = """
select value from writes where thread_id = ? and checkpoint_id = ? and type = 'msgpack' order by task_id, idx
"""


class _Unreadable(Exception):
    """A value is packed in a way that is not known here."""


@dataclass(frozen=True, slots=True)
class _Packed:
    """A message of LangChain, by its fields."""

    fields: Fields


def read_langgraph(path: Path) -> ForeignStore:
    """Every thread of the file. Raises `InvalidInput` for another file, or where msgpack is not installed."""
    try:
        import ormsgpack  # noqa: F401 - an extra
    except ImportError as cause:
        raise InvalidInput(
            f"LangGraph packs its checkpoints, and unpacking needs: {install_command('langgraph')}; "
            "nothing was imported"
        ) from cause
    store = ForeignStore()
    with opened(path, ("checkpoints", "writes"), PROGRAM) as connection:
        named = connection.execute(
            "select thread_id from checkpoints group by thread_id order by min(checkpoint_id)"
        )
        for (name,) in named.fetchall():
            try:
                _Thread(str(name), connection, store).read()
            except (_Unreadable, ValueError, TypeError, KeyError) as cause:
                store.unreadable.append(f"{name}: {str(cause) or type(cause).__name__}")
    return store


@dataclass(slots=True)
class _Thread:
    """One thread: what its newest checkpoint holds, and what only others hold."""

    name: str
    connection: sqlite3.Connection
    store: ForeignStore
    seen: dict[str, int] = field(default_factory=dict)
    """The messages of the thread's own checkpoints, with the time of the first that has them."""
    inside: set[str] = field(default_factory=set)
    """Those of its subgraphs."""

    def read(self) -> None:
        newest: list[Fields] = []
        newest_id, started = "", 0
        with closing(self.connection.execute(CHECKPOINTS, (self.name,))) as rows:
            for row in rows:
                checkpoint = _unpacked(row["type"], row["checkpoint"])
                found = _messages(checkpoint["channel_values"])
                if row["checkpoint_ns"]:
                    self.inside.update(_key(*each) for each in enumerate(found))
                    continue
                _refuse_changes(row["metadata"])
                created = int(datetime.fromisoformat(checkpoint["ts"]).timestamp() * MICROSECONDS)
                for place, fields in enumerate(found):
                    self.seen.setdefault(_key(place, fields), created)
                newest, newest_id, started = found, row["checkpoint_id"], started or created
        self._count(newest, newest_id)
        self._add(newest, started)

    def _count(self, newest: list[Fields], newest_id: str) -> None:
        """Count what is left out: one message that is in many checkpoints is one."""
        kept = {_key(*each) for each in enumerate(newest)}
        rows = self.connection.execute(WRITES, (self.name, newest_id)).fetchall()
        written = [each for row in rows for each in _messages({"": _unpacked(PACKED, row["value"])})]
        unfinished = {_key(*each) for each in enumerate(written)} - self.seen.keys()
        inside = self.inside - self.seen.keys() - unfinished
        self.store.rows += len(self.seen) + len(inside) + len(unfinished)
        for reason, left in (
            ("they were taken out of their thread", len(self.seen.keys() - kept)),
            ("they are of a subgraph", len(inside)),
            ("their step was not finished", len(unfinished)),
        ):
            if left:
                self.store.leave_out(reason, left)

    def _add(self, newest: list[Fields], started: int) -> None:
        messages: list[tuple[int, Message]] = []
        for place, fields in enumerate(newest):
            kind = str(fields["type"]).removesuffix("MessageChunk")
            if role := ROLES.get(kind.lower()):
                messages.append((self.seen[_key(place, fields)], _message(role, fields)))
            else:
                self.store.leave_out(f"messages of type {kind} have no place in a chat")
        if messages:
            session = ForeignSession(f"{SOURCE}-{self.name}", started, messages)
            self.store.conversations.append(ForeignConversation(self.name, SOURCE, [session]))
        else:
            self.store.empty += 1


def _refuse_changes(metadata: bytes | str | None) -> None:
    if metadata and json.loads(metadata).get(DELTAS):
        raise _Unreadable("its checkpoints hold only the changes of each step (DeltaChannel)")


def _unpacked(kind: str, packed: bytes) -> Any:  # noqa: ANN401 - whatever a graph keeps
    import ormsgpack

    if kind == "null":
        return None
    if kind != PACKED:
        raise _Unreadable(f"a checkpoint is stored as {kind}, which can't be read here")
    return ormsgpack.unpackb(packed, ext_hook=_extension, option=ormsgpack.OPT_NON_STR_KEYS)


def _extension(code: int, data: bytes) -> Any:  # noqa: ANN401 - whatever a graph keeps
    if code == EXTENSION_SNAPSHOT:
        return _unpacked(PACKED, data)
    if code in EXTENSION_MODELS:
        fields = _unpacked(PACKED, data)[2]
        if isinstance(fields, dict) and fields.keys() >= {"type", "content"}:
            return _Packed(fields)
    return None


def _messages(channels: Fields) -> list[Fields]:
    """The messages in the channel `messages`, else in the first channel that holds some."""
    for name in sorted(channels, key=lambda name: (name != "messages", name)):
        value = channels[name]
        listed = value if isinstance(value, list) else [value]
        if found := [each.fields for each in listed if isinstance(each, _Packed)]:
            return found
    return []


def _key(place: int, fields: Fields) -> str:
    """What makes a message the same in another checkpoint: its id, else its place and its words."""
    return str(fields.get("id") or (place, fields["type"], fields["content"]))


def _message(role: str, fields: Fields) -> Message:
    content = fields["content"]
    parts = content if isinstance(content, list) else [content]
    said = [part for part in parts if _kind(part) not in {*CALLS, *THOUGHTS}]
    message: Fields = {"role": role, "content": chat_content(said if isinstance(content, list) else content)}
    if calls := list(_calls(fields)):
        message["tool_calls"] = calls
    if role == "tool":
        message["tool_call_id"] = fields.get("tool_call_id")
        if fields.get("name"):
            message["name"] = str(fields["name"])
    thoughts = [part.get(THOUGHTS[_kind(part)]) for part in parts if _kind(part) in THOUGHTS]
    thoughts.append((fields.get("additional_kwargs") or {}).get("reasoning_content"))
    if text := "\n".join(storable(each) for each in thoughts if isinstance(each, str) and each):
        message[HOLDFAST_KEY] = {"reasoning": text}
    return cast(Message, message)


def _kind(part: Any) -> str:  # noqa: ANN401 - a text or a part
    return str(part.get("type")) if isinstance(part, dict) else ""


def _calls(fields: Fields) -> Iterator[Fields]:
    for call in fields.get("tool_calls") or ():
        yield _call(call, json.dumps(call.get("args") or {}, ensure_ascii=False))
    for call in fields.get("invalid_tool_calls") or ():
        yield _call(call, str(call.get("args") or ""))


def _call(call: Fields, arguments: str) -> Fields:
    function = {"name": storable(str(call.get("name"))), "arguments": storable(arguments)}
    return {"id": call.get("id"), "type": "function", "function": function}
