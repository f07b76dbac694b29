"""`EventStream`: a conversation's events, numbered, with a bounded memory for readers that come late.

Readers take from one buffer at their own pace, so a slow one never slows a turn. A reader that asks for
more than the buffer holds gets a snapshot of where the session stands, then goes on live.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import contextmanager
from itertools import islice

from holdfast.core.clock import SystemClock
from holdfast.core.contract import Clock
from holdfast.core.events import (
    TURN_ENDS,
    Event,
    MessageJoined,
    ModelRetrying,
    ReasoningDelta,
    SessionRotated,
    SessionSnapshot,
    SessionTrouble,
    TextDelta,
    ToolFinished,
    ToolStarted,
    TurnEvent,
    TurnResumed,
    TurnStarted,
)
from holdfast.host.contract import Numbered


class EventStream:
    """The events of one conversation. Publish and read on the host's loop."""

    def __init__(
        self,
        session_id: str,
        size: int,
        *,
        first: int = 0,
        clock: Clock | None = None,
        on_event: Callable[[Event], None] | None = None,
    ) -> None:
        """`on_event` is called with each event that is published, and must not wait."""
        self._clock = clock or SystemClock()
        self._on_event = on_event
        self.session_id = session_id
        self.number = first
        self._first = first
        self.waiting = 0
        self.trouble = ""
        """The last trouble that kept the conversation from going on; empty once it goes on."""
        self.readers = 0
        self._kept: deque[Numbered] = deque(maxlen=size)
        self._changed: asyncio.Event | None = None  # there while a reader waits
        self._closed = False
        self._turn_id = ""
        self._said = ""
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._tools: dict[str, str] = {}

    def publish(self, event: Event) -> None:
        """Number the event and show it to every reader."""
        self.number += 1
        self.session_id = event.child_id if isinstance(event, SessionRotated) else event.session_id
        if isinstance(event, TurnEvent):
            self.trouble = ""
        elif isinstance(event, SessionTrouble):
            self.trouble = event.error
        self._fold(event)
        self._kept.append(self._numbered(event))
        self._wake()
        if self._on_event is not None:
            self._on_event(event)

    def restart(self) -> None:
        """Something happened that was not shown here: readers begin with a snapshot, whatever they know."""
        self.number += 1
        self._kept.clear()
        self._forget_turn()

    def close(self) -> None:
        """Nothing more will come; readers end once they have read what is there."""
        self._closed = True
        self._wake()

    def snapshot(self) -> SessionSnapshot:
        """Where the session stands now."""
        return SessionSnapshot(
            session_id=self.session_id,
            number=self.number,
            turn_id=self._turn_id,
            user_text=self._said,
            text="".join(self._text),
            reasoning="".join(self._reasoning),
            tools=tuple(self._tools.values()),
            waiting=self.waiting,
        )

    async def read(self, after: int | None = None) -> AsyncGenerator[Numbered, None]:
        """Everything after a number, then what comes; 0 is the stream's beginning.

        With None, a number too old or one of another stream, a snapshot first.
        """
        with self.reader():
            while batch := await self.next_batch(after):
                after = batch[-1].number
                for numbered in batch:
                    yield numbered

    async def next_batch(self, after: int | None) -> list[Numbered]:
        """The same, all that is there at once, when there is anything; empty when nothing more comes."""
        place = self._first if after == 0 else after
        while True:
            if place is None or not self._reaches_back_to(place):
                return [self._numbered(self.snapshot())]
            if place < self.number:
                return self._after(place)
            if self._closed:
                return []
            self._changed = self._changed or asyncio.Event()
            await self._changed.wait()

    @contextmanager
    def reader(self) -> Iterator[None]:
        """Somebody reads here while the body runs."""
        self.readers += 1
        try:
            yield
        finally:
            self.readers -= 1

    def _numbered(self, event: Event) -> Numbered:
        return Numbered(self.number, event, int(self._clock.now() * 1000))

    def _reaches_back_to(self, place: int) -> bool:
        """Whether all that came after this number is still here; a number from before `first` never is."""
        oldest = self._kept[0].number if self._kept else self.number + 1
        return oldest - 1 <= place <= self.number

    def _after(self, place: int) -> list[Numbered]:
        missing = self.number - place
        return [*islice(reversed(self._kept), missing)][::-1]

    def _wake(self) -> None:
        if self._changed is not None:
            self._changed.set()
            self._changed = None

    def _fold(self, event: Event) -> None:
        match event:
            case TextDelta():
                self._text.append(event.text)
            case TurnStarted() | TurnResumed():
                self._forget_turn()
                self._turn_id, self._said = event.turn_id, event.text
            case ReasoningDelta():
                self._reasoning.append(event.text)
            case ToolStarted():
                # The answer that called it is stored by now.
                self._text.clear()
                self._reasoning.clear()
                self._tools[event.call_id] = event.name
            case ToolFinished():
                self._tools.pop(event.call_id, None)
            case ModelRetrying() | MessageJoined():
                self._text.clear()
                self._reasoning.clear()
            case _ if isinstance(event, TURN_ENDS):
                self._forget_turn()

    def _forget_turn(self) -> None:
        self._turn_id = self._said = ""
        self._text.clear()
        self._reasoning.clear()
        self._tools.clear()
