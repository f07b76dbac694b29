"""What an agent is made of and what a turn gives back. Read this first, then `turn.py`, the heart.

`agent.py` is the public face; `transcript.py` keeps the conversation valid for every model API (what is
wrong with a single message, `message_repair.py` repairs), `batch.py` runs tools, `compaction.py` moves a
conversation that grew too long to a child session.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, Protocol, TypedDict

from holdfast.agent.result_form import ResultForm
from holdfast.agent.scope_policy import AgentScope
from holdfast.agent.system_text_loader import SystemTextLoader
from holdfast.agent.tool_profile import ToolProfiles
from holdfast.core.clock import SystemClock
from holdfast.core.contract import Clock, Message
from holdfast.core.errors import InvalidInput
from holdfast.core.events import Event
from holdfast.core.own_files import OwnFiles
from holdfast.models.contract import Usage
from holdfast.process import DaemonPool
from holdfast.tools.contract import NOBODY_THERE, ApprovalRequest, Person, Tool, ToolContext, ToolResult
from holdfast.tools.own_policy import Approve, checked_policy, is_async


class EventIds(TypedDict):
    """The ids that every event of a turn carries."""

    session_id: str
    turn_id: str


@dataclass(frozen=True, slots=True)
class Limits:
    """Where a turn ends with an explanation instead of going on."""

    max_steps: int = 50
    max_seconds: float = 1800.0
    max_cost: float | None = None
    """Dollars; needs a model with known prices."""


STORE_THREADS, TOOL_THREADS = 16, 32


class Pools:
    """The daemon threads of a process's agents: a wedged tool must not hold up the store."""

    def __init__(self, store_threads: int = STORE_THREADS, tool_threads: int = TOOL_THREADS) -> None:
        """`store_threads` wait for the store, `tool_threads` run plain functions as tools, at once."""
        for name, count in (("store_threads", store_threads), ("tool_threads", tool_threads)):
            if count < 1:
                raise InvalidInput(f"{name} is a number from 1 on, not {count}")
        self.store = DaemonPool("store", workers=store_threads, backlog=10_000)
        self.work = DaemonPool("work", workers=tool_threads, backlog=1_000)
        self.system_texts = SystemTextLoader(self.work)

    def close(self, timeout: float) -> list[str]:
        """Take no more work; returns what is still running."""
        return [*self.work.close(timeout), *self.store.close(timeout)]


PersonFor = Callable[[str, str, str, Callable[[Event], None]], Person]
"""The person as one call meets them: session, turn, call, and where to show a question."""


class Nobody:
    """Stands in where no person can be asked: nothing is approved, no question is answered."""

    refusal = NOBODY_THERE

    async def approve(self, request: ApprovalRequest) -> bool:  # noqa: ARG002
        return False

    async def answer(self, question: str, choices: Sequence[str] = ()) -> str | None:  # noqa: ARG002
        return None


def nobody(session_id: str, turn_id: str, call_id: str, emit: Callable[[Event], None]) -> Person:  # noqa: ARG001
    return Nobody()


RESULT_CHARACTERS = 50_000


def both_ends(text: str, most: int = RESULT_CHARACTERS) -> str:
    """A result that fits a prompt: the beginning and the end of a long one."""
    if len(text) <= most:
        return text
    half = most // 2
    left_out = len(text) - 2 * half
    return f"{text[:half]}\n[{left_out} characters are left out here]\n{text[-half:]}"


BeforeTool = Callable[[str, dict[str, Any], ToolContext], Awaitable[ToolResult | str | None]]
"""Called with a tool's name, its arguments and the call's context; a result stands in for the call."""
AfterTool = Callable[[str, ToolResult, ToolContext], Awaitable[ToolResult | str | None]]
"""Called with a tool's name, its result and the call's context; a result replaces the tool's."""


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """How an agent behaves. Everything has a default that suits a person's assistant."""

    workspace: Path = field(default_factory=Path)
    own_files: OwnFiles = field(default_factory=OwnFiles)
    """The program's own files, which no tool touches unasked."""
    trusted_workspace: bool = True
    """False: every file is asked about, also in the workspace."""
    instructions: str = ""
    """Added to the built-in instructions."""
    system_prompt: str = ""
    """Takes the place of the built-in instructions and of the workspace's AGENTS.md."""
    approve: Approve | None = None
    """Decides what needs approval, before a person is asked: True, False, or None to ask the person."""
    before_tool: BeforeTool | None = None
    after_tool: AfterTool | None = None
    result_type: object = None
    """The form of every answer, a pydantic model or a JSON schema; None: any text."""
    source: str = "library"
    """Recorded with a session that the agent begins."""
    limits: Limits = Limits()
    compact_at: float = 0.8
    """The share of the model's window at which the conversation is compacted."""
    recall_seconds: float = 2.0
    recall_tokens: int = 0
    """How much a turn takes of what is remembered; 0: an eighth of the model's window, 8000 at most."""
    store_seconds: float = 300.0
    """How long a turn waits for a store that can't be written, before it fails."""
    ephemeral: bool = False
    """Turns that memory never hears of: a subagent's, a review's."""
    skills: str = ""
    """The skills on offer, as text for the system prompt."""
    tool_profiles: ToolProfiles = field(default_factory=ToolProfiles)
    """Which tools the model is told of; all of them, unless another profile is chosen."""
    live_tools: Callable[[], Sequence[Tool]] = tuple
    """More tools, which may be others in each turn: those of MCP servers."""
    person_for: PersonFor = nobody
    scope: AgentScope = field(default_factory=AgentScope)
    """For whom it works. A session of another scope is refused (`WrongScope`)."""
    caller_turn: str = ""
    """Of a subagent: the turn of the conversation that it works for."""
    pools: Pools | None = None
    """Threads shared with other agents; an agent given none has its own."""
    clock: Clock = field(default_factory=SystemClock)

    def __post_init__(self) -> None:
        if self.approve is not None:
            checked_policy(self.approve)
        if self.result_type is not None:
            ResultForm(self.result_type)
        for name, hook in (("before_tool", self.before_tool), ("after_tool", self.after_tool)):
            if hook is not None and not is_async(hook):
                raise InvalidInput(f"{name} is a function written with `async def`, not {hook!r:.80}")


@dataclass(frozen=True, slots=True)
class TurnResult:
    """How a turn ended."""

    turn_id: str
    session_id: str
    state: str
    final_response: str
    messages: list[Message]
    """The conversation as the model saw it, this turn included."""
    steps: int
    usage: Usage
    cost: Decimal | None
    """Dollars; None when the price is not known."""
    waiting: int
    """Messages that arrived meanwhile and become the next turns."""
    output: Any = None
    """The answer as the `result_type` that was asked for: an instance of the pydantic model, or a dict."""

    @property
    def interrupted(self) -> bool:
        return self.state == "interrupted"


class Compressor(Protocol):
    """Shrinks a conversation; `compress` may be plain (it then runs off the loop) or async.

    It is called with the messages and, as far as its signature takes them, `focus` (what a person asked
    the summary to keep), `notes` (what memory providers want kept) and `budget` (tokens it should fit).
    """

    @property
    def compress(self) -> Callable[..., Any]: ...
