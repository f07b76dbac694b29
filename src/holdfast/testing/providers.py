"""`RecordingProvider`: a memory provider for tests that records every call."""

import threading
from collections.abc import Callable, Sequence
from typing import Any

from holdfast.core.contract import Message
from holdfast.memory.contract import CompletedTurn, MemoryProvider


class RecordingProvider(MemoryProvider):
    """Remembers every call. `before` runs first in each delivery and may block, raise or die."""

    def __init__(self, name: str = "recording") -> None:
        self._name = name
        self.lock = threading.Lock()
        self.calls: list[tuple[str, Any]] = []
        self.turns: list[CompletedTurn] = []
        self.by_key: dict[str, CompletedTurn] = {}
        self.answers: dict[str, str] = {}
        self.before: Callable[[Sequence[CompletedTurn]], None] = lambda _: None
        self.before_recall: Callable[[str], None] = lambda _: None
        self.noted: Callable[[str], None] = lambda _: None

    @property
    def name(self) -> str:
        return self._name

    def is_available(self) -> bool:
        return True

    def initialize(self, session_id: str, **kwargs: object) -> None:
        self.note("initialize", (session_id, kwargs))

    def get_tool_schemas(self) -> list[dict[str, Any]]:
        return []

    def prefetch(self, query: str, *, session_id: str = "") -> str:
        self.before_recall(query)
        self.note("prefetch", (query, session_id))
        return self.answers.get(query, "")

    def sync_turns(self, turns: Sequence[CompletedTurn]) -> None:
        self.before(turns)
        with self.lock:
            self.turns += turns
            self.by_key.update({turn.key: turn for turn in turns})

    def on_session_end(self, messages: list[Message]) -> None:
        self.note("on_session_end", list(messages))

    def on_session_switch(self, new_session_id: str, **kwargs: object) -> None:
        self.note("on_session_switch", (new_session_id, kwargs))

    def on_delegation(self, task: str, result: str, **kwargs: object) -> None:
        self.note("on_delegation", (task, result, kwargs))

    def shutdown(self) -> None:
        self.note("shutdown", None)

    def note(self, call: str, what: object) -> None:
        with self.lock:
            self.calls.append((call, what))
        self.noted(call)

    def said(self, session_id: str | None = None) -> list[str]:
        """What users said in the turns delivered, in the order of delivery."""
        with self.lock:
            return [
                turn.user_content
                for turn in self.turns
                if session_id is None or turn.session_id == session_id
            ]


class OneByOneProvider(RecordingProvider):
    """The same without batches, and with the short signature of older plugins."""

    sync_turns = None  # type: ignore[assignment]

    def sync_turn(  # type: ignore[override]
        self, user_content: str, assistant_content: str, *, session_id: str = ""
    ) -> None:
        turn = CompletedTurn("", session_id, "", user_content, assistant_content, [], 0.0)
        self.before([turn])
        with self.lock:
            self.turns.append(turn)
