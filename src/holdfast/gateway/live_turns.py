"""`LiveTurns`: shows in the chats of one account that turns run: "typing", and the answer as it grows.

The preview is the answer's own post, so that both are one message: it is sent once and edited at the pace
that the platform allows. When the turn ends, `PostSender` edits the answer into it. What fails here is left
out: the answer arrives all the same.
"""

import asyncio
import logging
from contextlib import suppress

from holdfast.core.contract import Clock
from holdfast.core.errors import HoldfastError, NotWaiting
from holdfast.core.events import (
    Event,
    StepFinished,
    TextDelta,
    ToolStarted,
    TurnCompleted,
    TurnEvent,
    TurnFailed,
    TurnInterrupted,
    TurnResumed,
    TurnStarted,
)
from holdfast.gateway.contract import ChatPlatformError, Outgoing, Place, Route
from holdfast.gateway.part_delivery import PartDelivery, PlatformCalls
from holdfast.gateway.post_text import PLACEHOLDER, part_body
from holdfast.gateway.rate_budget import TurnReplaced
from holdfast.gateway.splitter import split
from holdfast.host.chat_ledger import ChatLedger
from holdfast.sessions.chat_posts import ChatPost

logger = logging.getLogger(__name__)

ENDS = (TurnCompleted, TurnFailed, TurnInterrupted)
TYPING_SHARE = 0.8
"""The sign is renewed before it fades."""


class LiveTurn:
    """One turn that runs for a chat."""

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        self.room_id = 0
        self.lock = asyncio.Lock()
        """Held by the one who changes the turn's messages."""
        self.text = ""
        self.tool = ""
        self.changed = asyncio.Event()
        self.has_ended = False
        self.post: ChatPost | None = None
        self.message_id = ""

    def shown(self) -> str:
        """What the preview says now; empty while there is nothing to say."""
        text = self.text.strip()
        return f"{text}\n\n_{self.tool}…_" if text and self.tool else text

    def note(self, event: TurnEvent) -> None:
        if isinstance(event, TextDelta):
            self.text += event.text
            self.tool = ""
        elif isinstance(event, ToolStarted):
            self.tool = event.name
        elif isinstance(event, StepFinished):
            # What the model says before it uses tools is not the answer.
            self.text = ""
        self.changed.set()


class LiveTurns:
    """The turns that run for one account."""

    def __init__(
        self, ledger: ChatLedger, calls: PlatformCalls, parts: PartDelivery, clock: Clock, *, preview: bool
    ) -> None:
        self._ledger = ledger
        self._calls = calls
        self._parts = parts
        self._clock = clock
        self._traits = calls.adapter.traits
        self._has_preview = preview and self._traits.can_edit
        self._turns: dict[str, LiveTurn] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def lock_of(self, post: ChatPost) -> asyncio.Lock:
        """The lock of a post's messages, for the sender; its turn is not previewed any more."""
        turn = self._turns.get(post.turn_id or "")
        if turn is None or post.kind != "answer":
            return asyncio.Lock()
        turn.has_ended = True
        turn.changed.set()
        return turn.lock

    def note(self, event: Event) -> None:
        """An event of the host; must not wait."""
        if not isinstance(event, TurnEvent):
            return
        if isinstance(event, TurnStarted | TurnResumed):
            begun = self._turns[event.turn_id] = LiveTurn(event.session_id)
            task = asyncio.create_task(self._follow(event.turn_id, begun), name=f"live turn {event.turn_id}")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        elif (turn := self._turns.get(event.turn_id)) is not None:
            turn.has_ended = turn.has_ended or isinstance(event, ENDS)
            turn.note(event)

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def _follow(self, turn_id: str, turn: LiveTurn) -> None:
        try:
            room = await self._ledger(self._ledger.events.of_turn, turn_id)
            if room is not None and room.account == self._ledger.account:
                turn.room_id = room.id
                await self._show(turn_id, turn, Place(room.chat, room.thread))
        except HoldfastError:
            logger.info("chat.preview_failed", exc_info=True)
        finally:
            del self._turns[turn_id]

    async def _show(self, turn_id: str, turn: LiveTurn, place: Place) -> None:
        route = Route(place)
        typed = shown_at = -1e9
        shown = ""
        while not turn.has_ended:
            turn.changed.clear()
            now = self._clock.monotonic()
            if self._traits.typing_seconds and now - typed >= self._traits.typing_seconds * TYPING_SHARE:
                typed = now
                with suppress(ChatPlatformError, TurnReplaced):
                    await self._calls.show_typing(route)
            text = turn.shown()
            if text != shown and self._has_preview and now - shown_at >= self._traits.edit_seconds:
                shown_at = now
                if await self._preview(turn_id, turn, place, text):
                    shown = text
            await self._pause(turn, shown != turn.shown())
        with suppress(ChatPlatformError):
            await self._calls.adapter.stop_typing(route)

    async def _pause(self, turn: LiveTurn, has_more: bool) -> None:
        """Until there is more to show, but not more often than the platform allows."""
        most = self._traits.typing_seconds * TYPING_SHARE or self._traits.edit_seconds
        with suppress(TimeoutError):
            if has_more and self._has_preview:
                async with asyncio.timeout(self._traits.edit_seconds):
                    while not turn.has_ended:
                        turn.changed.clear()
                        await turn.changed.wait()
            else:
                async with asyncio.timeout(most):
                    await turn.changed.wait()

    async def _preview(self, turn_id: str, turn: LiveTurn, place: Place, text: str) -> bool:
        """Show how far the answer has come; False when that has to wait."""
        async with turn.lock:
            return turn.has_ended or await self._show_text(turn_id, turn, place, text)

    async def _show_text(self, turn_id: str, turn: LiveTurn, place: Place, text: str) -> bool:
        first = (split(text, self._calls.adapter.measure, self._traits.max_size) or [PLACEHOLDER])[0]
        try:
            if turn.post is None:
                return await self._begin_preview(turn_id, turn, place, first)
            if turn.message_id:
                route = Route(place, turn.post.reply_to)
                await self._calls.edit_preview(route, turn.message_id, Outgoing(first))
        except (ChatPlatformError, TurnReplaced, NotWaiting) as cause:
            logger.info("chat.preview_skipped", extra={"cause": repr(cause)})
        return True

    async def _begin_preview(self, turn_id: str, turn: LiveTurn, place: Place, text: str) -> bool:
        if await self._ledger(self._ledger.posts.is_due, turn.room_id):
            return False  # what was said before is shown before
        turn.post = await self._ledger(self._ledger.posts.open, turn_id, turn.session_id)
        if turn.post is None:
            # It has begun before a restart; its message is on record.
            turn.post = await self._ledger(self._ledger.posts.by_key, f"answer:{turn_id}")
            if turn.post is None or turn.post.state != "open":
                return True
        route = Route(place, turn.post.reply_to)
        (part, *_) = await self._ledger.under_lease(self._ledger.posts.plan, turn.post.id, [part_body(text)])
        if part.state in ("new", "sending"):
            turn.message_id = await self._parts.place(turn.post, route, part, Outgoing(text), preview=True)
            # A message that was sent before has its text of then, and a placeholder has none.
            return part.state == "new" and self._traits.repeat != "placeholder"
        turn.message_id = part.message_id
        return False
