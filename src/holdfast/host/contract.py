"""The parts that a host is built from, and the data that it returns. Read this first, then `session_host.py`.

A conversation is a session with all its continuations, known by its first session's id; one process at a
time runs it, under a lease. `conversation.py` is its runner, `event_stream.py` numbers its events, and
`agent_cache.py` keeps its agent warm.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, get_args

from holdfast.agent import Pools, SessionAgent
from holdfast.agent.context_use import ContextPart
from holdfast.agent.review import Review
from holdfast.agent.scope_policy import EVERYTHING, GUEST, AgentScope, PolicyFor, ScopePolicy
from holdfast.agent.title import TitleMaker
from holdfast.agent.tool_profile import ToolProfiles
from holdfast.core.clock import SystemClock
from holdfast.core.content import Checked
from holdfast.core.contract import Clock, Message
from holdfast.core.events import Event, RecalledFrom
from holdfast.host.usage_reports import UsageTotal
from holdfast.memory import MemoryManager, SessionLifecycle
from holdfast.memory.contract import ProviderStatus
from holdfast.models.contract import ListedModel, ModelTraits
from holdfast.process import off_loop
from holdfast.sessions import SessionDB
from holdfast.sessions.contract import NOTHING_CHOSEN, OWNER, ConversationChoice
from holdfast.tools.file_history import FileHistory, UndoneFile
from holdfast.tools.open_questions import OpenQuestions
from holdfast.tools.sandbox_choice import SandboxState

AfterCrash = Literal["resume", "close", "ask"]


@dataclass(frozen=True, slots=True)
class HostOptions:
    """How the host behaves."""

    source: str = "host"
    """Recorded with sessions that begin here."""
    attended: bool = True
    """Whether a person can be asked on this surface, for what is said at the start."""
    agents: int = 64
    """How many agents are kept warm."""
    conversations: int = 256
    """How many conversations that nobody uses keep their events, for readers that come back."""
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
    """How long a command (compact, clear, resume, drop) waits for another process that holds the session."""
    shutdown_seconds: float = 5.0
    api_days: float = 0.0
    """Days until an unused conversation of the API's own is deleted; 0: never."""
    after_crash: AfterCrash = "ask"
    """What happens to the work of a process that died: a turn that was cut off, and messages that wait.

    `resume` and `close` act without asking, for every process on the store. `resume` continues the turn,
    unless an unfinished tool call may have changed something: then it closes the turn. `close` always closes
    it. Then the waiting messages run, in order. With `ask` both wait until a person decides, or sends a
    message: then the turn is closed first.
    """

    @property
    def recovers(self) -> bool:
        """Whether what others left is taken over unasked."""
        return self.after_crash != "ask"


async def _nothing() -> None:
    pass


class ModelCatalog(Protocol):
    """The models that a host can change to."""

    async def names(self) -> tuple[str, list[str]]:
        """Where models are looked for, and the names of those that can be talked to there."""
        ...

    async def switch(self, name: str) -> ModelTraits:
        """Use another model from the next turn on; raises what keeps it from being opened."""
        ...

    async def details(self) -> tuple[str, list[ListedModel]]:
        """The same as `names`, with what is known of each model."""
        ...

    async def reload(self) -> ModelTraits:
        """Use the model that the settings name now; raises what keeps it from being opened."""
        ...

    async def check(self, name: str) -> ModelTraits:
        """Open a model that a conversation wants; raises what keeps it from being opened."""
        ...

    async def prepare(self, name: str) -> None:
        """Open a model that a conversation chose, unless it is open. Where that fails, its turns say why."""
        ...

    async def tidy(self) -> None:
        """Let go of models that are not used any more."""
        ...


@dataclass(frozen=True, slots=True)
class AvailableModels:
    """Which model answers now, and which others there are."""

    current: ModelTraits | None
    where: str
    """Where models were looked for, in words."""
    names: list[str]
    details: list[ListedModel] = field(default_factory=list)


async def no_sandbox() -> SandboxState:
    """For a host whose tools run no commands of their own."""
    return SandboxState("off", "none: no tool here runs commands")


def default_policy(scope: str) -> ScopePolicy:
    """Everything for the owner, and for everybody else what a guest may do."""
    return EVERYTHING if scope == OWNER else GUEST


@dataclass(frozen=True, slots=True)
class HostParts:
    """The concrete objects, built in `wiring/settings_host.py`."""

    db: SessionDB
    memory: MemoryManager
    lifecycle: SessionLifecycle
    make_agent: Callable[[str, OpenQuestions, AgentScope], SessionAgent]
    """Makes the agent of a session, with the questions it may ask, for the scope of the session."""
    pools: Pools
    options: HostOptions = HostOptions()
    clock: Clock = field(default_factory=SystemClock)
    ask_seconds: float = 600.0
    scope_policy: PolicyFor = default_policy
    """What an agent may do for a scope; asked before each turn, on a thread, so that it may block."""
    is_in_chat: Callable[[str], bool] = lambda _: False
    """Whether a session's conversation goes on in a chat; asked with the policy."""
    make_review: Callable[[], Review] | None = None
    """Looks back at a conversation now and then; None: never."""
    titles: TitleMaker | None = None
    """Names conversations after their first turn; None: nobody does."""
    model: ModelTraits | None = None
    """The model as surfaces show it, at the start."""
    models: ModelCatalog | None = None
    """Other models to change to; None: there is one model, and it stays."""
    warm_up: Callable[[], Awaitable[None]] = _nothing
    """Loads a model on this machine before the first message needs it."""
    tools: tuple[tuple[str, str], ...] = ()
    """The name of each tool and what it does, as surfaces list them."""
    tool_profiles: ToolProfiles = field(default_factory=ToolProfiles)
    """Which of them a model is told of."""
    problems: tuple[str, ...] = ()
    """What was left out at the start and why, for a person to read."""
    sandbox: Callable[[], Awaitable[SandboxState]] = no_sandbox
    """Tells the sandbox that commands run in; the first call tries it out."""
    workspace: str = "none"
    """Where tools work, in words."""
    approval: str = "ask"
    """How approvals are decided, as the settings say it: `ask`, `never-ask` or `always-refuse`."""
    forget_outputs: Callable[[str], None] = lambda _: None
    """Removes what is kept of a deleted session's tool outputs; may block."""
    file_history: FileHistory | None = None
    """What the tools change in files; None: nothing is recorded."""
    observer: Callable[[Event], None] | None = None
    """Hears every event of every conversation here; must not wait."""
    closes_store: bool = True
    """False: the store was given by a program, which goes on using it."""
    release: Callable[[], Awaitable[None]] = _nothing
    """Lets go of what the parts hold beside the store and memory: servers, processes, the model."""

    workspace_problem: Callable[[str], str] = lambda _: "this host has one workspace; it can't be changed"
    """Why a folder can't be the workspace of a conversation; empty when it can. May block."""

    async def agent_for(
        self, session_id: str, questions: OpenQuestions, scope: str, choice: ConversationChoice | None = None
    ) -> SessionAgent:
        """The agent of a session of this scope, with what the policy lets it do now."""
        return self.make_agent(session_id, questions, await self.agent_scope(scope, session_id, choice))

    async def agent_scope(
        self, name: str, session_id: str, choice: ConversationChoice | None = None
    ) -> AgentScope:
        """For whom an agent of a session works, with what, and what the policy lets it do there now."""
        chosen = choice or NOTHING_CHOSEN

        def read() -> AgentScope:
            in_chat = self.is_in_chat(session_id)
            return AgentScope(name, self.scope_policy(name), chosen.model, chosen.workspace, in_chat)

        return await off_loop(self.pools.store, read)


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
    is_repeat: bool = False
    """A message with the same key was there already: this is that one."""


@dataclass(frozen=True, slots=True)
class Beginning:
    """How a session begins, beside its first message."""

    history: Sequence[Message | Checked] = ()
    """Earlier messages from elsewhere; no memory is owed for them."""
    source: str | None = None
    """None: the host's own."""
    title: str | None = None
    prev_session_id: str | None = None
    """The session left behind, which reaches a boundary, as with `SessionHost.new_session`."""
    key: str | None = None
    """Used before, it begins nothing: the answer names the session that was begun with it."""
    scope: str = OWNER
    """Whose conversation it is."""
    choice: ConversationChoice = NOTHING_CHOSEN
    """The model, the workspace and the folder of the list that were chosen for it."""


State = Literal["idle", "running", "elsewhere", "unfinished", "ended"]
STATES: tuple[State, ...] = get_args(State)
"""Idle, running here, run by another process, cut off by a crash, or over for good."""


@dataclass(frozen=True, slots=True)
class ConversationStatus:
    """How a conversation stands now, in the store and in this process."""

    root_id: str
    session_id: str
    """Where it goes on."""
    state: State
    turn_id: str | None
    """The turn that is open, in whichever process."""
    waiting: int
    """How many messages wait."""
    asking: int
    """How many approvals and questions wait for a person."""
    title: str | None
    pinned: bool
    archived: bool
    deleted: bool = False
    trouble: str = ""
    """What keeps it from going on in this process, such as a full disk; empty when nothing does."""


@dataclass(frozen=True, slots=True)
class ContextSize:
    """How many tokens a conversation takes of the model's window."""

    tokens: int
    window: int


@dataclass(frozen=True, slots=True)
class SpanView:
    """A stretch of a turn's time.

    Its kind is `recall`, `model`, `tool`, `waiting` (for a person), `compaction`, `storing` or `delivery`.
    """

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
class TurnDetails:
    """One turn in detail: how its time was spent, what memory recalled for it, how many tokens it used."""

    turn_id: str
    session_id: str
    root_id: str
    state: str
    reason: str
    started_ms: int
    ended_ms: int | None
    model: str
    spans: tuple[SpanView, ...]
    recalled: tuple[RecalledFrom, ...]
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    usage: UsageTotal | None = None
    """With subagents and summaries; None while it runs, and for turns of earlier versions."""


@dataclass(frozen=True, slots=True)
class CompactedStretch:
    """A session that a compaction ended: how many messages it had, and when and where it went on."""

    session_id: str
    child_id: str
    at_ms: int
    messages: int


@dataclass(frozen=True, slots=True)
class ContextView:
    """How a conversation fills the model's window, and its compactions, oldest first."""

    session_id: str
    window: int
    tokens: int
    parts: tuple[ContextPart, ...]
    compactions: tuple[CompactedStretch, ...]


@dataclass(frozen=True, slots=True)
class UndoneTurn:
    """What `undo` did: where the conversation goes on, what was taken back, and what became of the files."""

    session_id: str
    text: str
    """The message that was taken back."""
    files: tuple[UndoneFile, ...] = ()


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
    decisions: tuple[str, ...] = ()
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
    sandbox: str
    """The sandbox of commands and what they can write, in words."""
    workspace: str
    """Where tools work, in words."""
    approval: str
    """`ask`, `never-ask` or `always-refuse`."""
    tool_profile: str = ""
    """Which tools the model is told of where a conversation has chosen nothing else, and why."""
    troubles: dict[str, str] = field(default_factory=dict)
    """The trouble of each conversation that can't go on here, by its live session."""
