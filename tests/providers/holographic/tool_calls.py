"""Calls the tools of a holographic memory, as a model does."""

import json
from typing import Any

from holdfast.providers.holographic import HolographicMemory


def ask(memory: HolographicMemory, action: str, **arguments: object) -> Any:  # noqa: ANN401 - JSON
    """The answer of `fact_store`."""
    return json.loads(memory.handle_tool_call("fact_store", {"action": action, **arguments}))


def rate(memory: HolographicMemory, action: str, fact_id: int) -> Any:  # noqa: ANN401 - JSON
    """The answer of `fact_feedback`."""
    return json.loads(memory.handle_tool_call("fact_feedback", {"action": action, "fact_id": fact_id}))


def contents(answer: Any) -> list[str]:  # noqa: ANN401 - JSON
    return [fact["content"] for fact in answer["facts"]]
