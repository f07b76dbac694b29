"""`AnsweredTurn`: one request of `/v1` is one message and its turn, in a session of its own or a named one.

Such a client resends the whole conversation each time. In a named session only its last message is new; else
a fresh session begins with what came before it. Nobody can be asked there: what needs approval is refused,
unless a rule allows it. A client that closes its connection stops the turn, as it would with other servers;
what the turn had produced is kept.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field

from holdfast.core import errors
from holdfast.core.contract import Message
from holdfast.core.errors import HoldfastError, NotWaiting, SessionNotFound
from holdfast.core.events import (
    ApprovalAsked,
    Event,
    ModelRetrying,
    QuestionAsked,
    ReasoningDelta,
    SessionTrouble,
    StepFinished,
    TextDelta,
    ToolStarted,
    TurnCompleted,
    TurnFailed,
    TurnInterrupted,
    TurnStarted,
)
from holdfast.core.ids import new_id
from holdfast.host import Accepted, Beginning, Numbered
from holdfast.web.contract import Web
from holdfast.web.problems import status_of
from holdfast.web.streaming import OpenStreams

logger = logging.getLogger(__name__)

SOURCE = "api"
TRIES, BETWEEN_TRIES = 50, 0.1
NOBODY = "Nobody is there to answer."
BETWEEN_STEPS = "\n\n"
BROKEN = (400, 404, 409, 413, 422, 502)
"""The statuses of a message that was not taken, or a turn that gave no answer."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a client wants answered, and in which session."""

    session_id: str
    history: Sequence[Message]
    message: Message


@dataclass(slots=True)
class Piece:
    """A piece of the answer."""

    text: str = ""
    reasoning: str = ""


@dataclass(slots=True)
class Spent:
    """Tokens of the whole turn."""

    input: int = 0
    output: int = 0
    cached: int = 0


class TurnBroken(HoldfastError):
    """The turn ended without an answer."""

    def __init__(self, status: int, reason: str, said: str) -> None:
        super().__init__(said)
        self.status = status
        self.reason = reason


@dataclass(slots=True)
class AnsweredTurn:
    """One turn as a client of `/v1` sees it."""

    web: Web
    asked: Asked
    session_id: str = ""
    turn_id: str = ""
    spent: Spent = field(default_factory=Spent)
    texts: list[str] = field(default_factory=lambda: [""])
    _ended: bool = False

    @property
    def text(self) -> str:
        """What the whole turn said, its steps one after the other."""
        return BETWEEN_STEPS.join(each for each in self.texts if each)

    async def begin(self) -> None:
        """Find or make the session; what can be refused is refused here."""
        host = self.web.host
        if not self.asked.session_id:
            self.session_id = new_id()  # it begins with the message
            return
        try:
            self.session_id = (await host.session(self.asked.session_id)).session.id
        except SessionNotFound:
            self.session_id = await host.new_session(session_id=self.asked.session_id)

    async def run(self, streams: OpenStreams) -> AsyncGenerator[Piece, None]:
        """Send the message and give the pieces of its answer; raises `TurnBroken`."""
        sending = asyncio.ensure_future(self._send())
        try:
            accepted, following = await asyncio.shield(sending)
        except asyncio.CancelledError:
            self.web.background.spawn(self._take_back(sending))
            raise
        inbox_id = accepted.inbox_id
        try:
            async with aclosing(streams.read(following)) as batches:
                async for batch in batches:
                    piece = Piece()
                    for numbered in batch:
                        await self._heard(numbered.event, inbox_id, piece)
                    spoke = bool(piece.text or piece.reasoning)
                    if spoke:
                        yield piece
                    if self._ended:
                        return
                    if spoke:
                        await streams.pause()
            raise TurnBroken(503, "Closing", "Holdfast is shutting down; the message is kept.")
        finally:
            if not self._ended:
                # In a task of its own: the one that waited here may be cancelled already.
                self.web.background.spawn(self._give_up(inbox_id))

    async def _send(self) -> tuple[Accepted, AsyncGenerator[list[Numbered], None]]:
        host, asked = self.web.host, self.asked
        if not asked.session_id:
            how = Beginning(asked.history, SOURCE)
            return await host.begin(self.session_id, asked.message, how)
        # From here on nothing is missed.
        following = await host.event_batches(self.session_id, from_now=True)
        return await host.send(self.session_id, asked.message), following

    async def _heard(self, event: Event, inbox_id: int, piece: Piece) -> None:
        if not self.turn_id:
            self._look_for_own(event, inbox_id)
            return
        if getattr(event, "turn_id", self.turn_id) != self.turn_id:
            return
        match event:
            case TextDelta():
                opens = not self.texts[-1] and any(self.texts)
                self.texts[-1] += event.text
                piece.text += (BETWEEN_STEPS if opens else "") + event.text
            case ReasoningDelta():
                piece.reasoning += event.text
            case ToolStarted() if self.texts[-1]:
                self.texts.append("")
            case ModelRetrying():
                self.texts[-1] = ""
            case ApprovalAsked() | QuestionAsked():
                await self._refuse(event)
            case _:
                self._count(event)

    async def _refuse(self, event: ApprovalAsked | QuestionAsked) -> None:
        said = "no" if isinstance(event, ApprovalAsked) else NOBODY
        await self.web.host.answer(self.session_id, event.ask_id, said)

    def _count(self, event: Event) -> None:
        if isinstance(event, StepFinished):
            self.spent.input += event.input_tokens
            self.spent.output += event.output_tokens
            self.spent.cached += event.cached_tokens
        elif isinstance(event, (TurnCompleted, TurnFailed, TurnInterrupted)):
            self._end(event)

    def _look_for_own(self, event: Event, inbox_id: int) -> None:
        if isinstance(event, TurnStarted) and event.inbox_id in (inbox_id, 0):
            self.turn_id = event.turn_id
        elif isinstance(event, SessionTrouble):
            raise TurnBroken(503, "SessionTrouble", event.error)

    def _end(self, event: TurnCompleted | TurnFailed | TurnInterrupted) -> None:
        self._ended = True
        if isinstance(event, TurnCompleted):
            if not self.text:
                self.texts[-1] = event.final_response
            return
        kept = f"What it had produced is kept in session {self.session_id}."
        if isinstance(event, TurnInterrupted):
            raise TurnBroken(409, "TurnInterrupted", f"the turn was interrupted: {event.reason}. {kept}")
        kind = getattr(errors, event.failure, HoldfastError)
        raise TurnBroken(status_of(kind)[0], event.failure or "TurnFailed", f"{event.error} {kept}")

    async def _take_back(self, sending: Awaitable[tuple[Accepted, object]]) -> None:
        """The client left before its message was known to be stored."""
        with suppress(HoldfastError):
            accepted, _ = await sending
            await self._give_up(accepted.inbox_id)

    async def _give_up(self, inbox_id: int) -> None:
        """Nobody waits for this answer any more: take the message back, or stop its turn."""
        try:
            with suppress(NotWaiting):
                await self.web.host.withdraw(inbox_id)
                return
            # A turn that is just being opened can't be stopped yet.
            for _ in range(TRIES):
                if await self._stopped(inbox_id):
                    return
                await asyncio.sleep(BETWEEN_TRIES)
        except HoldfastError:
            logger.warning("web.turn_not_stopped", exc_info=True, extra={"session": self.session_id})

    async def _stopped(self, inbox_id: int) -> bool:
        """Whether this message's turn is over or is stopped now; no other turn is touched."""
        host = self.web.host
        sent = await host.sent(inbox_id)
        status = await host.session_status(self.session_id)
        if sent is None or sent.turn_id is None or status.turn_id not in (None, sent.turn_id):
            return True
        return status.turn_id is not None and await host.interrupt(self.session_id)
