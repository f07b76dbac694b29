"""`POST /v1/chat/completions`, streamed and whole."""

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field

from holdfast.models.contract import Usage
from holdfast.web.bodies import LenientBody
from holdfast.web.compat.api_turn import FAILURE_STATUSES, AnswerDelta, AnswerFailed, ApiRequest, ApiTurn
from holdfast.web.compat.client_wait import DeltaStream, wait_for_answer
from holdfast.web.compat.openai_messages import chat_messages, refuse_unsupported, session_of, split
from holdfast.web.contract import WebDep, WebParts
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


class StreamOptions(LenientBody):
    include_usage: bool | None = None


class ChatRequest(LenientBody):
    """A chat completion as OpenAI's clients ask for it. Sampling parameters are taken and left aside."""

    model: str = Field(default="", description="any name is taken; the model of the settings answers")
    messages: Annotated[list[ChatMessage], Field(min_length=1, max_length=100_000)]
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    conversation: Any = Field(default=None, description="names the session: its id, or an object with one")


class AnswerMessage(BaseModel):
    role: Literal["assistant"] = "assistant"
    content: str
    refusal: None = None


class ChatChoice(BaseModel):
    index: int = 0
    message: AnswerMessage
    finish_reason: Literal["stop"] = "stop"
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
async def complete(web: WebDep, request: Request, body: ChatRequest) -> Response:
    """Answer the last message; with `stream`, as it is written."""
    given = body.model_dump(exclude_unset=True)
    refuse_unsupported(given)
    if body.stream:
        web.streams.refuse_when_full()
    history, message = split(chat_messages(given["messages"]))
    session = session_of(request.headers, given.get("conversation"))
    turn = ApiTurn(web, ApiRequest(session, history, message))
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
    return Response(wire.whole().model_dump_json(), headers=turn.headers, media_type="application/json")


class _ChatFormat:
    """One turn in the shape of a chat completion."""

    def __init__(self, web: WebParts, turn: ApiTurn, request: str) -> None:
        self._turn = turn
        self._request = request
        self._model = web.host.model.name if web.host.model else "holdfast"
        self._created = int(web.clock.now())

    def whole(self) -> ChatCompletion:
        return ChatCompletion(
            id=f"chatcmpl-{self._turn.turn_id}",
            created=self._created,
            model=self._model,
            choices=[ChatChoice(message=AnswerMessage(content=self._turn.text))],
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
        end = self._chunk([{"index": 0, "delta": {}, "finish_reason": "stop", "logprobs": None}])
        if usage:
            end += self._chunk([], usage=ChatUsage.of(self._turn.usage).model_dump())
        yield end + b"data: [DONE]\n\n"

    def _piece(self, piece: AnswerDelta) -> bytes:
        delta = {"content": piece.text, "reasoning_content": piece.reasoning}
        return self._delta({name: text for name, text in delta.items() if text})

    def _delta(self, delta: dict[str, str]) -> bytes:
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
