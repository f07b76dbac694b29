"""What a tool is: its schema, how it is run, and what it can ask of the turn that runs it.

Read this first, then `decorator.py` (`@tool`: a typed function becomes a `Tool`) and `approval.py`
(what a person must allow). The agent runs tools in batches (`agent/batch.py`); a tool knows nothing of
other calls. Whatever a tool raises becomes a failed result that the model reads.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from holdfast.core.events import Event, ToolOutput

TOOL_SECONDS = 120.0
"""How long a call may take unless its tool says otherwise."""


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What the model reads as the call's outcome."""

    text: str
    ok: bool = True


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """Something a person must allow before it happens."""

    subject: str
    """What would be done, whole: the command line, or the path that would be written."""
    kind: str
    """What allow lists name: `command`, `read`, `write`, `fetch`, or the tool's own name."""
    reason: str = ""
    """Why it is asked, when that is not plain: "deletes files", "outside the workspace"."""
    destructive: bool = False
    """Asked even when an allow list covers it."""


class Person(Protocol):
    """The person at the other end of the turn, on whichever surface. Unanswered in time means no."""

    async def approve(self, request: ApprovalRequest) -> bool:
        """Whether it may be done, by the policy or by the person's own word."""
        ...

    async def answer(self, question: str, choices: Sequence[str] = ()) -> str | None:
        """The answer to the agent's own question; None when none came in time."""
        ...


@dataclass(frozen=True, slots=True)
class ToolContext:
    """One call's surroundings, made by the turn that runs it."""

    session_id: str
    turn_id: str
    call_id: str
    workspace: Path
    person: Person
    emit: Callable[[Event], None]
    """Shows an event in the turn's stream; from the loop's thread only."""
    off_loop: Callable[..., Awaitable[Any]]
    """`await off_loop(fn, *args)` runs blocking code on the daemon pool of tools."""

    def say(self, text: str) -> None:
        """Show a piece of live output."""
        self.emit(
            ToolOutput(session_id=self.session_id, turn_id=self.turn_id, call_id=self.call_id, text=text)
        )


@dataclass(frozen=True, slots=True)
class Tool:
    """Something the agent can do.

    `run` gets arguments that fit `parameters`. It is cancelled on interrupt and on timeout, and must then
    leave nothing running behind.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    run: Callable[[ToolContext, dict[str, Any]], Awaitable[ToolResult]]
    timeout: float | None = TOOL_SECONDS
    """Seconds; None when the tool has limits of its own (a question, a delegation)."""
    changes: bool = True
    """Whether it may change the world: after a crash such a call is never run again unasked."""
    check: Callable[[dict[str, Any]], dict[str, Any]] = dict
    """Turns the model's arguments into `run`'s; raises `ToolArgumentsInvalid`."""
