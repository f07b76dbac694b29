"""Turns the error of a model server into one of the errors in `core/errors/model_errors.py`.

Adapters read the status, the headers and the body; `model_failure` decides by the status and by the fields
`code` and `type`. It reads the message text only where a server gives nothing else.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any

from holdfast.core.errors import (
    ContentRejected,
    ContextTooLong,
    KeyForbidden,
    KeyRejected,
    ModelBusy,
    ModelFailure,
    ModelUnknown,
    ModelUnreachable,
    NoCredit,
    RequestRejected,
    StreamBroken,
)
from holdfast.core.secret import Secret
from holdfast.models.server import Server

MAX_QUOTE_LENGTH = 600
"""Longer messages of a server are cut."""

NO_CREDIT = frozenset({"insufficient_quota", "insufficient_credits", "billing_error", "billing_not_active"})
TOO_LONG = frozenset({"context_length_exceeded", "exceed_context_size_error", "request_too_large"})
UNKNOWN_MODEL = frozenset({"model_not_found", "invalid_model"})
BAD_KEY = frozenset({"invalid_api_key", "authentication_error"})
NOT_ALLOWED = frozenset({"permission_error", "insufficient_permissions", "request_forbidden"})
BUSY = frozenset({"rate_limit_exceeded", "rate_limit_error", "overloaded_error"})
FINAL = frozenset({"invalid_request_error", "not_found_error", "badrequesterror"})

# When a prompt is too long, Anthropic gives only `invalid_request_error`, vLLM only `BadRequestError` and
# OpenRouter only 400. Only the message differs from that of other bad requests.
TOO_LONG_SENTENCES = (
    "prompt is too long",
    "exceed context limit",
    "maximum context length",
    "exceeds the available context size",
    "context window",
)

OVERLOADED = 529
"""A status that Anthropic's API adds to those of HTTP."""
TRANSIENT = frozenset({408, 409, 425})
ABOUT_CONTENT = frozenset({400, 415, 422})


@dataclass(frozen=True, slots=True)
class ServerError:
    """The error of a server; `labels` are its fields `code` and `type`."""

    status: int | None
    labels: frozenset[str] = frozenset()
    message: str = ""
    retry_after: float | None = None
    described: bool = False
    """Whether the body was an error object, and not a web page or empty."""
    flagged: bool = False
    """Whether a moderator refused the content."""

    def quoted(self) -> str:
        status = f"HTTP {self.status}" if self.status else ""
        return ": ".join(part for part in (status, self.message) if part) or "no reason was given"


def read_server_error(
    status: int | None, body: object, headers: Mapping[str, str], *, now: float, key: Secret | None
) -> ServerError:
    """Read the error from its parts. `status` is None when it came inside a stream that had begun."""
    error = _error_object(body)
    labels = [error.get(name) for name in ("code", "type")]
    in_body = next((label for label in labels if isinstance(label, int)), None) or _number(error.get("code"))
    if status is None and in_body is not None and in_body >= HTTPStatus.BAD_REQUEST:
        status = in_body
    metadata = error.get("metadata")
    details = metadata if isinstance(metadata, Mapping) else {}
    return ServerError(
        status=status,
        labels=frozenset(label.lower() for label in labels if isinstance(label, str)),
        message=masked(_words(error, details, body), key),
        retry_after=retry_after_seconds(headers, now),
        described=bool(error.get("message") or any(isinstance(label, str) for label in labels)),
        flagged="reasons" in details,
    )


def model_failure(model: str, error: ServerError, *, began: bool = False) -> ModelFailure:
    """The exception for an error of the server; `began` says whether part of the answer had arrived."""
    problem, labels, status = error.quoted(), error.labels, error.status
    if _is_too_long(error):
        return ContextTooLong(model, problem)
    if status == HTTPStatus.PAYMENT_REQUIRED or labels & NO_CREDIT:
        return NoCredit(model, problem)
    if error.flagged:
        return ContentRejected(model, problem)
    if status == HTTPStatus.FORBIDDEN or labels & NOT_ALLOWED:
        return KeyForbidden(model, problem)
    if status == HTTPStatus.UNAUTHORIZED or labels & BAD_KEY:
        return KeyRejected(model, problem)
    if labels & UNKNOWN_MODEL or (status == HTTPStatus.NOT_FOUND and error.described):
        return ModelUnknown(model, problem)
    if status == HTTPStatus.NOT_FOUND:
        return RequestRejected(model, f"{problem}. There is nothing at that address; check base_url")
    return _transient_failure(model, error, began=began) or _final_failure(model, error)


def _transient_failure(model: str, error: ServerError, *, began: bool) -> ModelUnreachable | None:
    """The exception when the same request may succeed later; None when it won't."""
    status, labels, problem = error.status, error.labels, error.quoted()
    if status in (HTTPStatus.TOO_MANY_REQUESTS, OVERLOADED) or labels & BUSY:
        return ModelBusy(model, problem, error.retry_after)
    if status is None and labels & FINAL:
        return None
    if status is not None and status < HTTPStatus.INTERNAL_SERVER_ERROR and status not in TRANSIENT:
        return None
    kind = StreamBroken if began else ModelUnreachable
    return kind(model, problem, error.retry_after)


def _final_failure(model: str, error: ServerError) -> RequestRejected:
    """The exception when the same request will fail again."""
    about_content = error.status is None or error.status in ABOUT_CONTENT
    return (ContentRejected if about_content else RequestRejected)(model, error.quoted())


def _is_too_long(error: ServerError) -> bool:
    if error.labels & TOO_LONG or error.status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
        return True
    said_so = any(sentence in error.message.lower() for sentence in TOO_LONG_SENTENCES)
    return said_so and error.status in (HTTPStatus.BAD_REQUEST, None)


def connection_failure(model: str, server: Server, cause: Exception, *, began: bool) -> ModelUnreachable:
    """The exception when the connection failed, was silent, or sent something unreadable."""
    import httpx2

    # An SDK wraps what the HTTP library raised.
    root = cause if isinstance(cause, httpx2.HTTPError) else cause.__cause__ or cause
    if isinstance(root, httpx2.ConnectTimeout):
        problem = f"no connection to {server.display_url} within {server.connect_seconds:g} s"
    elif isinstance(root, httpx2.TimeoutException):
        problem = f"{server.display_url} was silent for {server.stall_seconds:g} s"
    else:
        problem = f"{server.display_url}: {masked(str(root), server.key) or type(root).__name__}"
    return (StreamBroken if began else ModelUnreachable)(model, problem)


def safe_cause(cause: Exception, key: Secret | None) -> Exception | None:
    """The cause, for a traceback; None when it contains the key."""
    return None if key and key.is_in(repr(cause)) else cause


def retry_after_seconds(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds until the next request, from a number or an HTTP date; None if the server does not say."""
    milliseconds = _seconds(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    given = headers.get("retry-after")
    seconds = _seconds(given)
    if seconds is not None or given is None:
        return seconds
    try:
        return max(0.0, parsedate_to_datetime(given).timestamp() - now)
    except (ValueError, OverflowError, OSError):
        return None


def masked(text: str, key: Secret | None) -> str:
    """The text with the key masked, on one line, cut to a maximum length."""
    if key:
        text = key.masked_in(text)
    text = " ".join(text.split())
    return text if len(text) <= MAX_QUOTE_LENGTH else f"{text[:MAX_QUOTE_LENGTH]}…"


def _seconds(value: str | None) -> float | None:
    try:
        seconds = float(value or "")
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


def _number(value: object) -> int | None:
    return int(value) if isinstance(value, str) and value.isascii() and value.isdecimal() else None


def _error_object(body: object) -> Mapping[str, Any]:
    if not isinstance(body, Mapping):
        return {}
    inner = body.get("error", body)
    if isinstance(inner, Mapping):
        return inner
    return {"message": inner} if isinstance(inner, str) else {}


def _words(error: Mapping[str, Any], details: Mapping[str, Any], body: object) -> str:
    message = error.get("message") or error.get("detail")
    # A router puts the message of the upstream server here; its own message is only "returned error".
    upstream = details.get("raw")
    found = [str(part) for part in (message, upstream) if part]
    if not found and isinstance(body, str) and not body.lstrip().startswith("<"):
        found = [body]
    return ": ".join(found)
