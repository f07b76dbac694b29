"""What a language model is: a request, the pieces of its streamed answer, and the `Model` protocol.

Read this first, then `openai_compatible.py` (an adapter) and `patience.py` (retries around any adapter).
A tool call arrives in pieces; `agent/answer.py` puts the pieces together. Errors are in
`core/errors/models.py`; an adapter raises nothing else.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from holdfast.core.contract import Message

StopReason = Literal["stop", "tool_calls", "length", "refused"]


@dataclass(frozen=True, slots=True)
class ToolSchema:
    """A tool as a model sees it; `parameters` is a JSON schema of type object."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One step of a conversation.

    `messages` is a valid transcript: every tool call is answered, and what an adapter doesn't know (the
    key `holdfast`) it leaves out. The system text and the beginning of the messages stay the same from
    step to step, so a prompt cache holds.
    """

    system: str
    messages: Sequence[Message]
    tools: Sequence[ToolSchema] = ()
    max_output_tokens: int | None = None
    conversation: str = ""
    """The same for every step of one conversation; some servers route by it to a warm cache."""


@dataclass(frozen=True, slots=True)
class TextPiece:
    text: str


@dataclass(frozen=True, slots=True)
class ReasoningPiece:
    text: str


@dataclass(frozen=True, slots=True)
class ToolCallPiece:
    """A piece of the call at `index`; the id and the name come once, the arguments in any number."""

    index: int
    id: str = ""
    name: str = ""
    arguments: str = ""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one request. `cached` of the input were read from a prompt cache."""

    input: int = 0
    output: int = 0
    cached: int = 0


@dataclass(frozen=True, slots=True)
class Finished:
    """The end of an answer; a stream without one was broken.

    `keep` is stored with the assistant's message as it is and comes back in later requests (signed
    reasoning blocks, for example).
    """

    stop_reason: StopReason
    usage: Usage | None = None
    keep: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Retrying:
    """The request failed and is sent again after `delay` seconds: pieces so far are void."""

    attempt: int
    delay: float
    problem: str


ModelPiece = TextPiece | ReasoningPiece | ToolCallPiece | Finished | Retrying


@dataclass(frozen=True, slots=True)
class Prices:
    """Dollars for a million tokens; None where unknown."""

    input: float | None = None
    output: float | None = None
    cached: float | None = None

    def cost(self, usage: Usage) -> float | None:
        """What a request cost; None when the prices aren't known."""
        if self.input is None or self.output is None:
            return None
        cached = self.input if self.cached is None else self.cached
        fresh = usage.input - usage.cached
        return (fresh * self.input + usage.cached * cached + usage.output * self.output) / 1_000_000


@dataclass(frozen=True, slots=True)
class ModelTraits:
    """What the agent needs to know of a model. Frozen for the life of the adapter."""

    name: str
    context_window: int
    """Tokens of input and output together."""
    calls_tools: bool = True
    summarises: bool = True
    """Whether its summaries are worth having; without, compaction shrinks the context mechanically."""
    notice: str = ""
    """What a person should know before relying on it; shown by every surface."""
    prices: Prices = Prices()


class Model(Protocol):
    """A language model behind one adapter."""

    @property
    def traits(self) -> ModelTraits: ...

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelPiece, None]:
        """The answer, piece by piece, ended by `Finished`.

        Cancelling the task that reads, or closing the generator, ends the request on the wire too.
        Raises a `ModelFailure`; what was yielded before it is a partial answer.
        """
        ...

    async def close(self) -> None:
        """Let go of connections and memory. Idempotent."""
        ...
