"""`TurnHandle`: a message that was sent, and the turn that answers it.

This is the one way to send a message and follow its turn: for `holdfast ask`, for lines on standard input,
for `/v1`, and for programs (`host.ask`, `host.start_turn`). It finds the message's own turn among others,
also when another process runs it, refuses what nobody is there to answer, and stops the turn when its reader
leaves.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal

from holdfast.core import errors
from holdfast.core.content import Checked
from holdfast.core.contract import Message
from holdfast.core.errors import (
    HoldfastError,
    NotWaiting,
    SessionBusy,
    SessionExists,
    SessionNotFound,
    TurnAlreadyRunning,
    TurnError,
)
from holdfast.core.events import (
    ApprovalAsked,
    Event,
    MessageJoined,
    ModelRetrying,
    QuestionAsked,
    SessionMoved,
    SessionSnapshot,
    StepFinished,
    TextDelta,
    ToolStarted,
    TurnCompleted,
    TurnEnd,
    TurnFailed,
    TurnInterrupted,
    TurnResumed,
    TurnStarted,
)
from holdfast.host.contract import Accepted, Beginning, Numbered
from holdfast.models.contract import Usage
from holdfast.sessions.contract import NOTHING_CHOSEN, OWNER, ConversationChoice, Mode
from holdfast.tools.open_questions import NO_ANSWER, NOBODY

if TYPE_CHECKING:
    from holdfast.host.session_host import SessionHost

logger = logging.getLogger(__name__)

TRIES, BETWEEN_TRIES = 50, 0.1


@dataclass(frozen=True, slots=True)
class AskOptions:
    """How a message is sent, and how its turn is followed."""

    mode: Mode = "queue"
    key: str | None = None
    """The same key again sends nothing: the handle then follows the turn of the first call."""
    history: Sequence[Message | Checked] = ()
    """What was said elsewhere before the message. Only a session that begins now takes it."""
    source: str | None = None
    """Recorded with a session that begins now; None: the host's own."""
    scope: str | None = None
    """Whose conversation it is: a session begins there, and one of another scope is refused (`WrongScope`).

    None: any session is taken, and one that begins is the owner's.
    """
    choice: ConversationChoice = NOTHING_CHOSEN
    """What is chosen for a session that begins now."""
    new: bool = False
    """The session's id was just made, so no session of that name is looked for."""
    when_asked: Literal["wait", "refuse", "refuse-here"] = "refuse"
    """What to do when the turn asks a person; `refuse-here`: refuse, unless another process runs the turn."""
    discard_empty: bool = False
    """Delete a session that began with this message, when its turn ended without a word or a tool call."""
    stop: asyncio.Event | None = None
    """When it is set, the turn is interrupted; when that is not possible, the events end."""


@dataclass(frozen=True, slots=True)
class AskResult:
    """How a turn ended, and its answer."""

    session_id: str
    turn_id: str
    final_response: str
    interrupted: bool
    usage: Usage
    cost: Decimal | None = None
    """Dollars for the turn's own answers; None: a price is not known. `host.usage.turn` has subagents too."""


class TurnHandle:
    """One message and its turn. Read `batches` or `events` once, or wait for `result`."""

    def __init__(
        self,
        host: "SessionHost",
        accepted: Accepted,
        following: AsyncGenerator[list[Numbered], None],
        options: AskOptions,
        spawn: Callable[[Coroutine[Any, Any, Any]], None],
    ) -> None:
        """`spawn` runs a coroutine in the background."""
        self._host = host
        self._following = following
        self._options = options
        self._spawn = spawn
        self.session_id = accepted.session_id
        self.inbox_id = accepted.inbox_id
        self.turn_id = ""
        """Empty until the turn is known."""
        self.end: TurnEnd | None = None
        """The event that ended the turn; None while it goes on."""
        self.usage = Usage()
        self._costs: list[str] = []  # of each answer; empty: not known
        self._elsewhere = False
        self._stopping = False
        self._produced = False
        self._wrote = False  # text of a step that may still be tried again

    @property
    def _cost(self) -> Decimal | None:
        return sum(map(Decimal, self._costs), Decimal()) if self._costs and all(self._costs) else None

    @property
    def left_nothing(self) -> bool:
        """Whether the session is to be deleted: it is new, and the turn has produced nothing."""
        return self._options.discard_empty and not self._produced and not self._wrote

    async def events(self) -> AsyncGenerator[Event, None]:
        """What happens in the turn and around it, until the turn ends."""
        async with aclosing(self.batches()) as batches:
            async for batch in batches:
                for event in batch:
                    yield event

    async def batches(self) -> AsyncGenerator[list[Event], None]:
        """The same, with all events that are there in one list.

        The events of other turns are left out. When the host closes first, `end` stays None.
        """
        try:
            async with aclosing(self._following):
                while self.end is None and (batch := await self._next()) is not None:
                    own = [event for each in batch if (event := await self._own(each.event)) is not None]
                    if own:
                        yield own
        finally:
            if isinstance(self.end, TurnFailed | TurnInterrupted) and self.left_nothing:
                self._spawn(self._clean_up(cancel=False))

    async def result(self) -> AskResult:
        """Wait for the answer. A task that is cancelled here stops the turn, or takes the message back."""
        try:
            async with aclosing(self.batches()) as batches:
                async for _ in batches:
                    pass
        except BaseException:
            self.abandon()
            raise
        if self.end is None:
            raise TurnError("Holdfast stopped before the answer came. The message is kept.")
        if isinstance(self.end, TurnFailed):
            raise turn_error(self.end)
        completed = isinstance(self.end, TurnCompleted)
        final = self.end.final_response if isinstance(self.end, TurnCompleted) else ""
        return AskResult(self.end.session_id, self.turn_id, final, not completed, self.usage, self._cost)

    def discard(self) -> None:
        """Delete the conversation, in the background: nobody wants it kept."""
        self._spawn(self._discard())

    async def interrupt(self) -> bool:
        """Stop this message's turn, in whichever process; False when it does not run."""
        turn_id = self.turn_id or await self._turn_of_message()
        return bool(turn_id) and await self._host.interrupt(self.session_id, turn_id=turn_id)

    def abandon(self) -> None:
        """Nobody waits for the answer any more: stop the turn or withdraw the message, in the background."""
        self._spawn(self._clean_up(cancel=True))

    # reading

    async def _next(self) -> list[Numbered] | None:
        stop = self._options.stop
        if stop is None or self._stopping:
            return await anext(self._following, None)
        coming = asyncio.ensure_future(anext(self._following, None))
        asked = asyncio.ensure_future(stop.wait())
        try:
            await asyncio.wait([coming, asked], return_when=asyncio.FIRST_COMPLETED)
            if not coming.done():
                self._stopping = True
                if not await self.interrupt():
                    return None
            return await coming
        finally:
            asked.cancel()
            coming.cancel()
            await asyncio.wait([coming])

    async def _own(self, event: Event) -> Event | None:
        """The event, if it is of this turn or of no turn; None for what is another's."""
        if self.end is not None:
            return None
        if isinstance(event, SessionSnapshot) or (isinstance(event, SessionMoved) and not event.elsewhere):
            return await self._after_gap(event)
        if not self.turn_id and isinstance(event, TurnStarted | TurnResumed | MessageJoined):
            await self._identify(event)
        if getattr(event, "turn_id", self.turn_id) != self.turn_id:
            return None
        if isinstance(event, ApprovalAsked | QuestionAsked):
            await self._refuse(event)
        self._record(event)
        return event

    def _record(self, event: Event) -> None:
        match event:
            case TextDelta():
                self._wrote = True
            case ModelRetrying():
                self._wrote = False
            case ToolStarted():
                self._produced = True
            case StepFinished():
                self._produced = self._produced or self._wrote
                self.usage += Usage(event.input_tokens, event.output_tokens, event.cached_tokens)
                self._costs.append(event.cost)
            case SessionMoved():
                self._elsewhere = event.elsewhere
            case TurnCompleted() | TurnFailed() | TurnInterrupted():
                self.end = event

    async def _identify(self, event: TurnStarted | TurnResumed | MessageJoined) -> None:
        inbox_id = getattr(event, "inbox_id", 0)
        # A turn that another process runs does not name its message; the message names its turn.
        if inbox_id == self.inbox_id or (inbox_id == 0 and await self._turn_of_message() == event.turn_id):
            self.turn_id, self._elsewhere = event.turn_id, inbox_id == 0

    async def _after_gap(self, event: SessionSnapshot | SessionMoved) -> Event | None:
        """Events may have been missed, among them the turn's beginning or end: the store knows both.

        That happens to a reader that is too slow, and when another process finishes a turn and lets it go.
        """
        if isinstance(event, SessionMoved):
            self._elsewhere = False
        self.turn_id = self.turn_id or await self._turn_of_message()
        if isinstance(event, SessionSnapshot) and event.turn_id == self.turn_id:
            self._produced = self._produced or bool(event.text)
            return event
        if self.turn_id:
            self.end = await self._host.records.turn_end(self.turn_id)
            self._produced = self._produced or self.end is not None  # what came before it was not seen
        return self.end or (event if isinstance(event, SessionMoved) else None)

    async def _turn_of_message(self) -> str:
        sent = await self._host.records.sent(self.inbox_id)
        return sent.turn_id or "" if sent is not None else ""

    async def _refuse(self, asked: ApprovalAsked | QuestionAsked) -> None:
        wanted = self._options.when_asked
        if wanted == "refuse" or (wanted == "refuse-here" and not self._elsewhere):
            said = NOBODY if isinstance(asked, ApprovalAsked) else NO_ANSWER
            await self._host.answer(self.session_id, asked.ask_id, said)

    # leaving

    async def _clean_up(self, *, cancel: bool) -> None:
        try:
            if cancel:
                await self._cancel()
            if self.left_nothing:
                await self._discard()
        except HoldfastError:
            logger.warning("host.turn_not_cleaned_up", exc_info=True, extra={"session": self.session_id})

    async def _cancel(self) -> None:
        with suppress(NotWaiting):
            await self._host.records.withdraw(self.inbox_id)
            return
        # A turn that is just being opened can't be stopped yet.
        for _ in range(TRIES):
            turn_id = await self._turn_of_message()
            if not turn_id or await self._host.interrupt(self.session_id, turn_id=turn_id):
                return
            if await self._host.records.turn_end(turn_id) is not None:
                return
            await asyncio.sleep(BETWEEN_TRIES)

    async def _discard(self) -> None:
        for _ in range(TRIES):
            try:
                await self._host.delete(self.session_id, force=True)
            except SessionNotFound:
                return
            except (TurnAlreadyRunning, SessionBusy):
                await asyncio.sleep(BETWEEN_TRIES)  # its turn is just ending
            else:
                return


async def start_turn(
    host: "SessionHost",
    session_id: str,
    text: str | Message | Checked,
    options: AskOptions,
    spawn: Callable[[Coroutine[Any, Any, Any]], None],
) -> TurnHandle:
    """Send a message, in a session that begins with it or goes on, and give the handle to its turn.

    A task that is cancelled here takes the message back.
    """
    sending = asyncio.ensure_future(_send(host, session_id, text, options))
    try:
        accepted, following = await asyncio.shield(sending)
    except asyncio.CancelledError:

        async def take_back() -> None:
            with suppress(HoldfastError):
                TurnHandle(host, *await sending, options, spawn).abandon()

        spawn(take_back())
        raise
    return TurnHandle(host, accepted, following, options, spawn)


async def _send(
    host: "SessionHost", session_id: str, text: str | Message | Checked, options: AskOptions
) -> tuple[Accepted, AsyncGenerator[list[Numbered], None]]:
    # With a key the turn may have begun or ended before: a snapshot comes first, and the handle looks.
    from_now = options.key is None
    following = None
    if not options.new:
        with suppress(SessionNotFound):
            following = await host.event_batches(session_id, from_now=from_now)
    if following is None:
        # Another request may begin the session of this name first.
        with suppress(SessionExists):
            how = Beginning(
                options.history,
                options.source,
                key=options.key,
                scope=options.scope or OWNER,
                choice=options.choice,
            )
            accepted, following = await host.begin(session_id, text, how)
            if accepted.session_id != session_id:
                following = await host.event_batches(accepted.session_id)
            return accepted, following
        following = await host.event_batches(session_id, from_now=from_now)
    accepted = await host.send(session_id, text, options.mode, key=options.key, scope=options.scope)
    return accepted, following


def turn_error(event: TurnFailed) -> TurnError:
    """The error that a failed turn means for the one who waits for its answer."""
    kind = getattr(errors, event.failure, None)
    if not (isinstance(kind, type) and issubclass(kind, HoldfastError)):
        kind = HoldfastError
    return TurnError(f"{event.error} The message is kept.", kind)
