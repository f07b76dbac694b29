"""Receives what people say on Matrix: one `/sync` after the other, each from where the stored one ended.

Asking with the next token is what tells the server that the last answer arrived, so nothing is acknowledged
before it is stored. An answer has only the newest events of a room; what is missing is read with `/messages`.
"""

import asyncio
import json
import logging
from collections import OrderedDict
from collections.abc import AsyncGenerator, Sequence

from holdfast.core.errors import Retryable
from holdfast.gateway.adapters.matrix_api import MatrixApi, path_of, told
from holdfast.gateway.adapters.matrix_encryption import MatrixEncryption
from holdfast.gateway.adapters.matrix_events import (
    FACTS,
    TIMELINE,
    Event,
    RoomFacts,
    events_in,
    incoming,
    is_message,
    localpart,
    membership,
    part,
    relation,
    since_arrival,
    text,
)
from holdfast.gateway.contract import Batch, Incoming, NotTaken, SendRefused, Unreachable

logger = logging.getLogger(__name__)

LONG_POLL_SECONDS = 30.0
ANSWER_SECONDS = 60.0
KEY_SECONDS = 5.0
JOIN_SECONDS = 15.0
JOIN_ATTEMPTS = 5
NEWEST = 20
"""How many events of a room an answer has at most."""
PAGE = 100
MOST_PAGES = 100
MOST_ROOMS = 1_000
"""Of how many rooms members and title are kept; of others they are asked for again."""
MOST_UNSTORED = 50
"""After so many answers without a message, the token is stored all the same."""


class MatrixRooms:
    """Reads events in the light of their room: its members and title, and the message that is answered."""

    def __init__(self, api: MatrixApi, me: str, encryption: MatrixEncryption | None = None) -> None:
        self.names = [me, localpart(me)]
        self.encryption = encryption
        self._api = api
        self._facts: OrderedDict[str, RoomFacts] = OrderedDict()  # those that were used last come last

    async def read(self, room: str, event: Event) -> Incoming | None:
        """An event as a message; None when it is none."""
        event = self._clear(room, event)
        if not is_message(event):
            return None
        facts, related = await self.facts(room), relation(event)
        answered = related.reply_to or related.thread
        return incoming(room, event, facts, self.names, await self._event(room, answered) if answered else {})

    async def facts(self, room: str) -> RoomFacts:
        facts = self._facts.get(room) or await self._ask(room)
        self._facts[room] = facts
        self._facts.move_to_end(room)
        while len(self._facts) > MOST_ROOMS:
            self._facts.popitem(last=False)
        return facts

    def forget(self, room: str) -> None:
        """Ask again: somebody came or left, or the title is new."""
        self._facts.pop(room, None)

    async def _ask(self, room: str) -> RoomFacts:
        try:
            found = await self._api.call(
                "GET", path_of("rooms", room, "members"), params={"not_membership": "leave"}
            )
        except SendRefused:
            return RoomFacts()  # no longer a member
        members = {
            text(each, "state_key"): text(part(each, "content"), "displayname")
            for each in events_in(found, "chunk")
            if text(part(each, "content"), "membership") in ("join", "invite")
        }
        names = {user: name or localpart(user) for user, name in members.items()}
        joined = frozenset(
            text(each, "state_key")
            for each in events_in(found, "chunk")
            if text(part(each, "content"), "membership") == "join"
        )
        title = text(await self._found(room, "state", "m.room.name"), "name")
        # Only a device with keys needs to know.
        secret = await self._found(room, "state", "m.room.encryption") if self.encryption is not None else {}
        return RoomFacts(title, names, joined, bool(secret))

    async def _event(self, room: str, event_id: str) -> Event:
        # None when it was taken back, or is from before the bot came.
        return self._clear(room, await self._found(room, "event", event_id))

    async def _found(self, room: str, *path: str) -> Event:
        try:
            return await self._api.call("GET", path_of("rooms", room, *path))
        except SendRefused:
            return {}

    def waits_for_key(self, room: str, event: Event) -> bool:
        """Whether it can't be read yet: a key may come after the message that is written with it."""
        return self.encryption is not None and text(self._clear(room, event), "type") == "m.room.encrypted"

    def _clear(self, room: str, event: Event) -> Event:
        is_hidden = text(event, "type") == "m.room.encrypted"
        return self.encryption.decrypted(room, event) if is_hidden and self.encryption is not None else event


class MatrixReceiver:
    """The receive loop of one account."""

    def __init__(self, api: MatrixApi, rooms: MatrixRooms, me: str) -> None:
        self._api = api
        self._rooms = rooms
        self._me = me
        self._invitations: dict[str, int] = {}  # how often joining was tried, by room

    async def batches(self, since: str) -> AsyncGenerator[Batch, None]:
        try:
            if since:
                events, since = await self._next(since, 0)
                yield Batch(tuple(events), {"": since})
            else:
                since = await self._begin()
                yield Batch((), {"": since})
            unstored = 0
            while True:
                events, since = await self._next(since, LONG_POLL_SECONDS)
                unstored += 1
                if events or unstored > MOST_UNSTORED:
                    unstored = 0
                    yield Batch(tuple(events), {"": since})
        except (NotTaken, SendRefused) as cause:
            raise Unreachable(str(cause)) from cause

    async def _begin(self) -> str:
        """The present; rooms that wait for the bot are joined first, so that their past is past too."""
        answer = await self._sync("", 0, newest=1)
        if await self._accept(answer):
            answer = await self._sync("", 0, newest=1)
        return told(answer, "next_batch")

    async def _next(self, since: str, seconds: float) -> tuple[list[Incoming], str]:
        answer = await self._sync(since, seconds, newest=NEWEST)
        said = await self._said(answer, since)
        since = told(answer, "next_batch")
        if any(self._rooms.waits_for_key(room, event) for room, event in said):
            answer = await self._sync(since, KEY_SECONDS, newest=NEWEST)
            said += await self._said(answer, since)
            since = told(answer, "next_batch")
        read = [await self._rooms.read(room, event) for room, event in said]
        return [each for each in read if each is not None], since

    async def _said(self, answer: Event, since: str) -> list[tuple[str, Event]]:
        """The messages of others, with their rooms."""
        await self._accept(answer)
        said = []
        for room, update in part(part(answer, "rooms"), "join").items():
            for event in await self._timeline(room, part(update, "timeline"), since):
                if text(event, "sender") == self._me:
                    continue
                if is_message(event):
                    said.append((room, event))
                elif replaced := relation(event).replaces:
                    logger.info("matrix.left_out", extra={"room": room, "cause": f"an edit of {replaced}"})
        return said

    async def _sync(self, since: str, seconds: float, *, newest: int) -> Event:
        nothing = {"not_types": ["*"]}
        wanted = {
            "presence": nothing,
            "account_data": nothing,
            "room": {
                "account_data": nothing,
                "ephemeral": nothing,
                "state": nothing,
                "timeline": {"limit": newest, "types": TIMELINE},
            },
        }
        params = {"timeout": str(int(seconds * 1000)), "filter": json.dumps(wanted)}
        if since:
            params["since"] = since
        answer = await self._api.call("GET", path_of("sync"), params=params, seconds=seconds + ANSWER_SECONDS)
        if self._rooms.encryption is not None:
            await self._rooms.encryption.update(answer)
        return answer

    async def _timeline(self, room: str, timeline: Event, since: str) -> Sequence[Event]:
        events = events_in(timeline, "events")
        if timeline.get("limited"):
            arrived = any(membership(each, self._me) == "join" for each in events)
            missed = await self._missed(room, text(timeline, "prev_batch"), "" if arrived else since)
            events = [*missed, *events]
        if any(text(each, "type") in FACTS for each in events):
            self._rooms.forget(room)
        return since_arrival(events, self._me)

    async def _missed(self, room: str, newest: str, oldest: str) -> list[Event]:
        """The events between two tokens, oldest first; without `oldest`, those since the bot was invited."""
        missed: list[Event] = []
        params = {"dir": "b", "limit": str(PAGE), "filter": json.dumps({"types": TIMELINE}), "from": newest}
        for _ in range(MOST_PAGES):
            asked = {**params, "to": oldest} if oldest else params
            page = await self._api.call("GET", path_of("rooms", room, "messages"), params=asked)
            events = events_in(page, "chunk")
            missed.extend(events)
            steps = {membership(each, self._me) for each in events}
            if "join" in steps:
                oldest = ""  # the bot came in between, and was perhaps invited before
            end = text(page, "end")
            if not end or not events or (not oldest and "invite" in steps):
                return missed[::-1]
            params["from"] = end
        logger.warning("matrix.gap_cut_off", extra={"room": room, "events": len(missed)})
        return missed[::-1]

    async def _accept(self, answer: Event) -> bool:
        """Join the rooms that the bot is invited to: who may talk with it is decided for each message."""
        for room in part(part(answer, "rooms"), "invite"):
            self._invitations[room] = 0
        return any(await asyncio.gather(*(self._join(room) for room in list(self._invitations))))

    async def _join(self, room: str) -> bool:
        self._invitations[room] += 1
        is_last = self._invitations[room] >= JOIN_ATTEMPTS
        try:
            await self._api.call("POST", path_of("join", room), {}, seconds=JOIN_SECONDS)
        except (SendRefused, Retryable) as cause:
            if is_last or isinstance(cause, SendRefused):
                logger.warning("matrix.invitation_failed", extra={"room": room, "cause": repr(cause)})
                del self._invitations[room]
            return False
        del self._invitations[room]
        logger.info("matrix.joined", extra={"room": room})
        return True
