"""Scripts as JSON files, and the HTTP form of a script's errors. Read `scripted_server.py` first."""

import json
from collections.abc import Mapping
from typing import Any, cast

from holdfast.core.errors import (
    ContextTooLong,
    InvalidInput,
    KeyRejected,
    ModelBusy,
    ModelFailure,
    ModelUnknown,
    ModelUnreachable,
    NoCredit,
    RequestRejected,
    StreamBroken,
)
from holdfast.testing.scripted_model import Delay, Entry, Reasoning, Tokens

# A subclass comes before its base class, because the first match is taken.
REFUSALS: tuple[tuple[type[ModelFailure], int, str, str], ...] = (
    (ModelBusy, 429, "rate_limit_exceeded", "requests"),
    (KeyRejected, 401, "invalid_api_key", "invalid_request_error"),
    (NoCredit, 402, "insufficient_quota", "insufficient_quota"),
    (ModelUnknown, 404, "model_not_found", "invalid_request_error"),
    (ContextTooLong, 400, "context_length_exceeded", "invalid_request_error"),
    (RequestRejected, 400, "invalid_value", "invalid_request_error"),
    (ModelUnreachable, 500, "server_error", "server_error"),
)


class HttpRefusal(Exception):
    """An HTTP status with an error body and headers."""

    def __init__(
        self, status: int, error: Mapping[str, Any] | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(f"HTTP {status}")
        self.status = status
        self.error = {"message": f"scripted {status}", "type": "scripted", "code": None, **(error or {})}
        self.headers = dict(headers or {})


def as_refusal(error: Exception) -> HttpRefusal | None:
    """The HTTP form of an error; None for one that can only break the connection."""
    if isinstance(error, HttpRefusal):
        return error
    if isinstance(error, StreamBroken):
        return None
    for kind, status, code, label in REFUSALS:
        if isinstance(error, kind):
            wait = getattr(error, "retry_after", None)
            headers = {} if wait is None else {"retry-after": f"{wait:g}"}
            return HttpRefusal(status, {"message": str(error), "code": code, "type": label}, headers)
    return HttpRefusal(500, {"message": str(error)})


def read_script(text: str) -> list[Entry]:
    """A script from JSON; raises `InvalidInput` when it isn't a list of entries."""
    try:
        entries = json.loads(text)
    except ValueError as cause:
        raise InvalidInput(f"the script is not JSON: {cause}") from cause
    if not isinstance(entries, list):
        raise InvalidInput("a script is a JSON list of answers")
    return [_entry(entry) for entry in entries]


def _entry(entry: Any) -> Entry:  # noqa: ANN401 - JSON holds anything
    if isinstance(entry, list):
        return [_entry(part) for part in entry]
    if not isinstance(entry, dict):
        return cast(Entry, entry)  # checked when it is played
    if "error" in entry:
        error = {name: entry[name] for name in ("message", "code", "type") if name in entry}
        return HttpRefusal(int(entry["error"]), error, entry.get("headers"))
    if entry.get("broken"):
        return StreamBroken("scripted", "the script breaks it here")
    if "delay" in entry:
        return Delay(float(entry["delay"]))
    if "reasoning" in entry:
        return Reasoning(str(entry["reasoning"]))
    if "tokens" in entry:
        return Tokens(**entry["tokens"])
    return entry
