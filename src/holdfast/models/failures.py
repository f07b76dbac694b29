"""Turns what a model server said when it failed into the named errors of `core/errors/models.py`.

Adapters read the status, the headers and the body; `failure` decides. It looks at the status and at the
code and type fields. It reads message text only where a server gives nothing else to go by.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any

from holdfast.core.errors import (
    ContextTooLong,
    KeyRejected,
    ModelBusy,
    ModelFailure,
    ModelUnknown,
    ModelUnreachable,
    NoCredit,
    RequestRejected,
    StreamBroken,
)
from holdfast.core.secret import MASK, Secret
from holdfast.models.server import Server

LONGEST_QUOTE = 600
"""How much of a server's own words an error carries, in characters."""

NO_CREDIT = frozenset({"insufficient_quota", "insufficient_credits", "billing_error", "billing_not_active"})
TOO_LONG = frozenset({"context_length_exceeded", "exceed_context_size_error", "request_too_large"})
UNKNOWN_MODEL = frozenset({"model_not_found", "invalid_model"})
BAD_KEY = frozenset({"invalid_api_key", "authentication_error", "permission_error"})
BUSY = frozenset({"rate_limit_exceeded", "rate_limit_error", "overloaded_error"})
FINAL = frozenset({"invalid_request_error", "not_found_error", "badrequesterror"})

# Anthropic says only `invalid_request_error` when a prompt is too long, vLLM only `BadRequestError`,
# OpenRouter only 400: their sentences are all there is to tell it from any other bad request.
TOO_LONG_SENTENCES = (
    "prompt is too long",
    "exceed context limit",
    "maximum context length",
    "exceeds the available context size",
    "context window",
)

STATUS_BAD_REQUEST = 400
STATUS_UNAUTHORISED = 401
STATUS_NO_CREDIT = 402
STATUS_FORBIDDEN = 403
STATUS_NOT_FOUND = 404
STATUS_TOO_LARGE = 413
STATUS_TOO_MANY = 429
STATUS_OVERLOADED = 529
SERVER_FAULTS = 500
TRANSIENT = frozenset({408, 409, 425})


@dataclass(frozen=True, slots=True)
class ServerSaid:
    """A refusal as the server worded it; `labels` are its code and type fields."""

    status: int | None
    labels: frozenset[str] = frozenset()
    message: str = ""
    retry_after: float | None = None
    described: bool = False
    """Whether the body was an error object rather than a web page or nothing."""
    flagged: bool = False
    """Whether a moderator refused the content."""

    def quoted(self) -> str:
        status = f"HTTP {self.status}" if self.status else ""
        return ": ".join(part for part in (status, self.message) if part) or "no reason was given"


def server_said(
    status: int | None, body: object, headers: Mapping[str, str], *, now: float, key: Secret | None
) -> ServerSaid:
    """Read a refusal from its parts. `status` None: it came inside a stream that had begun well."""
    error = _error_object(body)
    labels = [error.get(name) for name in ("code", "type")]
    in_body = next((label for label in labels if isinstance(label, int)), None) or _number(error.get("code"))
    if status is None and in_body is not None and in_body >= STATUS_BAD_REQUEST:
        status = in_body
    metadata = error.get("metadata")
    details = metadata if isinstance(metadata, Mapping) else {}
    return ServerSaid(
        status=status,
        labels=frozenset(label.lower() for label in labels if isinstance(label, str)),
        message=masked(_words(error, details, body), key),
        retry_after=retry_after_seconds(headers, now),
        described=bool(error.get("message") or any(isinstance(label, str) for label in labels)),
        flagged="reasons" in details,
    )


def failure(model: str, said: ServerSaid, *, began: bool = False) -> ModelFailure:
    """The named error for a refusal; `began`: part of the answer had come already."""
    problem, labels, status = said.quoted(), said.labels, said.status
    if _is_too_long(said):
        return ContextTooLong(model, problem)
    if status == STATUS_NO_CREDIT or labels & NO_CREDIT:
        return NoCredit(model, problem)
    if said.flagged:
        return RequestRejected(model, problem)
    if status in (STATUS_UNAUTHORISED, STATUS_FORBIDDEN) or labels & BAD_KEY:
        return KeyRejected(model, problem)
    if labels & UNKNOWN_MODEL or (status == STATUS_NOT_FOUND and said.described):
        return ModelUnknown(model, problem)
    if status == STATUS_NOT_FOUND:
        return RequestRejected(model, f"{problem}. There is nothing at that address; check base_url")
    return _passing(model, said, began=began) or RequestRejected(model, problem)


def _passing(model: str, said: ServerSaid, *, began: bool) -> ModelUnreachable | None:
    """The error when the same request may succeed later; None when it won't."""
    status, labels, problem = said.status, said.labels, said.quoted()
    if status in (STATUS_TOO_MANY, STATUS_OVERLOADED) or labels & BUSY:
        return ModelBusy(model, problem, said.retry_after)
    if status is None and labels & FINAL:
        return None
    if status is not None and status < SERVER_FAULTS and status not in TRANSIENT:
        return None
    kind = StreamBroken if began else ModelUnreachable
    return kind(model, problem, said.retry_after)


def _is_too_long(said: ServerSaid) -> bool:
    if said.labels & TOO_LONG or said.status == STATUS_TOO_LARGE:
        return True
    said_so = any(sentence in said.message.lower() for sentence in TOO_LONG_SENTENCES)
    return said_so and said.status in (STATUS_BAD_REQUEST, None)


def unanswered(model: str, server: Server, cause: Exception, *, began: bool) -> ModelUnreachable:
    """The error when the connection failed, fell silent, or carried something that can't be read."""
    import httpx2

    # An SDK wraps what the HTTP library raised.
    root = cause if isinstance(cause, httpx2.HTTPError) else cause.__cause__ or cause
    if isinstance(root, httpx2.ConnectTimeout):
        problem = f"no connection to {server.shown} within {server.connect_seconds:g} s"
    elif isinstance(root, httpx2.TimeoutException):
        problem = f"{server.shown} was silent for {server.stall_seconds:g} s"
    else:
        problem = f"{server.shown}: {masked(str(root), server.key) or type(root).__name__}"
    return (StreamBroken if began else ModelUnreachable)(model, problem)


def quotable(cause: Exception, key: Secret | None) -> Exception | None:
    """The cause, for a traceback; None when it quotes the key."""
    return None if key and key.reveal() in repr(cause) else cause


def retry_after_seconds(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds until the server wants to be asked again: a number or an HTTP date; None if not said."""
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
    """The text without the key, on one line and not endlessly long."""
    if key:
        text = text.replace(key.reveal(), MASK)
    text = " ".join(text.split())
    return text if len(text) <= LONGEST_QUOTE else f"{text[:LONGEST_QUOTE]}…"


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
    # A router puts the words of the server behind it here, and only "returned error" into its own.
    upstream = details.get("raw")
    found = [str(part) for part in (message, upstream) if part]
    if not found and isinstance(body, str) and not body.lstrip().startswith("<"):
        found = [body]
    return ": ".join(found)
