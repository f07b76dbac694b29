"""`LiveEvents`: which events came while the gateway listened, and which of them belong together.

How long ago an event came is counted by the clock that only goes on: the machine's time may be set anew, and
a database on another machine has a time of its own.
"""

from collections.abc import Iterable, Sequence

from holdfast.core.contract import Clock
from holdfast.gateway.chat_commands import command_of
from holdfast.gateway.contract import Incoming
from holdfast.gateway.event_codec import to_incoming
from holdfast.sessions.chat_events import ChatEvent, ChatRoom
from holdfast.sessions.contract import SECOND

MOST_IN_BURST = 20
"""Who never stops to write is answered all the same."""


class LiveEvents:
    """The events of one account that this process received as they happened and has not settled yet."""

    def __init__(self, clock: Clock, debounce_s: float) -> None:
        self._clock = clock
        self._debounce_s = debounce_s
        self._came: dict[tuple[str, str], float] = {}
        """By chat and event, when it came; the same event again changes nothing."""

    def came(self, events: Iterable[Incoming]) -> None:
        now = self._clock.monotonic()
        for each in events:
            self._came.setdefault((each.place.chat, each.id), now)

    def forget(self, room: ChatRoom, event: ChatEvent) -> None:
        self._came.pop((room.chat, event.event_id), None)

    def has(self, room: ChatRoom, event: ChatEvent) -> bool:
        return (room.chat, event.event_id) in self._came

    def burst(
        self, room: ChatRoom, event: ChatEvent, later: Sequence[ChatEvent]
    ) -> tuple[list[ChatEvent], float]:
        """The messages that the same person sent right after this one; and how long more may come."""
        burst = [event]
        for each in later:
            if len(burst) == MOST_IN_BURST:
                return burst, 0.0
            said = to_incoming(each.body)
            if not self._belongs(room, burst[-1], each) or command_of(said.text) is not None:
                return burst, 0.0
            burst.append(each)
        came = self._came.get((room.chat, burst[-1].event_id))
        quiet = self._debounce_s if came is None else self._clock.monotonic() - came
        return burst, max(0.0, self._debounce_s - quiet)

    def _belongs(self, room: ChatRoom, before: ChatEvent, event: ChatEvent) -> bool:
        """Whether a message goes on with the one before it: the same person, right after it."""
        if event.kind != "message" or event.sender != before.sender:
            return False
        most = self._debounce_s * SECOND
        apart = event.sent - before.sent
        came, came_before = (self._came.get((room.chat, each.event_id)) for each in (event, before))
        if came is None or came_before is None:
            return apart < most
        # Some platforms say only the second in which a message was sent. After a broken connection messages
        # arrive together that were sent apart.
        return came - came_before < self._debounce_s and apart < most + SECOND
