"""A turn in the shape of OpenAI's `response`: whole, as a stream of events, or read from the store."""

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from holdfast.core.contract import ToolCall
from holdfast.core.errors import SessionNotFound
from holdfast.core.ids import new_id
from holdfast.core.messages import text_of
from holdfast.models.contract import Usage
from holdfast.web.compat.api_turn import BETWEEN_STEPS, RESPONSE_PREFIX, AnswerFailed, ApiTurn
from holdfast.web.compat.client_calls import with_turn_ids
from holdfast.web.compat.client_wait import DeltaStream
from holdfast.web.contract import WebParts

STATUSES = {
    "running": "in_progress",
    "completed": "completed",
    "interrupted": "cancelled",
    "failed": "failed",
}
CUT = {"reason": "max_output_tokens"}
ECHOED = ("instructions", "temperature", "top_p", "text", "reasoning", "previous_response_id")
USUAL: Mapping[str, Any] = {
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
    "metadata": {},
    "store": True,
}
"""What a response tells of its request, unless the request said otherwise."""


class ResponseFormat:
    """One turn in the shape of a response."""

    def __init__(self, web: WebParts, turn: ApiTurn, given: Mapping[str, Any]) -> None:
        self._turn = turn
        self._given = given
        self._model = turn.model
        self._created = web.clock.now()
        self._number = 0
        self._other_id = f"{RESPONSE_PREFIX}{turn.session_id}_{new_id()}"
        self._item_id = f"msg_{new_id()}"

    def whole(self, status: str = "", error: dict[str, str] | None = None) -> dict[str, Any]:
        """The response; without a status, the finished one."""
        turn, done = self._turn, not status
        cut = done and turn.finish_reason == "length"
        status = status or ("incomplete" if cut else "completed")
        told = {name: self._given.get(name) for name in (*ECHOED, *USUAL)}
        return {
            **{name: USUAL.get(name) if value is None else value for name, value in told.items()},
            "id": turn.response_id or self._other_id,
            "object": "response",
            "created_at": self._created,
            "status": status,
            "error": error,
            "incomplete_details": CUT if cut else None,
            "model": self._model,
            "output": self._output() if done else [],
            "conversation": {"id": turn.session_id},
            "usage": usage_of(turn.usage) if done else None,
        }

    def _output(self) -> list[dict[str, Any]]:
        return output_of(self._turn.text, self._turn.calls, self._item_id)

    async def chunks(self, source: DeltaStream) -> AsyncGenerator[bytes, None]:
        where = {"item_id": self._item_id, "output_index": 0, "content_index": 0}
        yield self._event("response.created", response=self.whole("in_progress"))
        yield self._event("response.in_progress", response=self.whole("in_progress"))
        spoke = False
        try:
            async with aclosing(source) as pieces:
                async for piece in pieces:
                    if piece.text:
                        if not spoke:
                            yield self._opening(where)
                        spoke = True
                        delta = {"delta": piece.text, "logprobs": []}
                        yield self._event("response.output_text.delta", **where, **delta)
        except AnswerFailed as failed:
            error = {"code": failed.fault.code, "message": str(failed)}
            yield self._event("response.failed", response=self.whole("failed", error))
            return
        items = self._output()
        if spoke:
            item = items[0]
            part = item["content"][0]
            yield self._event("response.output_text.done", **where, text=part["text"], logprobs=[])
            yield self._event("response.content_part.done", **where, part=part)
            yield self._event("response.output_item.done", output_index=0, item=item)
        for place, item in enumerate(items):
            if item["type"] == "function_call":
                yield self._call(place, item)
        end = self.whole()
        yield self._event(f"response.{end['status']}", response=end)

    def _opening(self, where: dict[str, Any]) -> bytes:
        item = {**message_item(self._item_id, ""), "status": "in_progress", "content": []}
        added = self._event("response.output_item.added", output_index=0, item=item)
        return added + self._event("response.content_part.added", **where, part=text_part(""))

    def _call(self, place: int, item: dict[str, Any]) -> bytes:
        where = {"item_id": item["id"], "output_index": place}
        empty = {**item, "status": "in_progress", "arguments": ""}
        named = {"arguments": item["arguments"], "name": item["name"]}
        return (
            self._event("response.output_item.added", output_index=place, item=empty)
            + self._event("response.function_call_arguments.delta", **where, delta=item["arguments"])
            + self._event("response.function_call_arguments.done", **where, **named)
            + self._event("response.output_item.done", output_index=place, item=item)
        )

    def _event(self, kind: str, **content: Any) -> bytes:  # noqa: ANN401 - JSON
        data = {"type": kind, "sequence_number": self._number, **content}
        self._number += 1
        return f"event: {kind}\ndata: {json.dumps(data)}\n\n".encode()


async def stored_response(
    web: WebParts, response_id: str, session_id: str, inbox_id: int
) -> dict[str, Any] | None:
    """A response as the store has it; None when it is not there."""
    sent = await web.host.records.sent(inbox_id)
    try:
        ids = [each.id for each in await web.host.records.lineage(session_id)]
    except SessionNotFound:
        return None
    if sent is None or sent.session_id not in ids:
        return None
    model = web.host.model.name if web.host.model else "holdfast"
    whole: dict[str, Any] = {
        **USUAL,
        "id": response_id,
        "object": "response",
        "created_at": sent.created / 1_000_000,
        "status": "queued",
        "error": None,
        "incomplete_details": None,
        "model": model,
        "output": [],
        "previous_response_id": None,
        "conversation": {"id": session_id},
        "usage": None,
    }
    if sent.turn_id is None:
        return whole
    turn = await web.host.overview.turn(sent.turn_id)
    whole["status"] = STATUSES[turn.state]
    if turn.state == "failed":
        whole["error"] = {"code": "server_error", "message": turn.reason}
    messages = await web.host.records.turn_messages(sent.turn_id)
    texts = [text_of(each) for each in messages if each["role"] == "assistant"]
    handed = await web.host.records.client_calls(sent.turn_id)
    calls = with_turn_ids(sent.turn_id, handed.calls) if handed else ()
    text = BETWEEN_STEPS.join(each for each in texts if each)
    spent = Usage(turn.input_tokens, turn.output_tokens, turn.cached_tokens)
    return {
        **whole,
        "model": turn.model or model,
        "output": output_of(text, calls, f"msg_{sent.turn_id}"),
        "usage": usage_of(spent) if turn.state == "completed" else None,
    }


def output_of(text: str, calls: Sequence[ToolCall], item_id: str) -> list[dict[str, Any]]:
    """The items of an answer: its text, then its calls."""
    said = [message_item(item_id, text)] if text or not calls else []
    return said + [
        {
            "id": f"fc_{call['id'].removeprefix('call_')}",
            "type": "function_call",
            "status": "completed",
            "call_id": call["id"],
            "name": call["function"]["name"],
            "arguments": call["function"]["arguments"],
        }
        for call in calls
    ]


def message_item(item_id: str, text: str) -> dict[str, Any]:
    return {
        "id": item_id,
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [text_part(text)],
    }


def text_part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": []}


def usage_of(spent: Usage) -> dict[str, Any]:
    return {
        "input_tokens": spent.input,
        "input_tokens_details": {"cached_tokens": spent.cached},
        "output_tokens": spent.output,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": spent.input + spent.output,
    }
