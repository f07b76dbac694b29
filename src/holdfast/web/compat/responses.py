"""`POST /v1/responses`, streamed and whole."""

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Annotated, Any

from fastapi import APIRouter, Request, Response
from pydantic import Field

from holdfast.core.ids import new_id
from holdfast.web.bodies import LenientBody
from holdfast.web.compat.api_turn import FAILURE_STATUSES, AnswerFailed, ApiRequest, ApiTurn
from holdfast.web.compat.chat_completions import ChatPart, Role
from holdfast.web.compat.client_wait import DeltaStream, wait_for_answer
from holdfast.web.compat.openai_messages import (
    refusal,
    refuse_unsupported,
    response_messages,
    session_of,
    split,
)
from holdfast.web.contract import WebDep, WebParts
from holdfast.web.problems import openai_error_responses, request_id
from holdfast.web.streams import EVENTS, StreamResponse

router = APIRouter(prefix="/v1", tags=["openai"])

PREFIX = "resp_"


class InputItem(LenientBody):
    type: str = "message"
    role: Role | None = None
    content: str | list[ChatPart] | None = None


class ConversationRef(LenientBody):
    id: str


class ResponseRequest(LenientBody):
    """A response as OpenAI's clients ask for it. Sampling parameters are taken and left aside."""

    model: str = Field(default="", description="any name is taken; the model of the settings answers")
    input: Annotated[str, Field(min_length=1)] | Annotated[list[InputItem], Field(min_length=1)]
    instructions: str | None = None
    stream: bool | None = False
    conversation: str | ConversationRef | None = Field(default=None, description="names the session")
    previous_response_id: str | None = Field(default=None, description="goes on in that response's session")


@router.post(
    "/responses",
    responses={
        200: {"content": {EVENTS: {"schema": {"type": "string"}}}},
        **openai_error_responses(*FAILURE_STATUSES),
    },
)
async def respond_to(web: WebDep, request: Request, body: ResponseRequest) -> Response:
    """Answer the last message of the input; with `stream`, as it is written."""
    given = body.model_dump(exclude_unset=True)
    refuse_unsupported(given)
    if body.stream:
        web.streams.refuse_when_full()
    history, message = split(response_messages(given["input"], given.get("instructions")))
    response_id = given.get("previous_response_id") or ""
    before = _session_of_response(response_id)
    session = session_of(request.headers, given.get("conversation"), before)
    turn = ApiTurn(web, ApiRequest(session, history, message, response_id if session == before else ""))
    await turn.prepare()
    wire = _ResponseFormat(web, turn, given)
    try:
        if body.stream:
            pieces = DeltaStream(turn)
            await pieces.start(request)
            chunks = wire.chunks(pieces)
            return StreamResponse(chunks, media_type=EVENTS, headers=turn.headers, then=pieces.aclose)
        await wait_for_answer(request, turn)
    except AnswerFailed as failed:
        return failed.fault.response(request_id(request.scope), turn.headers)
    return Response(json.dumps(wire.whole("completed")), headers=turn.headers, media_type="application/json")


def _session_of_response(response_id: str | None) -> str:
    """The session that an earlier response was made in: its id tells."""
    if not response_id:
        return ""
    session, _, own = response_id.removeprefix(PREFIX).rpartition("_")
    if not response_id.startswith(PREFIX) or not session or not own:
        raise refusal("response", f"there is no response {response_id[:200]!r} here.", "Leave it out.")
    return session


class _ResponseFormat:
    """One turn in the shape of a response."""

    def __init__(self, web: WebParts, turn: ApiTurn, given: Mapping[str, Any]) -> None:
        self._turn = turn
        self._given = given
        self._model = web.host.model.name if web.host.model else "holdfast"
        self._created = web.clock.now()
        self._number = 0
        self._id = f"{PREFIX}{turn.session_id}_{new_id()}"

    def whole(self, status: str, error: dict[str, str] | None = None) -> dict[str, Any]:
        spent = self._turn.usage
        done = status == "completed"
        return {
            "id": self._id,
            "object": "response",
            "created_at": self._created,
            "status": status,
            "error": error,
            "incomplete_details": None,
            "instructions": self._given.get("instructions"),
            "model": self._model,
            "output": [self._item("completed")] if done else [],
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "temperature": None,
            "top_p": None,
            "metadata": {},
            "previous_response_id": self._given.get("previous_response_id"),
            "conversation": {"id": self._turn.session_id},
            "usage": {
                "input_tokens": spent.input,
                "input_tokens_details": {"cached_tokens": spent.cached},
                "output_tokens": spent.output,
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": spent.input + spent.output,
            }
            if done
            else None,
        }

    async def chunks(self, source: DeltaStream) -> AsyncGenerator[bytes, None]:
        where = {"item_id": self._item_id, "output_index": 0, "content_index": 0}
        yield self._event("response.created", response=self.whole("in_progress"))
        yield self._event("response.in_progress", response=self.whole("in_progress"))
        empty = {**self._item("in_progress"), "content": []}
        yield self._event("response.output_item.added", output_index=0, item=empty)
        yield self._event("response.content_part.added", **where, part={**self._part(), "text": ""})
        try:
            async with aclosing(source) as pieces:
                async for piece in pieces:
                    if piece.text:
                        delta = {"delta": piece.text, "logprobs": []}
                        yield self._event("response.output_text.delta", **where, **delta)
        except AnswerFailed as failed:
            error = {"code": failed.fault.code, "message": str(failed)}
            yield self._event("response.failed", response=self.whole("failed", error))
            return
        part = self._part()
        yield self._event("response.output_text.done", **where, text=part["text"], logprobs=[])
        yield self._event("response.content_part.done", **where, part=part)
        yield self._event("response.output_item.done", output_index=0, item=self._item("completed"))
        yield self._event("response.completed", response=self.whole("completed"))

    @property
    def _item_id(self) -> str:
        return f"msg_{self._turn.session_id}"

    def _part(self) -> dict[str, Any]:
        return {"type": "output_text", "text": self._turn.text, "annotations": []}

    def _item(self, status: str) -> dict[str, Any]:
        return {
            "id": self._item_id,
            "type": "message",
            "role": "assistant",
            "status": status,
            "content": [self._part()],
        }

    def _event(self, kind: str, **content: Any) -> bytes:  # noqa: ANN401 - JSON
        data = {"type": kind, "sequence_number": self._number, **content}
        self._number += 1
        return f"event: {kind}\ndata: {json.dumps(data)}\n\n".encode()
