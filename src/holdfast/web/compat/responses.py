"""`/v1/responses`: answer an input, streamed and whole, and read an earlier answer."""

import json
from contextlib import suppress
from typing import Annotated, Any

from fastapi import APIRouter, Request, Response
from pydantic import Field

from holdfast.core.errors import SessionNotFound
from holdfast.web.bodies import LenientBody
from holdfast.web.compat.api_turn import (
    FAILURE_STATUSES,
    RESPONSE_PREFIX,
    AnswerFailed,
    ApiRequest,
    ApiTurn,
)
from holdfast.web.compat.chat_completions import ChatPart, Role
from holdfast.web.compat.client_tools import (
    MEMORY_HEADER,
    SamplingBody,
    Tokens,
    client_request,
    refusal,
    switch,
)
from holdfast.web.compat.client_wait import DeltaStream, wait_for_answer
from holdfast.web.compat.openai_messages import response_messages, session_of, split
from holdfast.web.compat.response_shape import ResponseFormat, stored_response
from holdfast.web.contract import WebDep
from holdfast.web.principal import PrincipalDep
from holdfast.web.problems import ProblemRaised, openai_error_responses, request_id
from holdfast.web.streams import EVENTS, StreamResponse

router = APIRouter(prefix="/v1", tags=["openai"])


class InputItem(LenientBody):
    type: str = "message"
    role: Role | None = None
    content: str | list[ChatPart] | None = None
    call_id: str | None = None
    output: str | list[ChatPart] | None = None


class ConversationRef(LenientBody):
    id: str


class ResponseRequest(SamplingBody):
    """A response as OpenAI's clients ask for it."""

    model: str = Field(
        default="", description="one of GET /v1/models; any other name leaves the session's as it is"
    )
    input: Annotated[str, Field(min_length=1)] | Annotated[list[InputItem], Field(min_length=1)]
    instructions: str | None = None
    stream: bool | None = False
    store: bool | None = Field(default=True, description="false: it is deleted once the answer is given")
    max_output_tokens: Tokens | None = None
    tool_choice: str | dict[str, Any] | None = None
    text: dict[str, Any] | None = Field(default=None, description="the format of the answer; it is checked")
    reasoning: dict[str, Any] | None = None
    conversation: str | ConversationRef | None = Field(default=None, description="names the session")
    previous_response_id: str | None = Field(default=None, description="goes on in that response's session")


@router.post(
    "/responses",
    responses={
        200: {"content": {EVENTS: {"schema": {"type": "string"}}}},
        **openai_error_responses(*FAILURE_STATUSES),
    },
)
async def respond_to(
    web: WebDep, request: Request, principal: PrincipalDep, body: ResponseRequest
) -> Response:
    """Answer the last message of the input; with `stream`, as it is written."""
    given = body.model_dump(exclude_unset=True)
    client = client_request(given, request.headers)
    if body.stream:
        web.streams.refuse_when_full()
    words = split(response_messages(given["input"], given.get("instructions")))
    response_id = given.get("previous_response_id") or ""
    before = _parts(response_id)[0] if response_id else ""
    session = session_of(request.headers, given.get("conversation"), before)
    asked = ApiRequest(
        session,
        words,
        client,
        body.model,
        switch(request.headers, MEMORY_HEADER),
        response_id if session == before else "",
        principal=principal,
        keep=body.store is not False,
    )
    turn = ApiTurn(web, asked)
    await turn.prepare()
    wire = ResponseFormat(web, turn, given)
    try:
        if body.stream:
            pieces = DeltaStream(turn)
            await pieces.start(request)
            chunks = wire.chunks(pieces)
            return StreamResponse(chunks, media_type=EVENTS, headers=turn.headers, then=pieces.aclose)
        await wait_for_answer(request, turn)
    except AnswerFailed as failed:
        return failed.fault.response(request_id(request.scope), turn.headers)
    return Response(json.dumps(wire.whole()), headers=turn.headers, media_type="application/json")


@router.get("/responses/{response_id}", responses=openai_error_responses(400, 404, 422))
async def read_response(web: WebDep, principal: PrincipalDep, response_id: str) -> dict[str, Any]:
    """A response that was given before, or is still being made, as the store has it."""
    session, number = _parts(response_id)
    found = None
    with suppress(SessionNotFound):
        await principal.require_own(web.host, session)
        if number.isdecimal():
            found = await stored_response(web, response_id, session, int(number))
    if found is None:
        raise ProblemRaised(
            404,
            "response_not_found",
            f"there is no response {response_id[:200]!r} here. The setting host.api_days says how long they "
            "are kept; with store: false they are not.",
            "Ask again.",
        )
    return found


def _parts(response_id: str) -> tuple[str, str]:
    """The session that a response was made in, and the number of its message: its id tells."""
    session, _, own = response_id.removeprefix(RESPONSE_PREFIX).rpartition("_")
    if not response_id.startswith(RESPONSE_PREFIX) or not session or not own:
        raise refusal("response", f"there is no response {response_id[:200]!r} here.", "Leave it out.")
    return session, own
