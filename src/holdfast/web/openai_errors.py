"""Errors in the shape, and with the statuses, types and codes, that OpenAI's clients know.

An SDK decides by the status and by `x-should-retry` whether it sends a request again. An error that would
only repeat says no, so that the SDK asks once.
"""

import json
import math
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, Field
from starlette.responses import Response

from holdfast.core.errors import (
    ContentRejected,
    ContextTooLong,
    HoldfastError,
    KeyForbidden,
    KeyRejected,
    MessageInvalid,
    MessageTooLong,
    ModelBusy,
    ModelUnknown,
    NoCredit,
    Retryable,
)

INVALID = "invalid_request_error"
TOO_LONG = "context_length_exceeded"
# The first class that fits counts.
KNOWN: tuple[tuple[type[HoldfastError], int, str, str], ...] = (
    (MessageTooLong, 400, INVALID, TOO_LONG),
    (MessageInvalid, 400, INVALID, "invalid_value"),
    (ContextTooLong, 400, INVALID, TOO_LONG),
    (ContentRejected, 400, INVALID, "invalid_value"),
    (KeyForbidden, 403, INVALID, "insufficient_permissions"),
    (KeyRejected, 401, INVALID, "invalid_api_key"),
    (NoCredit, 429, "insufficient_quota", "insufficient_quota"),
    (ModelBusy, 429, "requests", "rate_limit_exceeded"),
    (ModelUnknown, 404, INVALID, "model_not_found"),
)
KINDS = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
SERVER_FAULTS = 500
BAD, UNPROCESSABLE, TOO_MANY, UNAVAILABLE = 400, 422, 429, 503
TRIED_AGAIN = (408, 409, TOO_MANY)
"""The statuses, beside 5xx, after which an SDK sends a request again unless `x-should-retry` says no."""


class OpenAIError(BaseModel):
    message: str = Field(description="what happened, what was kept, and what to do next")
    type: str
    param: None = None
    code: str = Field(description="the kind of problem in one word")
    request_id: str = Field(description="the id of the request in the log")


class OpenAIProblem(BaseModel):
    """The body of every error under `/v1`."""

    error: OpenAIError


@dataclass(frozen=True, slots=True)
class OpenAIFault:
    """An error as a client of `/v1` reads it."""

    status: int
    type: str
    code: str
    message: str
    headers: dict[str, str]

    def body(self, request: str) -> dict[str, Any]:
        said = OpenAIError(message=self.message, type=self.type, code=self.code, request_id=request)
        return OpenAIProblem(error=said).model_dump()

    def response(self, request: str, headers: dict[str, str] | None = None) -> Response:
        both = {**self.headers, **(headers or {})}
        return Response(
            json.dumps(self.body(request)), self.status, headers=both, media_type="application/json"
        )


def fault(
    kind: type[HoldfastError], status: int, message: str, *, retry_after: float | None = None
) -> OpenAIFault:
    """The fault for a class of errors; `status` counts when OpenAI has no code for it."""
    known = next((each[1:] for each in KNOWN if issubclass(kind, each[0])), None)
    # OpenAI has one status for every request that can't be understood.
    status = BAD if status == UNPROCESSABLE else status
    status, type_, code = known or (status, _type_of(status), kind.__name__)
    headers: dict[str, str] = {}
    if not issubclass(kind, Retryable) and (status >= SERVER_FAULTS or status in TRIED_AGAIN):
        headers = {"x-should-retry": "false"} | (retry_headers(retry_after) if retry_after else {})
    elif status in (TOO_MANY, UNAVAILABLE):
        headers = retry_headers(retry_after)
    return OpenAIFault(status, type_, code, message, headers)


def plain_fault(status: int, reason: str, message: str) -> OpenAIFault:
    """The fault for an error of the surface itself."""
    return OpenAIFault(status, _type_of(status), reason, message, {})


def retry_headers(seconds: float | None) -> dict[str, str]:
    """When to try again: after the given seconds, or soon."""
    return {"Retry-After": str(max(1, math.ceil(seconds or 1)))}


def sentences(detail: str, next_: str) -> str:
    """The detail and the next step as sentences."""
    ended = detail if not detail or detail.rstrip().endswith((".", "!", "?", "…")) else f"{detail.rstrip()}."
    return f"{ended} {next_}".strip()


def _type_of(status: int) -> str:
    return KINDS.get(status, "server_error" if status >= SERVER_FAULTS else INVALID)
