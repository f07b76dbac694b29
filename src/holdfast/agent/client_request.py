"""What a client asks for one turn beside its message: its own tools, the form of the answer, sampling.

It is kept with the message (under the key `holdfast`), so both are stored in one step, and a turn that is
resumed after a crash still knows it. A client runs its own tools: a call of one ends the turn, and the
results come back in a message that begins the next one. Nothing waits in between but what is stored.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, cast

from holdfast.agent.contract import both_ends
from holdfast.core.contract import Message
from holdfast.core.messages import HOLDFAST_KEY, holdfast_data, text_of
from holdfast.models.contract import ToolSchema

REQUEST, RESULTS, BESIDE = "request", "results", "beside_results"
SHOWN_CHARACTERS = 2_000
"""How much of a result people see; the model gets the whole of it."""


@dataclass(frozen=True, slots=True)
class ClientRequest:
    """What is asked for one turn. The default is what every person's message asks for."""

    tools: tuple[ToolSchema, ...] = ()
    """The tools that the client runs itself."""
    own_tools: bool = True
    """Whether the agent's own tools, and the instructions that go with them, are offered."""
    memory: bool = True
    """Whether memory is asked for this turn, and told of it."""
    one_call: bool = False
    """Whether only one call is handed over at a time."""
    schema: Mapping[str, Any] | None = None
    """The JSON schema that the answer must fit."""
    max_tokens: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    """For the model, as in `ModelRequest.options`."""

    @property
    def names(self) -> frozenset[str]:
        return frozenset(tool.name for tool in self.tools)


PLAIN = ClientRequest()


def with_request(message: Message, request: ClientRequest) -> Message:
    """The message, carrying what its client asks for; the same when that is nothing special."""
    if request == PLAIN:
        return message
    data = asdict(request)
    return _with_data(message, {REQUEST: {**data, "tools": list(data["tools"])}})


def request_of(message: Message) -> ClientRequest:
    """What the client asked for with this message."""
    data = holdfast_data(message).get(REQUEST)
    if not isinstance(data, dict):
        return PLAIN
    tools = tuple(ToolSchema(**each) for each in data.get("tools") or ())
    return ClientRequest(**{**data, "tools": tools})


def results_message(
    results: Sequence[Message], names: Mapping[str, str], said: str | list[dict[str, Any]]
) -> Message:
    """A message that brings results of the client's tools, and what the user says beside them.

    `names` are the tools by the ids of the calls. The content is for people; models get the results.
    """
    shown = [
        f"[result of {names.get(str(each.get('tool_call_id')), 'a tool')}]\n"
        f"{both_ends(text_of(each), SHOWN_CHARACTERS)}"
        for each in results
    ]
    content = "\n\n".join([*shown, text_of({"role": "user", "content": said})]).strip()
    message: Message = {"role": "user", "content": content}
    return _with_data(message, {RESULTS: list(results), BESIDE: said})


def results_of(message: Message) -> list[Message]:
    """The results that a message brings; empty for every other message."""
    return cast("list[Message]", holdfast_data(message).get(RESULTS) or [])


def beside_results(message: Message) -> Message:
    """What the user said beside the results."""
    return {**message, "content": holdfast_data(message).get(BESIDE) or ""}


def with_beside(message: Message, content: str | list[dict[str, Any]]) -> Message:
    """The message, with other words of the user beside its results."""
    return _with_data(message, {BESIDE: content})


def as_models_read(message: Message) -> Message:
    """The text that models get of a message: of one that brings results, the whole of them."""
    results = results_of(message)
    if not results:
        return message
    texts = [text_of(each) for each in (*results, beside_results(message))]
    return {"role": message["role"], "content": "\n\n".join(texts)}


def _with_data(message: Message, data: dict[str, Any]) -> Message:
    return cast("Message", {**message, HOLDFAST_KEY: {**holdfast_data(message), **data}})
