"""`TurnTimeline`: what one turn did and when, made from its events and stored with its end.

Times are microseconds since the turn was opened, so that they fit the store's clock, whichever it is.
"""

import json
from dataclasses import asdict, dataclass
from typing import Any

from holdfast.core.contract import Clock
from holdfast.core.events import (
    ApprovalAsked,
    AskClosed,
    CompactionFinished,
    CompactionStarted,
    Event,
    MessageJoined,
    ModelRetrying,
    QuestionAsked,
    Recalled,
    RecalledFrom,
    StepFinished,
    ToolFinished,
    ToolStarted,
    TurnStarted,
)

SECOND = 1_000_000
RECALLED_CHARACTERS = 20_000
"""How much of each provider's recall is kept for people to read."""


@dataclass(frozen=True, slots=True)
class Span:
    """Something that took time: `recall`, `model`, `tool`, `waiting` (for a person) or `compaction`."""

    kind: str
    name: str
    start: int
    end: int
    ok: bool


class TurnTimeline:
    """The spans of one turn. `note` is given every event of it but the pieces of text."""

    def __init__(self, clock: Clock, model: str) -> None:
        self._clock = clock
        self._model = model
        self._opened = clock.monotonic()
        self._first = 0
        self._spans: list[Span] = []
        self._calls: dict[str, tuple[str, int]] = {}
        self._asked: dict[str, tuple[str, int]] = {}
        self._since = 0  # when the model was last given the word
        self._compacting: int | None = None
        self._tokens = [0, 0, 0]
        self.recalled: tuple[RecalledFrom, ...] = ()

    def resume(self, after: float) -> None:
        """The turn was opened so many seconds ago, in a process that died."""
        self._opened -= max(0.0, after)
        self._first = self._since = self._now()

    def note(self, event: Event) -> None:
        """Take in what happens now."""
        now = self._now()
        match event:
            case TurnStarted():
                self._opened = self._clock.monotonic()
                now = 0
            case Recalled():
                self.recalled = event.providers
                self._add("recall", "", max(0, now - int(event.seconds * SECOND)), now)
            case StepFinished():
                self._add("model", self._model, self._since, now)
                used = (event.input_tokens, event.output_tokens, event.cached_tokens)
                self._tokens = [sum(pair) for pair in zip(self._tokens, used, strict=True)]
            case ModelRetrying():
                self._add("model", self._model, self._since, now, ok=False)
                now += int(event.delay * SECOND)
            case ToolStarted():
                self._calls[event.call_id] = (event.name, now)
            case ToolFinished():
                name, start = self._calls.pop(event.call_id, (event.name, now))
                self._add("tool", name, start, now, ok=event.ok)
            case CompactionStarted():
                self._compacting = now
            case CompactionFinished():
                start, self._compacting = self._compacting or 0, None
                self._add(
                    "compaction", event.outcome, start, now, ok=event.tokens_after < event.tokens_before
                )
            case MessageJoined():
                pass
            case _:
                self._note_waiting(event, now)
                return
        self._since = now

    def _note_waiting(self, event: Event, now: int) -> None:
        """Waiting for a person is a span of its own, and the tool's begins later by as much."""
        if isinstance(event, (ApprovalAsked, QuestionAsked)):
            self._asked[event.ask_id] = (event.call_id, now)
        if not isinstance(event, AskClosed):
            return
        call_id, since = self._asked.pop(event.ask_id, ("", now))
        if call_id in self._calls:
            name, start = self._calls[call_id]
            self._add("waiting", name, since, now)
            self._calls[call_id] = (name, start + now - since)

    def to_json(self, *, completed: bool) -> str:
        """All of it. Of a turn that is cut off, the last span had not ended."""
        return json.dumps(self.so_far(completed=completed), separators=(",", ":"))

    def so_far(self, *, completed: bool = False) -> dict[str, Any]:
        now = self._now()
        cut_off = [] if completed else self._unended(now)
        return {
            "from": self._first,
            "model": self._model,
            "spans": [[s.kind, s.name, s.start, s.end, s.ok] for s in (*self._spans, *cut_off)],
            "recalled": [asdict(each) | {"text": _shortened(each.text)} for each in self.recalled],
            "tokens": self._tokens,
        }

    def _unended(self, now: int) -> list[Span]:
        if self._calls:
            return [Span("tool", name, start, now, ok=False) for name, start in self._calls.values()]
        if self._compacting is not None:
            return [Span("compaction", "", self._compacting, now, ok=False)]
        return [Span("model", self._model, self._since, now, ok=False)] if now > self._since else []

    def _add(self, kind: str, name: str, start: int, end: int, *, ok: bool = True) -> None:
        self._spans.append(Span(kind, name, min(start, end), end, ok))

    def _now(self) -> int:
        return int((self._clock.monotonic() - self._opened) * SECOND)


def _shortened(text: str) -> str:
    if len(text) <= RECALLED_CHARACTERS:
        return text
    return text[:RECALLED_CHARACTERS] + f"\n[{len(text) - RECALLED_CHARACTERS} more characters are not kept]"
