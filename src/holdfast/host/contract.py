"""What the host is made of and what it answers. Read this first, then `host.py`.

A conversation is a session with all its continuations, known by its first session's id; one process at a
time runs it, under a lease. `streams.py` numbers its events, `conversation.py` runs its turns, `agents.py`
keeps its agent warm.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, get_args

from holdfast.agent import Agent, Pools
from holdfast.agent.context import ContextPart
from holdfast.agent.review import Review
from holdfast.core.clock import SystemClock
from holdfast.core.contract import Clock, Message
from holdfast.core.events import Event, RecalledFrom
from holdfast.memory import MemoryManager, SessionLifecycle
from holdfast.memory.contract import ProviderStatus
from holdfast.models.contract import ModelTraits
from holdfast.sessions import SessionDB
from holdfast.tools.asking import OpenQuestions


@dataclass(frozen=True, slots=True)
class HostOptions:
    """How the host behaves."""

    source: str = "host"
    """Recorded with sessions that begin here."""
    agents: int = 64
    """How many agents are kept warm."""
    idle_seconds: float = 1800.0
    """How long an agent may stay unused before it is evicted."""
    context_tokens: int = 20_000_000
    """How many tokens of conversation the warm agents may hold together."""
    poll_seconds: float = 0.25
    """How often another process's doings are looked at, where there are any."""
    replay: int = 2_000
    """How many events of a conversation a reader that reconnects can still get."""
    sweep_seconds: float = 30.0
    """How often agents and conversations that are long unused are let go."""
    patience_seconds: float = 2.0
    """How long a wish (compact, clear, resume, drop) waits for another process that holds the session."""
    shutdown_seconds: float = 5.0
    take_over: bool = False
    """Whether messages left behind by another life or process are run at once, or when a person says so."""


async def _nothing() -> None:
    pass


class Models(Protocol):
    """The models that a host can change to."""

    async def names(self) -> tuple[str, list[str]]:
        """Where models are looked for, and the names of those that can be talked to there."""
        ...

    async def switch(self, name: str) -> ModelTraits:
        """Use another model from the next turn on; raises what keeps it from being opened."""
        ...

    async def tidy(self) -> None:
        """Let go of models that are not used any more."""
        ...


@dataclass(frozen=True, slots=True)
class ModelList:
    """Which model answers now, and which others there are."""

    current: ModelTraits | None
    where: str
    """Where models were looked for, in words."""
    names: list[str]


@dataclass(frozen=True, slots=True)
class HostParts:
    """The concrete objects, built in `wiring/hosting.py`."""

    db: SessionDB
    memory: MemoryManager
    lifecycle: SessionLifecycle
    make_agent: Callable[[str, OpenQuestions], Agent]
    pools: Pools
    options: HostOptions = HostOptions()
    clock: Clock = field(default_factory=SystemClock)
    ask_seconds: float = 600.0
    make_review: Callable[[], Review] | None = None
    """Looks back at a conversation now and then; None: never."""
    model: ModelTraits | None = None
    """The model as surfaces show it, at the start."""
    models: Models | None = None
    """Other models to change to; None: there is one model, and it stays."""
    tools: tuple[tuple[str, str], ...] = ()
    """The name of each tool and what it does, as surfaces list them."""
    problems: tuple[str, ...] = ()
    """What was left out at the start and why, for a person to read."""
    forget_outputs: Callable[[str], None] = lambda _: None
    """Removes what is kept of a deleted session's tool outputs; may block."""
    release: Callable[[], Awaitable[None]] = _nothing
    """Lets go of what the parts hold beside the store and memory: servers, processes, the model."""


@dataclass(frozen=True, slots=True)
class Numbered:
    """An event with its place in the conversation's stream. Numbers only grow, also over restarts."""

    number: int
    event: Event
    at: int
    """When it was published, in milliseconds since 1970."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """A message is stored; whatever happens now, it is not lost."""

    inbox_id: int
    session_id: str
    mode: str
    interrupts: str | None
    """The turn that an interrupt is addressed to."""
    at: int
    """When it was stored, in the store's microseconds."""


@dataclass(frozen=True, slots=True)
class Beginning:
    """What a session begins with beside its first message."""

    history: Sequence[Message] = ()
    """What was said elsewhere before it, for which no memory is owed."""
    source: str | None = None
    """None: the host's own."""
    title: str | None = None
    prev_session_id: str | None = None
    """The session left behind, which reaches a boundary, as with `Host.new_session`."""
    key: str | None = None
    """Used before, it begins nothing: the answer names the session that was begun with it."""


@dataclass(frozen=True, slots=True)
class SessionStatus:
    """How a conversation stands."""

    session_id: str
    state: str
    """One of `STATES`."""
    turn_id: str | None
    waiting: int
    context_tokens: int
    context_window: int
    asking: int
    """How many approvals and questions of it wait for a person here."""


State = Literal["idle", "running", "elsewhere", "unfinished", "ended"]
STATES: tuple[State, ...] = get_args(State)
"""Running here, run by another process, cut off by a crash, or over for good."""


@dataclass(frozen=True, slots=True)
class SessionChange:
    """A conversation as it stands now, because something about it changed."""

    root_id: str
    session_id: str
    """Where it goes on."""
    state: State
    turn_id: str | None
    waiting: int
    asking: int
    title: str | None
    pinned: bool
    archived: bool
    deleted: bool = False


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of a turn's time: `recall`, `model`, `tool`, `compaction`, `storing` or `delivery`."""

    kind: str
    name: str
    started_ms: int
    ended_ms: int | None
    """None while it lasts, and for what never came to an end."""
    ok: bool | None
    """None while nobody knows."""
    state: str = ""
    """Of a delivery to the provider `name`: where it stands, how often it was tried, what went wrong last."""
    attempts: int = 0
    error: str = ""


@dataclass(frozen=True, slots=True)
class TurnView:
    """One turn, as people look at it: how its time went, what memory recalled for it, what it cost."""

    turn_id: str
    session_id: str
    root_id: str
    state: str
    reason: str
    started_ms: int
    ended_ms: int | None
    model: str
    spans: tuple[Span, ...]
    recalled: tuple[RecalledFrom, ...]
    input_tokens: int
    output_tokens: int
    cached_tokens: int


@dataclass(frozen=True, slots=True)
class CompactedStretch:
    """A session that a compaction ended: how many messages it had, and when and where it went on."""

    session_id: str
    child_id: str
    at_ms: int
    messages: int


@dataclass(frozen=True, slots=True)
class ContextView:
    """What a conversation takes of the model's window, and the compactions behind it, oldest first."""

    session_id: str
    window: int
    tokens: int
    parts: tuple[ContextPart, ...]
    compactions: tuple[CompactedStretch, ...]


@dataclass(frozen=True, slots=True)
class OpenAsk:
    """An approval or a question that a turn waits for; what does not belong to its kind is empty."""

    ask_id: str
    turn_id: str
    call_id: str
    kind: Literal["approval", "question"]
    seconds_left: float
    subject: str = ""
    subject_kind: str = ""
    reason: str = ""
    destructive: bool = False
    question: str = ""
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HostStatus:
    """How the whole stands: for the terminal, the page and `doctor`."""

    store: str
    running: list[str]
    waiting: list[str]
    unfinished: list[str]
    memory: list[ProviderStatus]
    recovering: bool
