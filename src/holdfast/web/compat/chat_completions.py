"""`POST /v1/chat/completions`, streamed and whole."""

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field

from holdfast.core.contract import ToolCall
from holdfast.models.contract import Usage
from holdfast.web.bodies import LenientBody
from holdfast.web.compat.api_turn import FAILURE_STATUSES, AnswerDelta, AnswerFailed, ApiRequest, ApiTurn
from holdfast.web.compat.client_tools import MEMORY_HEADER, SamplingBody, Tokens, client_request, switch
from holdfast.web.compat.client_wait import DeltaStream, wait_for_answer
from holdfast.web.compat.openai_messages import chat_messages, session_of, split
from holdfast.web.contract import WebDep, WebParts
from holdfast.web.principal import PrincipalDep
from holdfast.web.problems import openai_error_responses, request_id
from holdfast.web.streams import EVENTS, StreamResponse

router = APIRouter(prefix="/v1", tags=["openai"])

Role = Literal["system", "developer", "user", "assistant", "tool", "function"]


class ChatPart(LenientBody):
    type: str
    text: str | None = None


class ChatMessage(LenientBody):
    role: Role
    content: str | list[ChatPart] | None = None
    tool_calls: list[dict[str, Any]] | None = None
    tool_call_id: str | None = None


class StreamOptions(LenientBody):
    include_usage: bool | None = None


class ChatRequest(SamplingBody):
    """A chat completion as OpenAI's clients ask for it."""

    model: str = Field(
        default="", description="one of GET /v1/models; any other name leaves the session's as it is"
    )
    messages: Annotated[list[ChatMessage], Field(min_length=1, max_length=100_000)]
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    max_tokens: Tokens | None = None
    max_completion_tokens: Tokens | None = None
    tool_choice: str | dict[str, Any] | None = None
    response_format: dict[str, Any] | None = Field(
        default=None, description="json_object, or json_schema with a schema of type object; it is checked"
    )
    conversation: Any = Field(default=None, description="names the session: its id, or an object with one")


class AnswerMessage(BaseModel):
    role: Literal["assistant"] = "assistant"
    content: str | None
    refusal: None = None
    tool_calls: list[dict[str, Any]] | None = None


class ChatChoice(BaseModel):
    index: int = 0
    message: AnswerMessage
    finish_reason: Literal["stop", "length", "tool_calls"] = "stop"
    logprobs: None = None


class ChatUsage(BaseModel):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: dict[str, int]

    @classmethod
    def of(cls, spent: Usage) -> "ChatUsage":
        return cls(
            prompt_tokens=spent.input,
            completion_tokens=spent.output,
            total_tokens=spent.input + spent.output,
            prompt_tokens_details={"cached_tokens": spent.cached},
        )


class ChatCompletion(BaseModel):
    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str
    choices: list[ChatChoice]
    usage: ChatUsage


@router.post(
    "/chat/completions",
    response_model=ChatCompletion,
    responses={
        200: {"content": {EVENTS: {"schema": {"type": "string"}}}},
        **openai_error_responses(*FAILURE_STATUSES),
    },
)
async def complete(web: WebDep, request: Request, principal: PrincipalDep, body: ChatRequest) -> Response:
    """Answer the last message; with `stream`, as it is written."""
    given = body.model_dump(exclude_unset=True)
    client = client_request(given, request.headers)
    if body.stream:
        web.streams.refuse_when_full()
    words = split(chat_messages(given["messages"]))
    session = session_of(request.headers, given.get("conversation"))
    memory = switch(request.headers, MEMORY_HEADER)
    turn = ApiTurn(web, ApiRequest(session, words, client, body.model, memory, principal=principal))
    await turn.prepare()
    wire = _ChatFormat(web, turn, request_id(request.scope))
    try:
        if body.stream:
            usage = bool(body.stream_options and body.stream_options.include_usage)
            pieces = DeltaStream(turn)
            await pieces.start(request)
            chunks = wire.chunks(pieces, usage)
            return StreamResponse(chunks, media_type=EVENTS, headers=turn.headers, then=pieces.aclose)
        await wait_for_answer(request, turn)
    except AnswerFailed as failed:
        return failed.fault.response(request_id(request.scope), turn.headers)
    whole = wire.whole().model_dump_json()
    return Response(whole, headers=turn.headers, media_type="application/json")


class _ChatFormat:
    """One turn in the shape of a chat completion."""

    def __init__(self, web: WebParts, turn: ApiTurn, request: str) -> None:
        self._turn = turn
        self._request = request
        self._model = turn.model
        self._created = int(web.clock.now())

    def whole(self) -> ChatCompletion:
        calls = [dict(call) for call in self._turn.calls]
        message = AnswerMessage(content=self._turn.text or (None if calls else ""), tool_calls=calls or None)
        return ChatCompletion(
            id=f"chatcmpl-{self._turn.turn_id}",
            created=self._created,
            model=self._model,
            choices=[ChatChoice(message=message, finish_reason=self._turn.finish_reason)],
            usage=ChatUsage.of(self._turn.usage),
        )

    async def chunks(self, source: DeltaStream, usage: bool) -> AsyncGenerator[bytes, None]:
        yield self._delta({"role": "assistant", "content": ""})
        try:
            async with aclosing(source) as pieces:
                async for piece in pieces:
                    yield self._piece(piece)
        except AnswerFailed as failed:
            yield _data(failed.fault.body(self._request))
            return
        reason = self._turn.finish_reason
        end = self._chunk([{"index": 0, "delta": {}, "finish_reason": reason, "logprobs": None}])
        if usage:
            end += self._chunk([], usage=ChatUsage.of(self._turn.usage).model_dump())
        yield end + b"data: [DONE]\n\n"

    def _piece(self, piece: AnswerDelta) -> bytes:
        if piece.calls:
            return b"".join(self._calls(index, call) for index, call in enumerate(piece.calls))
        delta = {"content": piece.text, "reasoning_content": piece.reasoning}
        return self._delta({name: text for name, text in delta.items() if text})

    def _calls(self, index: int, call: ToolCall) -> bytes:
        """A call as clients put it together: its name first, then its arguments."""
        name, arguments = call["function"]["name"], call["function"]["arguments"]
        begun = {"index": index, "id": call["id"], "type": "function"}
        first = {**begun, "function": {"name": name, "arguments": ""}}
        rest = {"index": index, "function": {"arguments": arguments}}
        return self._delta({"tool_calls": [first]}) + self._delta({"tool_calls": [rest]})

    def _delta(self, delta: dict[str, Any]) -> bytes:
        return self._chunk([{"index": 0, "delta": delta, "finish_reason": None, "logprobs": None}])

    def _chunk(self, choices: list[dict[str, Any]], **more: Any) -> bytes:  # noqa: ANN401 - JSON
        chunk = {
            "id": f"chatcmpl-{self._turn.session_id}",
            "object": "chat.completion.chunk",
            "created": self._created,
            "model": self._model,
            "choices": choices,
            **more,
        }
        return _data(chunk)


def _data(content: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(content).encode() + b"\n\n"
