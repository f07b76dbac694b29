"""What memory is: the provider contract, a turn as providers get it, a lane's status, and who commits.

Read this first, then `manager.py`. A provider is plain blocking code: its calls run on lanes of their own,
never on a turn. What it raises is caught there, recorded, retried and shown.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Literal, Protocol, Self, runtime_checkable

from holdfast.core.contract import Message
from holdfast.core.errors import MemoryClosed, StoreClosed
from holdfast.memory.config import ProviderConfig

ENDING = (MemoryClosed, StoreClosed)
"""What a provider raises once its end has begun: nothing is wrong with what was asked of it."""

Circuit = Literal["closed", "open"]
"""Closed: deliveries flow. Open: the provider is down, and one probe at a time looks whether it is back."""


@dataclass(frozen=True, slots=True)
class CompletedTurn:
    """A completed turn, as it is delivered. The same turn has the same key, however often it comes."""

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
        """A turn given to `sync_turn`: the same words at the same point of a session are one turn."""
        facts = "\x00".join([session_id, user_content, assistant_content, str(len(messages or []))])
        key = sha256(facts.encode("utf-8", "replace")).hexdigest()
        return cls(key, session_id, key, user_content, assistant_content, messages or [], completed)


@dataclass(frozen=True, slots=True)
class ProviderStatus:
    """How one provider stands: for the terminal, the page and metrics."""

    provider: str
    owed: int
    oldest_owed_seconds: float | None
    set_aside: int
    delivered: int
    """Turns delivered by this process."""
    circuit: Circuit
    last_error: str | None
    recall_stuck: bool
    """A recall is still out past its deadline; it is skipped until it returns."""


class Complete(Protocol):
    """Asks the agent's language model one thing and waits for the whole answer.

    What is built from the settings gives it to every provider whose `initialize` names `complete`, when
    there is a model whose extracts are worth having. Call it from a thread, never from the event loop.
    """

    def __call__(self, system: str, text: str) -> str:
        """The model's answer. Raises a `ModelFailure`."""
        ...


@dataclass(frozen=True, slots=True)
class Remembered:
    """One thing that a provider keeps, for a person to look at."""

    id: int
    when: float
    """In seconds since the epoch."""
    kind: str
    text: str
    speaker: str = ""
    """Who said it, when somebody did."""
    session_id: str = ""
    turn_id: str | None = None


@runtime_checkable
class Browsable(Protocol):
    """A provider whose contents a person can look through, and forget one by one."""

    def remembered(self, query: str, limit: int = 10) -> list[Remembered]:
        """What fits the words best, first."""
        ...

    def forget(self, memory_id: int) -> bool:
        """Remove something for good; False when there is no such thing."""
        ...

    def describe(self) -> object:
        """How the memory stands; its text is one line."""
        ...


class MemoryCommitter(Protocol):
    """What the lifecycle needs of an agent.

    An agent hands `SessionDB.uncommitted_messages` of each session in its lineage to
    `MemoryManager.on_session_end`, which raises when a provider failed.
    """

    def commit_memory_session(self) -> bool | None:
        """Extract from the uncommitted stretch. Raising or returning False means that it failed."""
        ...


class MemoryProvider(ABC):
    """A memory backend. Only the first four methods must be written; the rest do nothing by default.

    A provider may also have `sync_turns(turns: Sequence[CompletedTurn])`: it then gets completed turns in
    batches, in order within a session, each with its stable key; raising means that none of the batch
    counts as delivered, and all of it comes again.
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """A short, stable name; what is owed is recorded under it."""

    @abstractmethod
    def is_available(self) -> bool:
        """Whether the provider could work here: what it needs is installed. No network.

        It may raise `ProviderInvalid` instead, which says what to install.
        """

    @abstractmethod
    def initialize(self, session_id: str, **kwargs: Any) -> None:
        """Get ready. Called once, on the provider's own lane, before anything else.

        A provider with a schema finds its `ProviderConfig` in `kwargs["config"]`.
        """

    @abstractmethod
    def get_tool_schemas(self) -> list[dict[str, Any]]:
        """The tools this provider offers to the model, as OpenAI function schemas."""

    def get_config_schema(self) -> list[dict[str, Any]]:
        """What the provider must or may be told, as a list of fields; empty for nothing.

        A field has `key`, and may have `description`, `secret` (stored apart, masked), `required`,
        `default`, `choices`, `env_var` (a variable that wins over what is stored), `url` (where to get the
        value) and `when` (`{key: value}` of fields before it, with which alone it counts). A provider
        whose required values are missing is left out by name. Called before `initialize`; no I/O.
        """
        return []

    def check(self, config: ProviderConfig) -> str:
        """Try whether the provider works with these values, and say what was found in one line.

        Raise what is wrong. Called without `initialize`, on a thread of its own, for `memory setup` and
        `memory status`; it must leave nothing behind, neither data nor a thread.
        """
        return ""

    def system_prompt_block(self) -> str:
        """Text for the system prompt; empty for none."""
        return ""

    def prefetch(self, query: str, *, session_id: str = "") -> str:
        """What is remembered about the query, as text for the prompt; empty for nothing."""
        return ""

    def queue_prefetch(self, query: str, *, session_id: str = "") -> None:
        """A hint that this query may be recalled next."""

    def sync_turn(
        self,
        user_content: str,
        assistant_content: str,
        *,
        session_id: str = "",
        messages: list[Message] | None = None,
    ) -> None:
        """Remember one completed turn. May come twice; raise when it failed."""

    def handle_tool_call(self, tool_name: str, args: dict[str, Any], **kwargs: Any) -> str:
        """Run one of the tools of `get_tool_schemas`; returns text for the model."""
        raise NotImplementedError(f"{self.name} has no tool {tool_name!r}")

    def on_turn_start(self, turn_number: int, message: str, **kwargs: Any) -> None:
        """A turn begins."""

    def on_session_end(self, messages: list[Message]) -> None:
        """A boundary: extract from the messages of the uncommitted stretch. Raise when it failed.

        A provider that takes a keyword `session_id` is told whose messages they are.
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
        """The conversation goes on in another session; flush what belongs to the old one first."""

    def on_pre_compress(self, messages: list[Message]) -> str:
        """Before these messages are summarised: text that the summary should keep."""
        return ""

    def on_memory_write(self, action: str, target: str, content: str, metadata: Any = None) -> None:
        """A note was saved, changed or forgotten elsewhere."""

    def on_delegation(self, task: str, result: str, *, child_session_id: str = "", **kwargs: Any) -> None:
        """A subagent has finished its task."""

    def shutdown(self) -> None:
        """Let go of everything. Called once, on the provider's own lane, within the shutdown budget."""
