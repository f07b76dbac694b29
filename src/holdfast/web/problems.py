"""Errors as problem details (RFC 9457): what happened, what was kept, and what to do next.

One table maps errors to statuses; the first class that fits counts. Under `/v1` the same problem is written
in the shape that OpenAI's clients read.
"""

from http import HTTPStatus
from typing import Any

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from holdfast.core.error_text import error_words
from holdfast.core.errors import (
    BackupRefused,
    ChatPostNotFound,
    ContentRejected,
    ContextTooLong,
    DailyLimitReached,
    DeliveryNotFound,
    DiskFull,
    HoldfastError,
    HostClosed,
    ImportRefused,
    InvalidInput,
    InvitationInvalid,
    KeyRejected,
    ModelBusy,
    ModelFailure,
    ModelUnknown,
    PoolSaturated,
    Refused,
    Retryable,
    SessionElsewhere,
    SessionEnded,
    SessionExists,
    SessionNotFound,
    StorageLimitReached,
    StoreClosed,
    StoreFailure,
    StoreGone,
    TooManyTokens,
    TurnAlreadyRunning,
    TurnNotFound,
    UserExists,
    UserNotFound,
)
from holdfast.web.openai_errors import OpenAIProblem, fault, plain_fault, retry_headers, sentences

AGAIN = "Try again in a moment."
LOOK = "Read the session again: it has changed."
STATUSES: tuple[tuple[type[HoldfastError], int, str], ...] = (
    (SessionNotFound, 404, "List the sessions with GET /api/sessions."),
    (TurnNotFound, 404, "Read the session's messages for the ids of its turns."),
    (DeliveryNotFound, 404, "List what was set aside with GET /api/memory/set-aside."),
    (ChatPostNotFound, 404, "List what could not be delivered with GET /api/chats."),
    (UserNotFound, 404, "List the accounts with GET /api/users."),
    (InvitationInvalid, 404, "Ask for another invitation."),
    (UserExists, 409, "Choose another name."),
    (TooManyTokens, 409, "Revoke one with DELETE /api/users/ID/tokens/TOKEN."),
    (DailyLimitReached, 429, "Ask again later, or ask who runs this installation for more."),
    (StorageLimitReached, 429, "Delete conversations, or ask who runs this installation for more."),
    (HostClosed, 503, "Start Holdfast again, then repeat the request."),
    (StoreClosed, 503, "Start Holdfast again, then repeat the request."),
    (PoolSaturated, 503, AGAIN),
    (StoreGone, 503, "Bring the database back or restart Holdfast, then repeat the request."),
    (DiskFull, 507, "Free some space on the disk, then repeat the request."),
    (SessionElsewhere, 409, "Wait until it is idle there, or stop it there."),
    (TurnAlreadyRunning, 409, "Wait for the turn to end, or interrupt it with POST …/interrupt."),
    (SessionEnded, 409, "Go on in the session that is named, or begin a new one with POST /api/sessions."),
    (SessionExists, 409, "Open the conversation that is stored, or delete it and send the file again."),
    (BackupRefused, 409, LOOK),
    (ImportRefused, 422, "Send a file that Holdfast exported, as it was exported."),
    (InvalidInput, 422, "Correct the request and send it again."),
    (ModelBusy, 429, AGAIN),
    # Not 401, which is for this server's own token.
    (KeyRejected, 502, "Set a valid key for the model, then repeat the request."),
    (ContextTooLong, 422, "Compact the conversation, or begin a new one."),
    (ContentRejected, 422, "Change what was sent, then repeat the request."),
    (ModelUnknown, 422, "List the models there are with GET /api/models."),
    (ModelFailure, 502, "Look at the model's settings with `holdfast model`, then repeat the request."),
    (Retryable, 503, AGAIN),
    (Refused, 409, LOOK),
    (StoreFailure, 500, "Look into the log, and check the store with `holdfast check`."),
    (HoldfastError, 500, "Look into the log for the cause."),
)
NEXT = {
    400: "Correct the request and send it again.",
    404: "Look at /openapi.json for the paths there are.",
    405: "Look at /openapi.json for the methods of this path.",
    408: "Send the request again, faster.",
    413: "Send less at once.",
    415: "Send JSON, with the header Content-Type: application/json.",
}


LATER = (429, 503)
"""Statuses that come with a Retry-After header."""


class Problem(BaseModel):
    """What went wrong: the body of every error."""

    type: str = Field(description="a name for this kind of problem, as a URN")
    title: str
    status: int
    detail: str = Field(description="what happened, and what was kept")
    reason: str = Field(description="the kind of problem in one word")
    next: str = Field(description="what to do next")
    request_id: str = Field(description="the id of the request in the log")


class ProblemRaised(HTTPException):
    """An error of the surface itself."""

    def __init__(
        self, status: int, reason: str, detail: str, next_: str, headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(status, detail, headers)
        self.reason = reason
        self.next = next_


def request_id(scope: Scope) -> str:
    """The id that this request has in the log."""
    return str(scope.get("state", {}).get("request_id", ""))


def is_v1(scope: Scope) -> bool:
    """Whether the path belongs to OpenAI's protocol."""
    return str(scope.get("path", "")).startswith("/v1/")


def respond(
    scope: Scope,
    status: int,
    reason: str,
    detail: str,
    next_: str,
    *,
    headers: dict[str, str] | None = None,
) -> Response:
    """The problem as a response, in the shape that this path's clients read."""
    if is_v1(scope):
        return plain_fault(status, reason, sentences(detail, next_)).response(request_id(scope), headers)
    problem = Problem(
        type=f"urn:holdfast:problem:{reason}",
        title=HTTPStatus(status).phrase,
        status=status,
        detail=detail,
        reason=reason,
        next=next_,
        request_id=request_id(scope),
    )
    return Response(problem.model_dump_json(), status, headers=headers, media_type="application/problem+json")


def status_of(error: type[HoldfastError]) -> tuple[int, str]:
    """The status for a kind of error, and what to do next."""
    return next((status, what) for kind, status, what in STATUSES if issubclass(error, kind))


async def on_holdfast_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HoldfastError)  # noqa: S101 - registered for these alone
    status, what = status_of(type(error))
    wait = getattr(error, "retry_after", None)
    if is_v1(request.scope):
        said = fault(type(error), status, sentences(error_words(error), what), retry_after=wait)
        return said.response(request_id(request.scope))
    headers = retry_headers(wait) if status in LATER else {}
    return respond(request.scope, status, type(error).__name__, error_words(error), what, headers=headers)


async def on_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - registered for these alone
    headers = dict(error.headers or {})
    if isinstance(error, ProblemRaised):
        return respond(
            request.scope, error.status_code, error.reason, error.detail, error.next, headers=headers
        )
    reason = HTTPStatus(error.status_code).phrase.replace(" ", "")
    what = NEXT.get(error.status_code, "Look at /openapi.json for what can be asked.")
    detail = {
        404: f"there is nothing at {request.url.path}",
        405: f"{request.method} is not a method of {request.url.path}",
    }.get(error.status_code, str(error.detail))
    return respond(request.scope, error.status_code, reason, detail, what, headers=headers)


async def on_invalid_request(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)  # noqa: S101 - registered for these alone
    said = "; ".join(_wrong(each) for each in error.errors()[:10])
    return respond(
        request.scope,
        400 if is_v1(request.scope) else 422,
        "InvalidRequest",
        f"the request can't be understood: {said}. Nothing was changed.",
        "Correct the request and send it again; /openapi.json describes it.",
    )


def _wrong(found: Any) -> str:  # noqa: ANN401 - an error of pydantic
    if found["type"] == "json_invalid":
        why = found.get("ctx", {}).get("error", found["msg"])
        return f"the body is no JSON: {why} at character {found['loc'][-1]}"
    return f"{'.'.join(str(part) for part in found['loc'])}: {found['msg']}"


EVERYWHERE = (401, 403, 421, 429, 500, 503)
"""What any route can answer with that needs the token."""


def error_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The problems that a route can answer with, for the description; `DescribedApp` adds the schema."""
    content = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {
        status: {"description": HTTPStatus(status).phrase, "content": content}
        for status in sorted({*EVERYWHERE, *statuses})
    }


def openai_error_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The same for `/v1`, in OpenAI's shape."""
    return {
        status: {"description": HTTPStatus(status).phrase, "model": OpenAIProblem}
        for status in sorted({*EVERYWHERE, *statuses})
    }
