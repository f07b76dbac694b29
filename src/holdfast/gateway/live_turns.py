"""`LiveTurns`: shows in the chats of one account that turns run: "typing", and the answer as it grows.

The preview is the answer's own post, so that both are one message: it is sent once and edited at the pace
that the platform allows. When the turn ends, `PostSender` edits the answer into it. What fails here is left
out: the answer arrives all the same.
"""

import asyncio
import logging
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import replace
from typing import Any

from holdfast.core.contract import Clock
from holdfast.core.errors import HoldfastError, NotWaiting
from holdfast.core.events import (
    TURN_ENDS,
    Event,
    StepFinished,
    TextDelta,
    ToolStarted,
    TurnEvent,
    TurnResumed,
    TurnStarted,
)
from holdfast.gateway.contract import ChatPlatformError, Outgoing, Place, Route
from holdfast.gateway.part_delivery import PartDelivery, PlatformCalls
from holdfast.gateway.post_bodies import PostBodies
from holdfast.gateway.post_text import PLACEHOLDER, part_body
from holdfast.gateway.rate_budget import TurnReplaced
from holdfast.host.chat_ledger import ChatLedger
from holdfast.sessions.chat_events import ChatRoom
from holdfast.sessions.chat_posts import ChatPost

logger = logging.getLogger(__name__)

QUEUED = "👀"
TYPING_SHARE = 0.8
"""The sign is renewed before it fades."""
QUICK_SECONDS = 0.3
"""Words that come so soon need no sign before them, whose call they would have to wait for."""


class LiveTurn:
    """One turn that runs for a chat."""

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        self.room_id = 0
        self.route = Route(Place(""))
        self.lock = asyncio.Lock()
        """Held by the one who changes the turn's messages."""
        self.text = ""
        self.tool = ""
        self.changed = asyncio.Event()
        self.ended = asyncio.Event()
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

    def waits_about(self) -> str:
        """What a call for its preview is about, as the rate budget knows it."""
        return self.message_id or ("" if self.post is None else self.post.key)


class LiveTurns:
    """The turns that run for one account."""

    def __init__(
        self,
        ledger: ChatLedger,
        calls: PlatformCalls,
        parts: PartDelivery,
        bodies: PostBodies,
        clock: Clock,
        *,
        preview: bool,
    ) -> None:
        self._ledger = ledger
        self._bodies = bodies
        self._calls = calls
        self._parts = parts
        self._clock = clock
        self._traits = calls.adapter.traits
        self._has_preview = preview and self._traits.can_edit
        self._begins_empty = self._has_preview and self._traits.repeat == "placeholder"
        """A placeholder is sent at once, so that the first words need one call only."""
        self._turns: dict[str, LiveTurn] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def lock_of(self, post: ChatPost) -> asyncio.Lock:
        """The lock of a post's messages, for the sender; its turn is not previewed any more."""
        turn = self._turns.get(post.turn_id or "")
        if turn is None or post.kind != "answer":
            return asyncio.Lock()
        self._end(turn)
        return turn.lock

    def note(self, event: Event) -> None:
        """An event of the host; must not wait."""
        if not isinstance(event, TurnEvent):
            return
        if isinstance(event, TurnStarted | TurnResumed):
            begun = self._turns[event.turn_id] = LiveTurn(event.session_id)
            self._spawn(self._follow(event.turn_id, begun), f"live turn {event.turn_id}")
        elif (turn := self._turns.get(event.turn_id)) is not None:
            turn.note(event)
            if isinstance(event, TURN_ENDS):
                self._end(turn)

    def show_queued(self, room: ChatRoom, message_id: str) -> None:
        """Put a sign on a message that is stored and waits; must not wait."""
        self._spawn(self._react(room, message_id), f"queued {message_id}")

    async def _react(self, room: ChatRoom, message_id: str) -> None:
        with suppress(HoldfastError):
            route = Route(Place(room.chat, room.thread), is_group=not room.is_direct)
            await self._calls.react(route, message_id, QUEUED)

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()

    def _end(self, turn: LiveTurn) -> None:
        """Show no more of it; its answer does not wait for a preview that has yet to be sent."""
        turn.ended.set()
        turn.changed.set()
        self._calls.withdraw(turn.route, turn.waits_about())

    async def _follow(self, turn_id: str, turn: LiveTurn) -> None:
        try:
            room = await self._ledger(self._ledger.events.of_turn, turn_id)
            if room is not None and room.account == self._ledger.account:
                turn.room_id = room.id
                turn.route = Route(Place(room.chat, room.thread), is_group=not room.is_direct)
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(self._show_typing(turn))
                    tasks.create_task(self._show_growing(turn_id, turn))
        except* HoldfastError:
            logger.info("chat.preview_failed", exc_info=True)
        finally:
            del self._turns[turn_id]

    async def _show_typing(self, turn: LiveTurn) -> None:
        """Show "typing" until the turn ends, except while the words themselves can be seen to grow."""
        seconds = self._traits.typing_seconds * TYPING_SHARE
        if not seconds:
            return
        await _until(turn.ended, seconds if self._begins_empty else QUICK_SECONDS)
        while not turn.ended.is_set():
            if not (turn.text and self._has_preview):
                with suppress(ChatPlatformError, TurnReplaced):
                    await self._calls.show_typing(turn.route)
            await _until(turn.ended, seconds)
        with suppress(ChatPlatformError):
            await self._calls.adapter.stop_typing(turn.route)

    async def _show_growing(self, turn_id: str, turn: LiveTurn) -> None:
        """Show the answer as it grows, not more often than the platform allows."""
        shown = ""
        while self._has_preview and not turn.ended.is_set():
            turn.changed.clear()
            text = turn.shown() or (PLACEHOLDER if self._begins_empty else "")
            if text in ("", shown):
                await turn.changed.wait()
                continue
            next_at = self._clock.monotonic() + self._traits.edit_seconds
            async with turn.lock:
                if not turn.ended.is_set():
                    shown = await self._show_text(turn_id, turn, text)
            await _until(turn.ended, next_at - self._clock.monotonic())

    async def _show_text(self, turn_id: str, turn: LiveTurn, text: str) -> str:
        """Show how far the answer has come; returns what is shown now, empty when that has to wait."""
        first = await self._bodies.preview(text) or PLACEHOLDER
        if turn.ended.is_set():
            return text
        try:
            if turn.post is None:
                return await self._begin_preview(turn_id, turn, first)
            if turn.message_id:
                route = replace(turn.route, reply_to=turn.post.reply_to)
                await self._calls.edit_preview(route, turn.message_id, Outgoing(first))
        except (ChatPlatformError, TurnReplaced, NotWaiting) as cause:
            logger.info("chat.preview_skipped", extra={"cause": repr(cause)})
        return text

    async def _begin_preview(self, turn_id: str, turn: LiveTurn, text: str) -> str:
        if await self._ledger(self._ledger.posts.is_due, turn.room_id):
            return ""  # what was said before is shown before
        turn.post = await self._ledger(self._ledger.posts.open, turn_id, turn.session_id)
        if turn.post is None:
            # It has begun before a restart; its message is on record.
            turn.post = await self._ledger(self._ledger.posts.by_key, f"answer:{turn_id}")
            if turn.post is None or turn.post.state != "open":
                return text
        route = replace(turn.route, reply_to=turn.post.reply_to)
        (part, *_) = await self._ledger.under_lease(self._ledger.posts.plan, turn.post.id, [part_body(text)])
        if turn.ended.is_set():
            return text
        if part.state in ("new", "sending"):
            turn.message_id = await self._parts.place(turn.post, route, part, Outgoing(text), preview=True)
            # A message that was sent before has its text of then, and a placeholder has none.
            return text if part.state == "new" and not self._begins_empty else PLACEHOLDER
        turn.message_id = part.message_id
        return PLACEHOLDER


async def _until(ended: asyncio.Event, seconds: float) -> None:
    """Wait for the end, but no longer than this."""
    with suppress(TimeoutError):
        async with asyncio.timeout(max(0.0, seconds)):
            await ended.wait()
