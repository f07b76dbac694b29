"""`Follower`: shows here what another process stores in a conversation.

A second terminal on a live session sees each message as it is stored, not each token: the store is what
two processes share.
"""

from collections.abc import Iterator

from holdfast.core.contract import Message
from holdfast.core.events import (
    Event,
    TextDelta,
    ToolFinished,
    ToolStarted,
    TurnCompleted,
    TurnFailed,
    TurnInterrupted,
    TurnStarted,
)
from holdfast.host.contract import HostParts
from holdfast.host.streams import EventStream
from holdfast.process import off_loop
from holdfast.sessions.contract import StoredMessage, Turn


class Follower:
    """Reads on from the last message this process has shown."""

    def __init__(self, parts: HostParts, stream: EventStream) -> None:
        self._parts = parts
        self._stream = stream
        self._session_id = ""
        self._seen = -1
        self._open: str | None = None
        self._names: dict[str, str] = {}

    async def skip(self, root_id: str) -> None:
        """Everything up to now has been shown by this process itself."""
        self._session_id, self._seen = await off_loop(self._parts.pools.store, self._end, root_id)
        self._open = None

    async def look(self, root_id: str) -> None:
        """Publish what was stored since the last look."""
        if self._seen < 0:
            await self.skip(root_id)
        fresh, ended = await off_loop(self._parts.pools.store, self._read, root_id)
        for stored in fresh:
            for event in self._events(stored):
                self._stream.publish(event)
        if ended is not None:
            self._open = None
            self._stream.publish(_end_of(ended))

    def _end(self, root_id: str) -> tuple[str, int]:
        live = self._parts.db.live_end(root_id)
        return live, self._parts.db.message_count(live)

    def _read(self, root_id: str) -> tuple[list[StoredMessage], Turn | None]:
        db = self._parts.db
        live = db.live_end(root_id)
        if live != self._session_id:
            # The child begins with a summary and copies; what is new in it comes after them.
            self._session_id = live
            self._seen = sum(each.carried or each.turn_id is None for each in db.read_messages(live))
        fresh = db.read_messages(live, start=self._seen)
        self._seen += len(fresh)
        turn = db.turns.get(self._open) if self._open and not fresh else None
        return fresh, turn if turn is not None and turn.state != "running" else None

    def _events(self, stored: StoredMessage) -> Iterator[Event]:
        if stored.turn_id is None or stored.carried:
            return
        where = {"session_id": stored.session_id, "turn_id": stored.turn_id}
        message = stored.message
        text = message.get("content")
        said = text if isinstance(text, str) else ""
        if stored.turn_id != self._open:
            self._open = stored.turn_id
            yield TurnStarted(**where, inbox_id=0, text=said)
        elif message["role"] == "assistant":
            yield from self._answer(where, message, said)
        elif message["role"] == "tool":
            call_id = message.get("tool_call_id", "")
            ok = "holdfast" not in message
            name = self._names.pop(call_id, "")
            yield ToolFinished(**where, call_id=call_id, name=name, ok=ok, output=said)

    def _answer(self, where: dict[str, str], message: Message, said: str) -> Iterator[Event]:
        if said:
            yield TextDelta(**where, text=said)
        for call in message.get("tool_calls") or ():
            self._names[call["id"]] = call["function"]["name"]
            yield ToolStarted(
                **where,
                call_id=call["id"],
                name=call["function"]["name"],
                arguments=call["function"]["arguments"],
            )


def _end_of(turn: Turn) -> Event:
    where = {"session_id": turn.session_id, "turn_id": turn.id}
    if turn.state == "interrupted":
        return TurnInterrupted(**where, reason=turn.reason or "")
    if turn.state == "failed":
        return TurnFailed(**where, error=turn.reason or "")
    return TurnCompleted(**where, final_response="")
