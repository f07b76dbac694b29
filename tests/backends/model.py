"""The language model behind the real servers: a scripted one, OpenAI-compatible, for chat and embeddings.

It answers by rule, so that what a server remembers is what a user said: each line is a fact. Embeddings are
counts of words, so that texts with words in common are near each other.
"""

import base64
import hashlib
import json
import math
import re
import struct
from collections.abc import Sequence
from typing import Any, Self

from holdfast.testing.faulty_server import Fault, FaultyServer, HttpCall, Reply

DIMENSION = 384
CHAT = "/chat/completions"


class RuleModel:
    """A server on loopback; `plan(Fault(CHAT, ...))` makes the model fail."""

    def __init__(self) -> None:
        self._server = FaultyServer(self._answer)

    @property
    def base_url(self) -> str:
        return f"{self._server.url}/v1"

    def plan(self, fault: Fault) -> Fault:
        return self._server.plan(fault)

    def __enter__(self) -> Self:
        self._server.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._server.stop()

    def _answer(self, call: HttpCall) -> Reply:
        match call.method, *call.parts:
            case "POST", *_, "embeddings":
                return Reply(_embeddings(call.request.json()))
            case "POST", *_, "chat", "completions":
                return Reply(_completion(call.request.json()))
            case _:
                return Reply({"object": "list", "data": [{"id": "rules", "object": "model"}]})


def _completion(body: dict[str, Any]) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": None}
    if body.get("tools"):
        message["tool_calls"] = [_tool_call(body)]
    else:
        message["content"] = _text(body["messages"])
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if body.get("tools") else "stop"}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    return {"id": "r", "object": "chat.completion", "created": 0, "model": "rules", "choices": [choice]} | {
        "usage": usage
    }


def _text(messages: Sequence[dict[str, Any]]) -> str:
    last = _said(messages[-1])
    if "\nContent:\n" in last:
        return _hindsight_facts(last.split("\nContent:\n", 1)[1])
    if "restricted Python memory SDK" in _said(messages[0]):
        return _openviking_plan("\n".join(map(_said, messages)))
    return "ok"


def _hindsight_facts(content: str) -> str:
    """Hindsight's format: what follows `Content:` becomes one fact a line."""
    nothing = dict.fromkeys(("when", "where", "who", "why"), "N/A")
    kind = {"fact_kind": "conversation", "fact_type": "world", "entities": []}
    lines = [line.strip() for line in content.splitlines() if line.strip().startswith("user: ")]
    return json.dumps({"facts": [{"what": line, **nothing, **kind} for line in lines]})


def _openviking_plan(prompt: str) -> str:
    """OpenViking's format: a small program that creates one memory for each line of a user."""
    lines = re.findall(r"\[\d+\]\[user\]\[user\]: (.*)", prompt)
    calls = [
        f'sdk.create_entities(category="facts", name="fact_{_digest(line)}", content="""# Fact\n{line}""")'
        for line in dict.fromkeys(lines)
    ]
    return "\n".join([*calls, "sdk.commit()"])


def _tool_call(body: dict[str, Any]) -> dict[str, Any]:
    """For a server that reasons with tools: each once, then the one that ends it."""
    names = [tool["function"]["name"] for tool in body["tools"]]
    known = " ".join(_said(each) for each in body["messages"] if each.get("role") == "tool")
    wanted = body.get("tool_choice")
    name = wanted["function"]["name"] if isinstance(wanted, dict) else names[0]
    if "done" in names and known and not isinstance(wanted, dict):
        name = "done"
    arguments = {"query": "cat", "reason": "to know", "answer": f"From memory: {known[:500]}"}
    call = {"name": name, "arguments": json.dumps(arguments)}
    return {"id": f"call_{len(body['messages'])}", "type": "function", "function": call}


def _said(message: dict[str, Any]) -> str:
    content = message.get("content") or ""
    return content if isinstance(content, str) else " ".join(part.get("text", "") for part in content)


def _embeddings(body: dict[str, Any]) -> dict[str, Any]:
    texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
    rows = [_embedding(str(text), body.get("dimensions") or DIMENSION) for text in texts]
    packed: list[Any] = rows
    if body.get("encoding_format") == "base64":
        packed = [base64.b64encode(struct.pack(f"<{len(row)}f", *row)).decode() for row in rows]
    data = [{"object": "embedding", "index": at, "embedding": row} for at, row in enumerate(packed)]
    return {
        "object": "list",
        "data": data,
        "model": "rules",
        "usage": {"prompt_tokens": 1, "total_tokens": 1},
    }


def _embedding(text: str, dimension: int) -> list[float]:
    row = [0.0] * dimension
    for word in re.findall(r"\w+", text.lower()):
        row[int(_digest(word), 16) % dimension] += 1.0
    length = math.sqrt(sum(value * value for value in row)) or 1.0
    return [value / length for value in row]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:8]
