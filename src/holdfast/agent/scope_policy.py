"""`AgentScope`: for whom an agent works, and what it may do for them. See docs/decisions/0031.

A scope is a name that a conversation keeps for life: "" for the owner of this installation, any other for a
person or a room. Sessions, memory, workspace and kept outputs of one scope are never seen in another.
"""

from collections.abc import Callable
from dataclasses import dataclass

from holdfast.core.errors import InvalidInput
from holdfast.sessions.contract import OWNER
from holdfast.tools.approval import ApprovalMode

DAY_SECONDS = 86_400.0


@dataclass(frozen=True, slots=True)
class ScopePolicy:
    """What an agent may do for one scope. A tool that it may not use is not shown to the model at all."""

    tools: frozenset[str] | None = None
    """The names of the tools that it has, those of memory included. None: all.

    For anybody but the owner, "all" leaves out tools that reach what is the owner's: skills, and tools of MCP
    servers. These must be named.
    """
    approval: ApprovalMode | None = None
    """How approvals are decided; None: as the settings say for the owner, and `ask` for anybody else.

    Nobody but the owner can approve what leads out of the workspace: that is refused in any case.
    """
    daily_tokens: int | None = None
    """How many tokens, input and output together, the turns of 24 hours may use; None: no limit."""
    daily_turns: int | None = None
    """How many turns may begin within 24 hours; None: no limit."""
    refusal: str = ""
    """Why nothing new may run for this scope, in words; empty: it may."""
    remembers: bool = True
    """Whether completed turns are given to memory. What is remembered is recalled in either case."""

    def __post_init__(self) -> None:
        for name, limit in (("daily_tokens", self.daily_tokens), ("daily_turns", self.daily_turns)):
            if limit is not None and limit < 0:
                raise InvalidInput(f"{name} is a number from 0 on, not {limit}")

    def allows(self, tool: str) -> bool:
        """Whether a tool of this name may be offered."""
        return self.tools is None or tool in self.tools


EVERYTHING = ScopePolicy()
GUEST = ScopePolicy(
    tools=frozenset({"ask_user", "todo", "search_sessions", "read_session", "read_output", "memory_search"}),
    approval="always-refuse",
    remembers=False,
)
"""No commands, no files, no fetching, and nothing is written to memory."""

PolicyFor = Callable[[str], ScopePolicy]


@dataclass(frozen=True, slots=True)
class AgentScope:
    """For whom an agent works: the name of the scope, what it may do there, and what was chosen for it."""

    name: str = OWNER
    policy: ScopePolicy = EVERYTHING
    model: str = ""
    """The model that was chosen for this conversation; empty: the usual one."""
    workspace: str = ""
    """The folder that was chosen for this conversation; empty: the usual one."""
    in_chat: bool = False
    """Whether the conversation goes on in a chat, to which files can be sent."""

    @property
    def is_owner(self) -> bool:
        return self.name == OWNER
