"""The memory contract: `MemoryProvider`, the turns that providers receive, and the status of a provider.

Read this first, then `manager.py`. A provider is plain blocking code. Its calls run on threads of their own
(lanes), never on the thread of a turn. The lane catches its exceptions, records them, retries and shows them.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Literal, Protocol, Self, runtime_checkable

from holdfast.core.contract import Message
from holdfast.core.errors import MemoryClosed, StoreClosed
from holdfast.memory.config import ProviderConfig

CLOSED = (MemoryClosed, StoreClosed)
"""Errors that a provider raises after its shutdown has begun; the request itself was valid."""

RECALL_TOKENS = 8_000
BLOCK_TOKENS = 4_000
TOOL_TOKENS = 8_000
MIN_TOOL_TOKENS = 1_000
SHARE = 8
"""In a small window, each part of the prompt that memory fills takes at most one eighth."""

ONLY_HERE = "it is in files on this machine; programs on other machines have their own and don't see this one"
"""What a person is told of a memory that stores on its host, where a store serves several machines."""

Circuit = Literal["closed", "open"]
"""Closed: turns are delivered. Open: the provider is down, and single probes test whether it is back."""


@dataclass(frozen=True, slots=True)
class Budgets:
    """How many tokens of a request memory may use, over all providers."""

    recall: int = RECALL_TOKENS
    block: int = BLOCK_TOKENS
    tools: int = TOOL_TOKENS

    @classmethod
    def of(cls, window: int, recall_tokens: int = 0) -> "Budgets":
        """The budgets for a window. `recall_tokens` is the user's setting, at most half the window."""
        share = max(1, window // SHARE)
        recall = min(recall_tokens, window // 2) if recall_tokens else min(RECALL_TOKENS, share)
        tools = min(TOOL_TOKENS, max(MIN_TOOL_TOKENS, share))
        return cls(recall, min(BLOCK_TOKENS, share), tools)


@dataclass(frozen=True, slots=True)
class CompletedTurn:
    """A completed turn as it is delivered. A turn that is delivered again has the same key."""

    key: str
    session_id: str
    turn_id: str
    user_content: str
    assistant_content: str
    messages: Sequence[Message]
    completed: float
    """When the turn was completed, in seconds since the epoch."""

    @classmethod
    def without_key(
        cls,
        user_content: str,
        assistant_content: str,
        *,
        session_id: str,
        messages: Sequence[Message] | None,
        completed: float,
    ) -> Self:
        """A turn from `sync_turn`, with a key made of its text, its session and the length of the history."""
        facts = "\x00".join([session_id, user_content, assistant_content, str(len(messages or []))])
        key = sha256(facts.encode("utf-8", "replace")).hexdigest()
        return cls(key, session_id, key, user_content, assistant_content, messages or [], completed)


@dataclass(frozen=True, slots=True)
class ProviderStatus:
    """The status of one provider, for the terminal, the web page and metrics."""

    provider: str
    owed: int
    oldest_owed_seconds: float | None
    set_aside: int
    delivered: int
    """Turns delivered by this process."""
    circuit: Circuit
    last_error: str | None
    recall_stuck: bool
    """A recall is past its deadline; the provider is skipped until that call returns."""
    only_here: bool = False
    """The memory is in files on this machine, and the store serves other machines too."""


class TextCompletion(Protocol):
    """Sends one request to the agent's language model and waits for the whole answer.

    A provider whose `initialize` has a parameter `complete` receives it, when the configured model is good
    enough for extraction. Call it from a thread, never from the event loop.
    """

    def __call__(self, system: str, text: str, *, session_id: str | None = None) -> str:
        """The model's answer; what it used counts for the session. Raises a `ModelFailure`."""
        ...


@dataclass(frozen=True, slots=True)
class MemoryItem:
    """One memory of a provider, as a person sees it."""

    id: int
    when: float
    """In seconds since the epoch."""
    kind: str
    text: str
    speaker: str = ""
    """The speaker, when the memory is something that was said."""
    session_id: str = ""
    turn_id: str | None = None
    shown: int = 0
    """How often it was recalled for a turn."""
    used: int = 0
    """How often an answer used it, as far as its words tell."""


@dataclass(frozen=True, slots=True)
class TextVectors:
    """Texts as normalised vectors of one model, in the order of the texts."""

    model: str
    vectors: Sequence[Sequence[float]]


@runtime_checkable
class TextEmbedder(Protocol):
    """A provider with an embedding model that others may use."""

    def embed_texts(self, texts: Sequence[str], seconds: float) -> TextVectors:
        """The texts as vectors; raises why there are none."""
        ...


@runtime_checkable
class Browsable(Protocol):
    """A provider whose memories a person can search and delete one by one."""

    def browse(self, query: str, limit: int = 10) -> list[MemoryItem]:
        """The memories that match the query, best match first."""
        ...

    def forget(self, memory_id: int) -> bool:
        """Delete a memory permanently; False when it does not exist."""
        ...

    def describe(self) -> object:
        """The state of the memory. Its text is one line.

        It may have an attribute `is_limited`: True when the memory works, and would work better with
        something that is not installed.
        """
        ...


@dataclass(frozen=True, slots=True)
class RecallAnswer:
    """What a provider recalled, and what a person should know about it."""

    text: str
    note: str = ""
    """How this recall was limited, e.g. "by full text alone: busy"; shown in the turn's timeline."""


@runtime_checkable
class ConcurrentRecall(Protocol):
    """A provider that answers several recalls at the same time. It is asked by this instead of `prefetch`."""

    def begin_prefetch(self, query: str, *, session_id: str = "") -> "Future[RecallAnswer]":
        """Begin a recall and return at once. The future must be resolved in time, also after `shutdown`."""
        ...


@runtime_checkable
class KeepsScopes(Protocol):
    """A provider that keeps scopes apart: what it learns in one is never found in another.

    A scope is a name for whose conversation it is: "" for the owner of this installation, any other for a
    person or a room. A provider without this method is used for the owner's conversations alone.
    """

    def for_scope(self, scope: str) -> "MemoryProvider":
        """The provider for one scope that is not the owner's: it stores and finds what belongs to it alone.

        Called after `initialize`, for every single call, on any of the provider's threads. So it is cheap:
        it shares what this provider has opened, and nothing of it is initialised or shut down by itself.
        """
        ...


class MemoryCommitter(Protocol):
    """The part of an agent that the lifecycle uses.

    An agent hands `SessionDB.uncommitted_messages` of each session in its lineage to
    `MemoryManager.on_session_end`, which raises when a provider failed.
    """

    def commit_memory_session(self) -> bool | None:
        """Have memory extract from the uncommitted turns. An exception or False means that it failed."""
        ...


class MemoryProvider(ABC):
    """A memory backend. Only the first four methods must be written; the rest do nothing by default.

    A provider may also have `sync_turns(turns: Sequence[CompletedTurn])`: it then gets completed turns in
    batches, in order within a session, each with its stable key; raising means that none of the batch
    counts as delivered, and all of it comes again. With `begin_prefetch` (`ConcurrentRecall`) it answers
    several recalls at once, and can say how an answer is limited. With `forget_selected` (`forgetting.py`) it
    can delete turns or whole conversations; without it, a person is told that it can't. With `for_scope`
    (`KeepsScopes`) it also serves people other than the owner, each with a memory of their own.
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """A short, stable name; the outbox records deliveries under it."""

    @abstractmethod
    def is_available(self) -> bool:
        """Whether everything that the provider needs is installed. No network access.

        It may raise `ProviderInvalid` instead, with a message that says what to install.
        """

    @abstractmethod
    def initialize(self, session_id: str, **kwargs: Any) -> None:
        """Prepare for work. Called once, on the provider's write lane, before any other call.

        A provider with a schema finds its `ProviderConfig` in `kwargs["config"]`.
        """

    @abstractmethod
    def get_tool_schemas(self) -> list[dict[str, Any]]:
        """The tools this provider offers to the model, as OpenAI function schemas."""

    def get_config_schema(self) -> list[dict[str, Any]]:
        """The configuration fields of the provider; empty when it has none.

        A field has `key`, and may have `description`, `secret` (stored apart, masked), `required`,
        `default`, `choices`, `env_var` (a variable that wins over the stored value), `url` (where to get the
        value) and `when` (`{key: value}`: it is active only when earlier fields have these values). A
        provider whose required values are missing is not used. Called before `initialize`; no I/O.
        """
        return []

    def stores_on_host(self, config: ProviderConfig) -> bool:
        """Whether the memory is in files on this machine, which programs on other machines don't see.

        A person is told so where several machines use one store. Called before `initialize`; no I/O.
        """
        return False

    def check(self, config: ProviderConfig) -> str:
        """Test whether the provider works with these values; returns one line about the result.

        Raises an error when it does not work. Called without `initialize`, on a thread of its own, for
        `memory setup` and `memory status`. It must not leave data or a thread behind.
        """
        return ""

    def system_prompt_block(self) -> str:
        """Text for the system prompt; empty for none."""
        return ""

    def prefetch(self, query: str, *, session_id: str = "") -> str:
        """Recall memories for the query, as text for the prompt; empty for none."""
        return ""

    def queue_prefetch(self, query: str, *, session_id: str = "") -> None:
        """A hint that this query may be recalled soon."""

    def sync_turn(
        self,
        user_content: str,
        assistant_content: str,
        *,
        session_id: str = "",
        messages: list[Message] | None = None,
    ) -> None:
        """Store one completed turn. It may be delivered twice. Raise when it failed."""

    def handle_tool_call(self, tool_name: str, args: dict[str, Any], **kwargs: Any) -> str:
        """Run one of the tools of `get_tool_schemas`; returns text for the model."""
        raise NotImplementedError(f"{self.name} has no tool {tool_name!r}")

    def on_turn_start(self, turn_number: int, message: str, **kwargs: Any) -> None:
        """A turn starts."""

    def on_session_end(self, messages: list[Message]) -> None:
        """A boundary of the session: extract from the messages since the last one. Raise when it failed.

        A provider with a keyword argument `session_id` receives the session of the messages.
        """

    def on_session_switch(
        self,
        new_session_id: str,
        *,
        parent_session_id: str = "",
        reset: bool = False,
        rewound: bool = False,
        **kwargs: Any,
    ) -> None:
        """The conversation continues in another session; flush the data of the old session first."""

    def on_pre_compress(self, messages: list[Message]) -> str:
        """Called before these messages are summarised; returns text that the summary should keep."""
        return ""

    def on_memory_write(self, action: str, target: str, content: str, metadata: Any = None) -> None:
        """A note was saved, changed or deleted elsewhere."""

    def on_delegation(self, task: str, result: str, *, child_session_id: str = "", **kwargs: Any) -> None:
        """A subagent has finished its task."""

    def shutdown(self) -> None:
        """Release all resources. Called once, on the provider's write lane, within the shutdown budget."""
