"""How much of the model's window a conversation takes, part by part. The parts are estimates."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.agent.prompt import with_recalled
from holdfast.agent.transcript import BYTES_PER_TOKEN, estimate
from holdfast.core.contract import Message
from holdfast.core.messages import holdfast_data
from holdfast.models.contract import ToolSchema

PARTS = ("system", "tools", "recalled", "summary", "person", "assistant", "tool_results")
ROLES = {"user": "person", "assistant": "assistant", "tool": "tool_results"}


@dataclass(frozen=True, slots=True)
class ContextPart:
    """One part of what a model is sent: about how many tokens, in how many pieces."""

    name: str
    tokens: int
    count: int


@dataclass(frozen=True, slots=True)
class ContextUse:
    """What is in use of the window: the model's own count where it has given one, else an estimate."""

    window: int
    tokens: int
    parts: tuple[ContextPart, ...]


def beside_messages(system: str, tools: Sequence[ToolSchema]) -> int:
    """About how many tokens a request takes beside its messages."""
    return _system_tokens(system) + sum(map(_tool_tokens, tools))


def _system_tokens(system: str) -> int:
    return len(system.encode(errors="replace")) // BYTES_PER_TOKEN


def _tool_tokens(schema: ToolSchema) -> int:
    # Every step of every turn counts all tools: `dataclasses.asdict` would copy each schema for it.
    sent = {"name": schema.name, "description": schema.description, "parameters": dict(schema.parameters)}
    return len(json.dumps(sent)) // BYTES_PER_TOKEN


def weighed(
    system: str, tools: Sequence[ToolSchema], messages: Sequence[Message], recalled: str = ""
) -> tuple[ContextPart, ...]:
    """The parts of a request; `recalled` is sent beside the messages."""
    tokens, counts = dict.fromkeys(PARTS, 0), dict.fromkeys(PARTS, 0)

    def add(name: str, size: int) -> None:
        tokens[name] += size
        counts[name] += 1

    if system:
        add("system", _system_tokens(system))
    for schema in tools:
        add("tools", _tool_tokens(schema))
    for message in messages:
        summary = bool(holdfast_data(message).get("summary"))
        add("summary" if summary else ROLES.get(message["role"], "person"), estimate(message))
    if recalled:
        empty: Message = {"role": "user", "content": ""}
        add("recalled", estimate(with_recalled(empty, recalled)) - estimate(empty))
    return tuple(ContextPart(name, tokens[name], counts[name]) for name in PARTS)
