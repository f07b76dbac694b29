"""`EventRouter`: decides what becomes of each stored event, in order: message, command, press, or nothing.

An event stays `new` until the decision is on record. A message goes to the host with the event's key, so a
crash between the two sends nothing twice. A command is on record as done before it runs, so no restart runs
it again; one that was sent while the gateway was away is not run at all. The rooms go side by side.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from holdfast.core.contract import Clock, Message
from holdfast.core.errors import (
    HoldfastError,
    HostClosed,
    InvalidInput,
    LeaseLost,
    Retryable,
    SessionEnded,
    StoreFailure,
)
from holdfast.core.ids import IdFactory
from holdfast.core.settings import GatewaySettings
from holdfast.gateway.access import NOT_ADDRESSED, AccessControl, Refusal
from holdfast.gateway.chat_commands import ChatCommand, ChatCommands, command_of
from holdfast.gateway.chat_scopes import scope_of_message
from holdfast.gateway.contract import Incoming
from holdfast.gateway.event_codec import to_incoming
from holdfast.gateway.incoming_files import IncomingFiles
from holdfast.gateway.live_events import LiveEvents
from holdfast.gateway.presses import Presses
from holdfast.gateway.room_tasks import RoomTasks
from holdfast.gateway.user_text import user_text
from holdfast.host import SessionHost
from holdfast.host.chat_ledger import ChatLedger
from holdfast.sessions.chat_events import ChatEvent, ChatRoom
from holdfast.sessions.chat_people import Role
from holdfast.sessions.chat_posts import NewPost
from holdfast.sessions.contract import SECOND
from holdfast.tools.open_questions import parse_approval

logger = logging.getLogger(__name__)

AT_ONCE = 200
LOOK_SECONDS = 2.0
TRY_AGAIN_SECONDS = 2.0
READ_AGAIN_SECONDS = 0.001
"""What was read of a room is not how it stands any more."""
HOUR = 3600
KEPT_REFUSED = 10
"""Of how many refused messages of a room for one reason the words are kept, for people who look why."""
DAY = 24 * HOUR
OVER_BUDGET = "more messages than its sender's role has in 24 hours"
OVER_BUDGET_SAID = "That was more than your {} messages in 24 hours, so I did not take this one."
TOO_OLD = "too old"
FAULT = "a fault of the gateway; its log has the details"
FAULT_SAID = "I can't take this message: something went wrong here. My log has the details."
RETRY = "retry"
"""The command that asks for an answer as a message does, and counts as one."""
MISSED_COMMAND = "a command that was sent while the gateway was away"


@dataclass(frozen=True, slots=True)
class RoutedEvent:
    """A stored event with what it says and where."""

    event: ChatEvent
    incoming: Incoming
    room: ChatRoom
    joined: Sequence[Incoming] = ()
    """The messages before it that are part of it."""


@dataclass(frozen=True, slots=True)
class RouterHelpers:
    """What an event router asks beside the host and the ledger."""

    access: AccessControl
    presses: Presses
    files: IncomingFiles
    wake_sender: Callable[[], None]
    """Has the sender look at once."""
    show_queued: Callable[[ChatRoom, str], None]
    """Shows that a message is stored and waits."""


class EventRouter:
    """Routes the events of one account."""

    def __init__(
        self,
        host: SessionHost,
        ledger: ChatLedger,
        settings: GatewaySettings,
        clock: Clock,
        helpers: RouterHelpers,
    ) -> None:
        self._host = host
        self._ledger = ledger
        self._settings = settings
        self._clock = clock
        self._access = helpers.access
        self._commands = ChatCommands(host, ledger, settings.user_models)
        self._presses = helpers.presses
        self._files = helpers.files
        self._wake_sender = helpers.wake_sender
        self._show_queued = helpers.show_queued
        self._new_id = IdFactory(clock)
        self._live = LiveEvents(clock, settings.debounce_s)
        self._accepting = asyncio.Event()
        self._woken = asyncio.Event()
        self._rooms = RoomTasks(self.wake)
        self._slow_commands: set[asyncio.Task[None]] = set()
        self._awaits_turns = False
        """Whether something waits for the end of a turn."""

    def accept(self) -> None:
        """The catch-up is done: events may be routed from now on."""
        self._accepting.set()
        self.wake()

    def received(self, events: Sequence[Incoming], *, live: bool) -> None:
        """These events are new in the store; `live` when they were sent while the gateway listened."""
        if live:
            self._live.came(events)
        self.wake()

    def wake(self) -> None:
        """Look now: something is new."""
        self._woken.set()

    def turn_ended(self) -> None:
        """A turn has ended: what waited for that comes next."""
        if self._awaits_turns:
            self._awaits_turns = False
            self.wake()

    async def run(self) -> None:
        """Route until cancelled."""
        await self._accepting.wait()
        try:
            while True:
                self._woken.clear()
                self._rooms.check()
                await self._route_new()
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_SECONDS):
                        await self._woken.wait()
        finally:
            for task in self._slow_commands:
                task.cancel()
            await self._rooms.close()

    async def _route_new(self) -> None:
        """Begin with what is new in the rooms in which nothing is being routed."""
        # A room that is done while this reads is read again, since it may have been read before.
        busy = self._rooms.busy()
        events = await self._ledger.of_account(self._ledger.events.new, limit=AT_ONCE)
        rooms: dict[int, list[ChatEvent]] = {}
        for event in events:
            if event.room_id not in busy:
                rooms.setdefault(event.room_id, []).append(event)
        for room_id, found in rooms.items():
            self._rooms.start(room_id, self._route_room(found))

    async def _route_room(self, events: Sequence[ChatEvent]) -> float:
        """Route the events of one room in order; returns when to look again, 0 when all are routed."""
        pause = 0.0
        for index, event in enumerate(events):
            wait = await self._route(event, events[index + 1 :])
            pause = min(wait, pause or wait) or pause
            # Nothing overtakes a message; a press that waits for its question keeps nobody up.
            if wait and event.kind == "message":
                break
        return pause

    async def _route(self, event: ChatEvent, later: Sequence[ChatEvent]) -> float:
        """Route one event; returns how long to wait with its room, 0 when it is routed."""
        room = await self._ledger(self._ledger.events.room, event.room_id)
        if room is None or (event.state != "new"):
            return 0.0
        routed = RoutedEvent(event, to_incoming(event.body), room)
        try:
            return await self._decide(await self._with_joined(routed), later)
        except (LeaseLost, HostClosed):
            raise  # whoever serves the account next decides about it
        except (Retryable, StoreFailure) as cause:
            logger.warning("chat.event_waits", extra={"event": event.id, "cause": repr(cause)})
            return TRY_AGAIN_SECONDS
        except HoldfastError as problem:
            await self._refuse(routed, Refusal(str(problem), f"I can't take this message: {problem}"))
            return 0.0
        except Exception:
            # One bad message holds up neither its chat nor the account.
            logger.exception("chat.event_failed", extra={"event": event.id})
            await self._refuse(routed, Refusal(FAULT, FAULT_SAID))
            return 0.0

    async def _with_joined(self, routed: RoutedEvent) -> RoutedEvent:
        """The event with what was joined into it; it is meant for the bot if one of them is."""
        if routed.event.kind != "message":
            return routed
        found = await self._ledger(self._ledger.events.joined, routed.event.id)
        joined = [to_incoming(each.body) for each in found]
        is_mention = any(each.is_mention for each in (*joined, routed.incoming))
        return replace(routed, incoming=replace(routed.incoming, is_mention=is_mention), joined=joined)

    async def _decide(self, routed: RoutedEvent, later: Sequence[ChatEvent]) -> float:
        incoming = routed.incoming
        # What came as it was sent is not old, whatever the machine's time says.
        is_live = self._live.has(routed.room, routed.event)
        if not is_live and incoming.sent < (self._clock.now() - self._settings.age_limit_h * HOUR) * SECOND:
            return await self._expire(routed, TOO_OLD, later)
        role = await self._access.admit(incoming, routed.room)
        if isinstance(role, Refusal):
            await self._refuse(routed, role)
            return 0.0
        scope = await scope_of_message(self._host, self._ledger.account, incoming, role)
        routed = replace(routed, room=await self._room_of(routed.room, scope))
        if incoming.kind == "press":
            return await self._presses.answer(routed.event, incoming, role, scope)
        if not incoming.text.strip() and not incoming.files:
            raise InvalidInput("it can't be read: it may be encrypted, or of a kind that I don't know")
        if (command := command_of(incoming.text)) is not None:
            if not is_live:
                return await self._expire(routed, MISSED_COMMAND, later)
            await self._command(ChatCommand(routed.event, routed.room, role, scope, *command), incoming)
            return 0.0
        return await self._message(routed, later, role, scope)

    async def _room_of(self, room: ChatRoom, scope: str) -> ChatRoom:
        """The room, without its conversation when that is another's: a role may have changed."""
        if room.session_id is None:
            return room
        held_for = await self._ledger(self._host.chats.scope_of, room.session_id)
        return room if held_for in (None, scope) else replace(room, session_id=None)

    # messages

    async def _message(
        self, routed: RoutedEvent, later: Sequence[ChatEvent], role: Role, scope: str
    ) -> float:
        # What was joined before a crash stays as it is, so that no part of it is lost.
        if not routed.joined and (wait := await self._join_burst(routed, later)):
            return wait
        event = routed.event
        parts = [*routed.joined, routed.incoming]
        if await self._answers_question(routed, parts, role):
            return 0.0
        if (refusal := await self._over_budget(event.sender, role)) is not None:
            await self._refuse(routed, refusal)
            return 0.0
        session_id = routed.room.session_id
        if session_id is None or await self._was_silent(routed):
            session_id = await self._begin(routed.room)
        text = await self._content(routed, parts, role, scope)
        waits = self._settings.busy == "queue" and await self._is_answering(routed, ())
        try:
            accepted = await self._host.send(
                session_id, text, self._settings.busy, key=event.key, scope=scope
            )
        except SessionEnded:
            session_id = await self._begin(routed.room)
            accepted = await self._host.send(session_id, text, key=event.key, scope=scope)
        await self._settle(routed, "accepted", session_id=session_id)
        if waits and event.message_id:
            self._show_queued(routed.room, event.message_id)
        logger.info("chat.accepted", extra={"event": event.id, "inbox": accepted.inbox_id, "role": role})
        return 0.0

    async def _join_burst(self, routed: RoutedEvent, later: Sequence[ChatEvent]) -> float:
        """Make one message of those that came right after this one; returns how long to wait with it."""
        burst, wait = self._live.burst(routed.room, routed.event, later)
        if wait or len(burst) == 1:
            return wait
        await self._ledger.under_lease(self._ledger.events.join, [each.id for each in burst])
        for each in burst[:-1]:
            self._live.forget(routed.room, each)
        return READ_AGAIN_SECONDS  # the last of them brings the others along

    async def _over_budget(self, sender: str, role: Role) -> Refusal | None:
        """Why a message is one too many for its role, if it is."""
        limits = {"user": self._settings.user_daily_messages, "guest": self._settings.guest_daily_messages}
        most = limits.get(role, 0)
        if not most:
            return None
        said = await self._ledger.of_account(self._ledger.events.accepted_since, sender, DAY)
        return Refusal(OVER_BUDGET, OVER_BUDGET_SAID.format(most)) if said >= most else None

    async def _was_silent(self, routed: RoutedEvent) -> bool:
        """Whether nobody spoke in the room for so long that the settings want a new conversation."""
        if not self._settings.reset_after_h:
            return False
        last = await self._ledger(self._ledger.events.last_accepted, routed.room.id)
        return last is not None and routed.event.sent - last > self._settings.reset_after_h * HOUR * SECOND

    async def _content(
        self, routed: RoutedEvent, parts: Sequence[Incoming], role: Role, scope: str
    ) -> str | Message:
        """What the agent reads: the words with those said before, and the files."""
        text = user_text(parts, await self._context(routed))
        files = [file for each in parts for file in each.files]
        if not files:
            return text
        attached, lines = await self._files.take(routed.event.key, files, role, scope)
        text = "\n".join(part for part in (text, *lines) if part)
        if not attached:
            return text
        said = [{"type": "text", "text": text}] if text else []
        return {"role": "user", "content": [*said, *attached]}

    async def _begin(self, room: ChatRoom) -> str:
        """The conversation that the room goes on in from now on; it begins with its first message."""
        session_id = self._new_id()
        await self._ledger.under_lease(self._ledger.events.assign, room.id, session_id)
        return session_id

    async def _context(self, routed: RoutedEvent) -> list[Incoming]:
        if routed.room.is_direct or not self._settings.group_context:
            return []
        earlier = await self._ledger(
            self._ledger.events.earlier, routed.event, NOT_ADDRESSED, limit=self._settings.group_context
        )
        return [to_incoming(each.body) for each in earlier]

    async def _answers_question(self, routed: RoutedEvent, parts: Sequence[Incoming], role: Role) -> bool:
        """Whether the message answers what the agent asks in this room; then the answer is given."""
        if routed.room.session_id is None:
            return False
        with suppress(HoldfastError):
            asks = await self._host.overview.asks(routed.room.session_id)
            text = "\n\n".join(each.text.strip() for each in parts)
            approves = role != "guest" and parse_approval(text) is not None
            fitting = [each for each in asks if each.kind == "question" or approves]
            if fitting:
                ask = fitting[0]
                await self._host.answer(routed.room.session_id, ask.ask_id, text, key=routed.event.key)
                await self._settle(routed, "done", session_id=routed.room.session_id)
                return True
        return False

    # commands

    async def _command(self, command: ChatCommand, incoming: Incoming) -> None:
        routed = RoutedEvent(command.event, incoming, command.room)
        if command.name == RETRY and (refusal := await self._over_budget(command.event.sender, command.role)):
            await self._refuse(routed, refusal)
            return
        # On record first: whatever happens now, it runs at most once.
        if not await self._settle(routed, "done", note=f"/{command.name}"):
            return
        task = asyncio.create_task(self._run_command(command), name=f"chat command /{command.name}")
        self._slow_commands.add(task)
        task.add_done_callback(self._slow_commands.discard)
        if command.name != "compact":
            await asyncio.wait([task])

    async def _run_command(self, command: ChatCommand) -> None:
        try:
            reply = await self._commands.run(command)
        except Exception:
            logger.exception("chat.command_failed", extra={"command": command.name})
            reply = f"/{command.name} failed; the log has the details."
        if reply:
            await self._say(command.room, f"command:{command.event.key}", reply, command.event.message_id)

    # what goes no further

    async def _refuse(self, routed: RoutedEvent, refusal: Refusal) -> None:
        logger.info("chat.refused", extra={"event": routed.event.id, "cause": refusal.note})
        if refusal.reply:
            key = f"refused:{routed.event.key}"
            await self._say(routed.room, key, refusal.reply, routed.event.message_id)
        self._live.forget(routed.room, routed.event)
        # What is not answered is not kept for ever, so that nobody can fill the store with it.
        keep = self._settings.group_context if refusal.note == NOT_ADDRESSED else KEPT_REFUSED
        await self._ledger.under_lease(self._ledger.events.pass_over, routed.event, refusal.note, keep=keep)

    async def _expire(self, routed: RoutedEvent, note: str, later: Sequence[ChatEvent]) -> float:
        """Say that it was not done, after the answers to earlier messages; returns how long to wait."""
        if await self._is_answering(routed, later):
            self._awaits_turns = True
            return LOOK_SECONDS
        said = routed.incoming.text.strip()[:80]
        if note == TOO_OLD:
            hours = self._settings.age_limit_h
            text = f"I was away and did not answer this message: it is older than {hours:g} hours.\n> {said}"
        else:
            text = f"I was away, so I did not run this command; send it again if it still counts.\n> {said}"
        is_heard = await self._access.is_heard(routed.incoming, routed.room)
        if is_heard and routed.incoming.kind == "message":
            await self._say(routed.room, f"expired:{routed.event.key}", text, routed.event.message_id)
        await self._settle(routed, "expired", note=note)
        return 0.0

    async def _is_answering(self, routed: RoutedEvent, later: Sequence[ChatEvent]) -> bool:
        """Whether earlier messages are being answered; nothing waits once a person speaks or is asked."""
        if routed.room.session_id is None or any(self._live.has(routed.room, each) for each in later):
            return False
        with suppress(HoldfastError):
            now = await self._host.overview.session_status(routed.room.session_id)
            return bool(now.turn_id or now.waiting) and not now.asking
        return False

    async def _say(self, room: ChatRoom, key: str, text: str, reply_to: str) -> None:
        await self._ledger(
            self._ledger.posts.put,
            NewPost(key, room.id, {"text": text}, reply_to=reply_to, session_id=room.session_id),
        )
        self._wake_sender()

    async def _settle(
        self, routed: RoutedEvent, state: str, *, note: str = "", session_id: str | None = None
    ) -> bool:
        self._live.forget(routed.room, routed.event)
        return await self._ledger.under_lease(
            self._ledger.events.settle, routed.event.id, state, note=note, session_id=session_id
        )
