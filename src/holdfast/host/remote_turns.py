"""`RemoteTurns`: shows here what another process stores in a conversation.

The store is what two processes share: a second terminal on a live session sees each message as it is stored,
and of an answer that still streams what was saved of it, twice a second. Where the store carries notes
between processes (`LiveText`), the text comes as it streams.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from holdfast.agent.transcript import superseded
from holdfast.core.contract import Message
from holdfast.core.events import (
    AskClosed,
    Event,
    MessageJoined,
    ModelRetrying,
    SessionMoved,
    SessionRotated,
    TextDelta,
    ToolFinished,
    ToolStarted,
    TurnStarted,
)
from holdfast.core.messages import HOLDFAST_KEY, holdfast_data, text_of
from holdfast.host.ask_records import outcome, shown
from holdfast.host.contract import HostParts
from holdfast.host.event_stream import EventStream
from holdfast.host.turn_end import end_event
from holdfast.process import off_loop
from holdfast.sessions import SessionDB
from holdfast.sessions.contract import Ask, ConversationState, StoredMessage, TurnRecord
from holdfast.sessions.live_text import LivePiece


@dataclass(frozen=True, slots=True)
class RemoteProgress:
    """The messages that were stored since the last look, in order, and how their turns stand now."""

    fresh: list[StoredMessage]
    turns: dict[str, TurnRecord]
    asks: list[Ask]
    """The approvals and questions that wait for a person."""
    settled: dict[str, str]
    """How the asks that were shown and wait no more ended."""
    partial: str
    """The part of the open turn's answer that is saved so far."""


class RemoteTurns:
    """Reads on from the last message this process has shown."""

    def __init__(self, parts: HostParts, stream: EventStream) -> None:
        self._parts = parts
        self._stream = stream
        self._session_id = ""
        self._seen = -1
        self._shown_in = ""
        self._open: str | None = None
        self._said = ""
        self._streamed = ""  # what was shown of an answer that is not stored yet
        self._shown = 0  # how many messages of the open turn were shown
        self._pieces: list[LivePiece] = []  # of its answer, as they came
        self._names: dict[str, str] = {}
        self._asks: dict[str, str] = {}  # the asks that are shown as open, and their turns
        self.elsewhere = False
        """Whether readers were last told that another process runs the conversation."""

    @property
    def is_following(self) -> bool:
        """Whether it knows up to where this process has shown the conversation."""
        return self._seen >= 0

    def is_at(self, state: ConversationState) -> bool:
        """Whether everything that the store has up to this state was shown here."""
        return (self._session_id, self._seen, self._open) == (state.live, state.messages, state.open_turn)

    def beginning(self, root_id: str) -> tuple[tuple[str, int], ConversationState]:
        """Where a new reader begins: at the running turn's first message, or at the end. On a thread.

        With it comes the state after which that was read, so that nothing is missed in between.
        """
        db = self._parts.db
        state = db.conversations.state(root_id)
        return (state.live, state.messages if state.open_turn is None else _beginning(db, state.live)), state

    def skip(self, session_id: str, messages: int) -> None:
        """So many messages of this session, and all before it, have been shown by this process itself."""
        self._session_id, self._seen = session_id, messages
        self._forget_open()
        self._shown_in = self._session_id

    def skip_turn(self, root_id: str, turn_id: str) -> None:
        """Everything up to the last message of this turn was shown by this process itself. On a thread."""
        db = self._parts.db
        lineage = db.sessions.lineage(root_id)
        for session_id in reversed(_from(lineage, self._session_id) if self._session_id else lineage):
            own = [each.seq for each in db.sessions.read(session_id) if each.turn_id == turn_id]
            if own:
                self.skip(session_id, own[-1] + 1)
                return

    def show_elsewhere(self, *, elsewhere: bool) -> None:
        """Tell readers whether another process runs the conversation, when that has changed."""
        if elsewhere != self.elsewhere:
            self.elsewhere = elsewhere
            self._stream.publish(SessionMoved(session_id=self._stream.session_id, elsewhere=elsewhere))

    async def catch_up(self, root_id: str) -> None:
        """Publish what was stored since the last look; at first, the turn that runs, from its beginning."""
        self.show(await off_loop(self._parts.pools.store, self.read, root_id))

    def show(self, news: "RemoteProgress") -> None:
        """Publish what a read has found."""
        self._show_settled(news.settled)
        for stored in news.fresh:
            for event in self._events(stored, news.turns):
                self._stream.publish(event)
        self._close(news.turns)
        self._stream_on(news.partial)
        self._stream_pieces()
        self._show_asks(news.asks)
        if self._open is not None:
            loop = asyncio.get_running_loop()
            self._parts.db.live_text.read(self._open, partial(_hand_over, loop, self._hear))

    def _hear(self, piece: LivePiece) -> None:
        """Text that has just come from the process that runs the turn."""
        self._pieces.append(piece)
        self._stream_pieces()

    def _stream_pieces(self) -> None:
        """Show the pieces that go on from what was shown; those of a later step wait for its messages."""
        for piece in self._pieces:
            known = len(self._streamed) - piece.start
            if (piece.turn_id, piece.step) == (self._open, self._shown) and 0 <= known < len(piece.text):
                self._stream_on(self._streamed[: piece.start] + piece.text)
        self._pieces = [each for each in self._pieces if self._is_ahead(each)]

    def _is_ahead(self, piece: LivePiece) -> bool:
        if piece.turn_id != self._open or piece.step < self._shown:
            return False
        return piece.step > self._shown or piece.start + len(piece.text) > len(self._streamed)

    def read(self, root_id: str) -> "RemoteProgress":
        """Read on from the last read; the caller must show the result. On a thread."""
        db = self._parts.db
        live = db.sessions.live_end(root_id)
        if self._seen < 0:
            self._session_id, self._seen = live, _beginning(db, live)
        # The open turn's state is read before its messages: when it has ended, they are all there.
        turns = {} if self._open is None else _turns(db, {self._open})
        # Before the messages too: among them is the call that asks, and an answer that became whole.
        asks = db.asks.open(live)
        partial = "" if self._open is None else db.turns.partial(self._open)
        over = self._asks.keys() - {ask.id for ask in asks}
        fresh = self._read_on(root_id)
        if fresh:
            seen = {self._open, *(each.turn_id for each in fresh)}
            turns |= _turns(db, {each for each in seen if each is not None})
            last = turns.get(fresh[-1].turn_id or "")
            if last is not None and last.state != "running":
                # What it stored between the two reads; it has ended, so this is all.
                fresh += self._read_on(root_id)
        settled = {ask_id: outcome(db.asks.get(ask_id)) for ask_id in over}
        return RemoteProgress(fresh, turns, asks, settled, "" if fresh else partial)

    def _read_on(self, root_id: str) -> list[StoredMessage]:
        """The messages of turns since the last that was read."""
        db, fresh = self._parts.db, list[StoredMessage]()
        for session_id in _from(db.sessions.lineage(root_id), self._session_id):
            if session_id != self._session_id:
                # A child begins with a summary and copies; what is new in it comes after them.
                self._session_id, self._seen = session_id, 0
            part = db.sessions.read(session_id, start=self._seen)
            self._seen += len(part)
            fresh += [each for each in part if each.turn_id is not None and not each.carried]
        return fresh

    def _events(self, stored: StoredMessage, turns: dict[str, TurnRecord]) -> Iterator[Event]:
        turn_id, message = stored.turn_id or "", stored.message
        where = {"session_id": stored.session_id, "turn_id": turn_id}
        if stored.session_id != self._shown_in:
            if self._shown_in:
                yield SessionRotated(
                    session_id=self._shown_in, turn_id=self._open or "", child_id=stored.session_id
                )
            self._shown_in = stored.session_id
        if turn_id != self._open:
            self._close(turns)
            self._open, self._shown = turn_id, 0
            opening = text_of(message) if message["role"] == "user" else ""
            yield TurnStarted(**where, inbox_id=0, text=opening)
        self._shown += 1
        if self._shown == 1 and message["role"] == "user":
            return
        yield from self._step(where, message)

    def _step(self, where: dict[str, str], message: Message) -> Iterator[Event]:
        text = text_of(message)
        if message["role"] == "user":
            yield MessageJoined(**where, inbox_id=0, text=text)
        elif message["role"] == "tool":
            call_id = message.get("tool_call_id", "")
            ok = HOLDFAST_KEY not in message
            name = self._names.pop(call_id, "")
            yield ToolFinished(**where, call_id=call_id, name=name, ok=ok, output=text)
        elif superseded(message):
            if self._streamed:
                yield self._begun_again(where, holdfast_data(message).get("superseded"))
        else:
            yield from self._answer(where, message, text)

    def _begun_again(self, where: dict[str, str], problem: object) -> Event:
        self._streamed = ""
        return ModelRetrying(**where, attempt=1, delay=0.0, problem=str(problem or ""), partial=True)

    def _answer(self, where: dict[str, str], message: Message, text: str) -> Iterator[Event]:
        if not text.startswith(self._streamed):
            yield self._begun_again(where, "")
        self._said, streamed, self._streamed = text, self._streamed, ""
        if text != streamed:
            yield TextDelta(**where, text=text[len(streamed) :])
        for call in message.get("tool_calls") or ():
            self._names[call["id"]] = call["function"]["name"]
            yield ToolStarted(
                **where,
                call_id=call["id"],
                name=call["function"]["name"],
                arguments=call["function"]["arguments"],
            )

    def _stream_on(self, partial: str) -> None:
        """Show what came since the last look; a partial answer only ever grows."""
        if self._open is not None and partial.startswith(self._streamed) and partial != self._streamed:
            fresh, self._streamed = partial[len(self._streamed) :], partial
            self._stream.publish(TextDelta(session_id=self._session_id, turn_id=self._open, text=fresh))

    def _close(self, turns: dict[str, TurnRecord]) -> None:
        """Say how the open turn ended, once it has and all of it is shown."""
        turn = turns.get(self._open or "")
        if turn is not None and turn.state != "running":
            self._stream.publish(end_event(turn, self._said))
            self._forget_open()

    def _forget_open(self) -> None:
        if self._open is not None:
            self._parts.db.live_text.stop(self._open)
        self._open, self._said, self._streamed = None, "", ""
        self._shown, self._pieces = 0, []
        self._names.clear()
        self._asks.clear()

    def _show_asks(self, asks: list[Ask]) -> None:
        for ask in asks:
            asked = shown(ask)
            if asked is not None and ask.turn_id == self._open and ask.id not in self._asks:
                self._asks[ask.id] = ask.turn_id
                self._stream.publish(asked)

    def _show_settled(self, settled: dict[str, str]) -> None:
        for ask_id, how in settled.items():
            turn_id = self._asks.pop(ask_id)
            self._stream.publish(
                AskClosed(session_id=self._session_id, turn_id=turn_id, ask_id=ask_id, outcome=how)
            )


def _hand_over(loop: asyncio.AbstractEventLoop, hear: Callable[[LivePiece], None], piece: LivePiece) -> None:
    """From the thread that hears other processes to the loop, which may have ended."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(hear, piece)


def _beginning(db: SessionDB, session_id: str) -> int:
    """Where the running turn begins in this session, or the end when none runs."""
    # Counted before it is known whether a turn runs: one that begins in between is shown from its beginning.
    count = db.sessions.message_count(session_id)
    turn = db.turns.running(session_id)
    if turn is None:
        return count
    stored = db.sessions.read(session_id)
    return next((each.seq for each in stored if each.turn_id == turn.id), len(stored))


def _turns(db: SessionDB, turn_ids: set[str]) -> dict[str, TurnRecord]:
    found = (db.turns.get(turn_id) for turn_id in turn_ids)
    return {turn.id: turn for turn in found if turn is not None}


def _from(lineage: list[str], session_id: str) -> list[str]:
    return lineage[lineage.index(session_id) :] if session_id in lineage else lineage[-1:]
