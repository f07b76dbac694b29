"""The contract of tools: `Tool`, the context of a call, its result, and requests for a person's approval.

Read this first, then `decorator.py` (`@tool` makes a `Tool` from a typed function) and `approval.py` (the
policy). The agent runs tools in batches (`agent/batch.py`); a tool knows nothing about other calls. An
exception of a tool becomes a failed result, which the model reads.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from holdfast.core.events import Event, ToolOutput
from holdfast.core.own_files import OwnFiles
from holdfast.sessions.contract import OWNER

TOOL_SECONDS = 120.0
"""The time limit of a call, unless its tool sets another one."""
NOT_ALLOWED = "the person did not allow it"
NOBODY_THERE = "nobody is there to allow it"


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of a call, as the model reads it."""

    text: str
    ok: bool = True
    pictures: tuple[str, ...] = ()
    """Pictures that the model sees with the text, as data URLs that were checked."""


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """Something a person must allow before it happens."""

    subject: str
    """The whole command line, or the path, or the address."""
    kind: str
    """The kind in an allow rule: `command`, `read`, `write`, `fetch`, the tool, or `server__tool` for MCP."""
    reason: str = ""
    """Why approval is needed, when it is not obvious: "deletes files", "outside the workspace"."""
    destructive: bool = False
    """It can't be undone. No allow rule covers it."""
    near_own_files: bool = False
    """It may reach Holdfast's own files. No allow rule covers it."""
    own_files: bool = False
    """It reads or writes Holdfast's own files. It needs approval under every policy."""
    arguments: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """Those of the call, for a tool that was made with `needs_approval`; they were checked."""

    @property
    def each_time(self) -> bool:
        """Whether a person is asked each time, so that "always" would have no effect."""
        return self.destructive or self.near_own_files or self.own_files

    @property
    def decisions(self) -> tuple[str, ...]:
        """The possible answers."""
        return ("yes", "no") if self.each_time else ("yes", "always", "no")


class Person(Protocol):
    """The person who uses the agent, on any surface. No answer in time means no."""

    async def approve(self, request: ApprovalRequest) -> bool:
        """Whether the policy or the person allows the request."""
        ...

    async def answer(self, question: str, choices: Sequence[str] = ()) -> str | None:
        """The person's answer to a question of the agent; None when there is none in time."""
        ...


def refusal(person: Person) -> str:
    """Why the last request was refused, as part of a sentence for the model."""
    return getattr(person, "refusal", "") or NOT_ALLOWED


def person_refused(person: Person) -> bool:
    """Whether a person refused the last request, and not a setting or the lack of a person."""
    return refusal(person) == NOT_ALLOWED


OffLoop = Callable[..., Awaitable[Any]]
"""`await off_loop(fn, *args)` runs blocking code on the daemon pool of tools."""


@dataclass(frozen=True, slots=True)
class ToolContext:
    """The context of one call. The turn creates it."""

    session_id: str
    turn_id: str
    call_id: str
    workspace: Path
    person: Person
    emit: Callable[[Event], None]
    """Emits an event of the turn. Call it only on the event loop's thread."""
    off_loop: OffLoop
    own_files: OwnFiles = field(default_factory=OwnFiles)
    trusted_workspace: bool = True
    """If False, every file needs approval, even in the workspace."""
    scope: str = OWNER
    """For whom the agent works; nothing of another scope may be seen."""
    caller_turn: str = ""
    """For a subagent: the turn of the conversation that it works for."""

    @property
    def outer_turn(self) -> str:
        """The turn that a person's message began: this one, or that of the subagent's caller."""
        return self.caller_turn or self.turn_id

    def say(self, text: str) -> None:
        """Show a piece of live output to the person."""
        self.emit(
            ToolOutput(session_id=self.session_id, turn_id=self.turn_id, call_id=self.call_id, text=text)
        )


@dataclass(frozen=True, slots=True)
class Tool:
    """Something that the agent can do.

    `run` gets arguments that fit `parameters`. It is cancelled on an interrupt and on a timeout, and must
    then leave nothing running.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    run: Callable[[ToolContext, dict[str, Any]], Awaitable[ToolResult]]
    timeout: float | None = TOOL_SECONDS
    """Seconds; None when the tool has its own limits (a question, a delegation)."""
    changes: bool = True
    """Whether it may have effects. After a crash such a call is never repeated without approval."""
    check: Callable[[dict[str, Any]], dict[str, Any]] = dict
    """Checks the model's arguments and returns those for `run`; raises `ToolArgumentsInvalid`."""
