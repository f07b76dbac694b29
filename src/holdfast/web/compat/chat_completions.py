"""`POST /v1/chat/completions`, streamed and whole."""

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from holdfast.web.compat.reading import chat_messages, refuse_unsupported, session_header, session_of, split
from holdfast.web.compat.turns import BROKEN, AnsweredTurn, Asked, Piece, Spent, TurnBroken
from holdfast.web.compat.waiting import answered
from holdfast.web.contract import TheWeb, Web
from holdfast.web.problems import openai_error, request_id, said_of_v1
from holdfast.web.streaming import EVENTS, Last, Stream

router = APIRouter(prefix="/v1", tags=["openai"])

Role = Literal["system", "developer", "user", "assistant", "tool", "function"]


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")


class ChatPart(Open):
    type: str
    text: str | None = None


class ChatMessage(Open):
    role: Role
    content: str | list[ChatPart] | None = None


class StreamOptions(Open):
    include_usage: bool | None = None


class ChatRequest(Open):
    """A chat completion as OpenAI's clients ask for it. Sampling parameters are taken and left aside."""

    model: str = Field(default="", description="any name is taken; the model of the settings answers")
    messages: Annotated[list[ChatMessage], Field(min_length=1, max_length=100_000)]
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    user: str | None = Field(default=None, description="names the session when nothing else does")


class AnswerMessage(BaseModel):
    role: Literal["assistant"] = "assistant"
    content: str
    refusal: None = None


class Choice(BaseModel):
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
    def of(cls, spent: Spent) -> "ChatUsage":
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
    choices: list[Choice]
    usage: ChatUsage


@router.post(
    "/chat/completions",
    response_model=ChatCompletion,
    responses={200: {"content": {EVENTS: {"schema": {"type": "string"}}}}, **said_of_v1(*BROKEN)},
)
async def complete(web: TheWeb, request: Request, body: ChatRequest) -> Response:
    """Answer the last message; with `stream`, as it is written."""
    given = body.model_dump(exclude_unset=True)
    refuse_unsupported(given)
    if body.stream:
        web.streams.refuse_when_full()
    history, message = split(chat_messages(given["messages"]))
    session = session_of(request.headers, given.get("conversation"), given.get("user"))
    turn = AnsweredTurn(web, Asked(session, history, message))
    await turn.begin()
    headers = session_header(turn.session_id)
    wire = _Wire(web, turn, request_id(request.scope))
    if body.stream:
        usage = bool(body.stream_options and body.stream_options.include_usage)
        return Stream(wire.chunks(usage), media_type=EVENTS, headers=headers)
    await answered(request, turn)
    return Response(wire.whole().model_dump_json(), headers=headers, media_type="application/json")


class _Wire:
    """One turn in the shape of a chat completion."""

    def __init__(self, web: Web, turn: AnsweredTurn, request: str) -> None:
        self._web = web
        self._turn = turn
        self._request = request
        self._model = web.host.model.name if web.host.model else "holdfast"
        self._created = int(web.clock.now())

    def whole(self) -> ChatCompletion:
        return ChatCompletion(
            id=f"chatcmpl-{self._turn.turn_id}",
            created=self._created,
            model=self._model,
            choices=[Choice(message=AnswerMessage(content=self._turn.text))],
            usage=ChatUsage.of(self._turn.spent),
        )

    async def chunks(self, usage: bool) -> AsyncGenerator[bytes, None]:
        before = self._delta({"role": "assistant", "content": ""})
        try:
            async with aclosing(self._turn.run(self._web.streams)) as pieces:
                async for piece in pieces:
                    yield before + self._piece(piece)
                    before = b""
        except TurnBroken as broken:
            error = openai_error(broken.status, broken.reason, str(broken), self._request)
            yield before + _data(error)
            return
        end = before + self._chunk([{"index": 0, "delta": {}, "finish_reason": "stop", "logprobs": None}])
        if usage:
            end += self._chunk([], usage=ChatUsage.of(self._turn.spent).model_dump())
        yield Last(end + b"data: [DONE]\n\n")

    def _piece(self, piece: Piece) -> bytes:
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
