"""The contract of all packages: the shape of a message, and the clock.

A message is a plain dictionary in the shape of OpenAI's chat API, because models, memory providers and stored
transcripts all use that shape. Events are in `events.py`, state machines in `states.py`.
"""

import threading
from typing import Any, Literal, NotRequired, Protocol, TypedDict


class FunctionCall(TypedDict):
    """The function that a model wants to call; `arguments` is JSON text exactly as the model wrote it."""

    name: str
    arguments: str


class ToolCall(TypedDict):
    """One call in an assistant message. A later `tool` message with the same id has the result."""

    id: str
    type: Literal["function"]
    function: FunctionCall


class Message(TypedDict):
    """One entry of a transcript. The store keeps other keys unchanged."""

    role: str
    content: NotRequired[str | list[dict[str, Any]] | None]
    name: NotRequired[str]
    tool_calls: NotRequired[list[ToolCall]]
    tool_call_id: NotRequired[str]


class Clock(Protocol):
    """The only source of time. Real in production, advanced by hand in tests."""

    def now(self) -> float:
        """Wall time in seconds since the epoch."""
        ...

    def monotonic(self) -> float:
        """Seconds on a clock that never goes back; only differences mean anything."""
        ...

    def wait(self, stop: threading.Event, timeout: float) -> bool:
        """Wait until `stop` is set or `timeout` seconds have passed; True when it was set."""
        ...
