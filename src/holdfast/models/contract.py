"""The contract of language models: a request, the pieces of its streamed answer, and the `Model` protocol.

Read this first, then `openai_compatible.py` (an adapter) and `retrying_model.py` (retries for any adapter).
A tool call arrives in pieces; `agent/answer.py` puts the pieces together. An adapter raises only the errors
in `core/errors/model_errors.py`.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Literal, Protocol

from holdfast.core.contract import Message

StopReason = Literal["stop", "tool_calls", "length", "refused"]


@dataclass(frozen=True, slots=True)
class ToolSchema:
    """A tool as a model sees it; `parameters` is a JSON schema of type object."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    strict: bool = False
    """Whether a server that can is asked to hold the arguments to the schema."""


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One step of a conversation.

    `messages` is a valid transcript: every tool call has a result. An adapter leaves out keys that it doesn't
    know, such as `holdfast`. The system text and the first messages stay the same from step to step, so that
    a prompt cache works.
    """

    system: str
    messages: Sequence[Message]
    tools: Sequence[ToolSchema] = ()
    max_output_tokens: int | None = None
    conversation: str = ""
    """The same text for every step of one conversation. Some servers use it to find their prompt cache."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """What a client asks of the model, by the names of OpenAI's chat completions: `temperature`, `stop`,
    `tool_choice`, `response_format` and the like. An adapter leaves out what its server does not take.
    """


@dataclass(frozen=True, slots=True)
class TextPiece:
    text: str


@dataclass(frozen=True, slots=True)
class ReasoningPiece:
    text: str


@dataclass(frozen=True, slots=True)
class ToolCallPiece:
    """A piece of the call at `index`.

    The id and the name come once, the arguments in any number of pieces.
    """

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

    def __add__(self, more: "Usage") -> "Usage":
        return Usage(self.input + more.input, self.output + more.output, self.cached + more.cached)


@dataclass(frozen=True, slots=True)
class Finished:
    """The end of an answer. A stream without it was broken.

    `keep` is stored unchanged with the assistant's message and comes back in later requests (signed reasoning
    blocks, for example).
    """

    stop_reason: StopReason
    usage: Usage | None = None
    keep: Mapping[str, Any] | None = None
    model: str = field(default="", compare=False)
    """The model that answered, as its server names it; empty where it does not say."""


@dataclass(frozen=True, slots=True)
class Retrying:
    """The request failed and is sent again after `delay` seconds. All pieces before this one are void."""

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
    as_of: str = ""
    """The month in which they were looked up, of prices from the table of well-known models."""

    def cost(self, usage: Usage) -> Decimal | None:
        """The cost of a request, exact; None when the prices aren't known."""
        if self.input is None or self.output is None:
            return None
        cached = self.input if self.cached is None else self.cached
        # The text of a float is the number that was written; its binary value is not.
        prices = [Decimal(str(each)) for each in (self.input, cached, self.output)]
        tokens = (usage.input - usage.cached, usage.cached, usage.output)
        return (
            sum((price * count for price, count in zip(prices, tokens, strict=True)), Decimal()) / 1_000_000
        )


FREE = Prices(0, 0, 0)
"""Of a model on this machine."""


def dollars(cost: Decimal | None) -> str:
    """A cost as plain decimal text; empty when it is not known."""
    return "" if cost is None else f"{cost.normalize():f}"


@dataclass(frozen=True, slots=True)
class ModelTraits:
    """What the agent needs to know about a model. It never changes for an adapter."""

    name: str
    context_window: int
    """Tokens of input and output together."""
    calls_tools: bool = True
    sees_pictures: bool = True
    """Whether it takes pictures. If not, a text stands in for a picture, and the person is told."""
    takes_formats: bool = False
    """Whether its server holds an answer to a JSON schema (`response_format`)."""
    summarises: bool = True
    """Whether its summaries are useful. If not, compaction shortens the context without the model."""
    notice: str = ""
    """A warning about the model, which every surface shows."""
    prices: Prices = Prices()
    parameters: int | None = None
    """How many it has; None where nobody says. Few of them mean few tools and a short system text."""
    provider: str = ""
    """Who offers it, as traces name it; empty where that is not known."""


@dataclass(frozen=True, slots=True)
class ListedModel:
    """A model as a server lists it; None where the server does not say."""

    name: str
    context_window: int | None = None
    calls_tools: bool | None = None
    sees_pictures: bool | None = None
    prices: Prices = Prices()


class Model(Protocol):
    """A language model behind one adapter."""

    @property
    def traits(self) -> ModelTraits: ...

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelPiece, None]:
        """The answer, piece by piece, ended by `Finished`.

        To cancel the reading task, or to close the generator, also ends the request to the server. Raises a
        `ModelFailure`; the pieces before it are a partial answer.
        """
        ...

    async def close(self) -> None:
        """Close connections and free memory. It may be called again."""
        ...
