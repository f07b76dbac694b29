"""`fetch_json`: one request to an issuer of sign-ins, with limits of time and size.

Nothing is followed elsewhere, and no answer is read further than its limit.
"""

import asyncio
import json
from typing import Any

import httpx2

MOST_BYTES = 256 * 1024
SECONDS = 10.0


class IssuerFailed(Exception):
    """The issuer can't be reached, or what it said can't be used. The message is for the log."""


async def fetch_json(method: str, url: str, **sent: Any) -> dict[str, Any]:  # noqa: ANN401 - as httpx takes it
    """The object of the answer. Raises `IssuerFailed`."""
    try:
        async with (
            asyncio.timeout(SECONDS),
            httpx2.AsyncClient(timeout=SECONDS, follow_redirects=False) as client,
            client.stream(method, url, headers={"Accept": "application/json"}, **sent) as answer,
        ):
            content = await _read(answer)
    except TimeoutError:
        raise IssuerFailed(f"{url} did not answer within {SECONDS:g} s") from None
    except (httpx2.HTTPError, httpx2.InvalidURL) as cause:
        raise IssuerFailed(f"{url} can't be asked: {type(cause).__name__}: {cause}") from cause
    found = _object(content)
    if answer.status_code != httpx2.codes.OK:
        why = str((found or {}).get("error", ""))[:200]
        raise IssuerFailed(f"{url} answered {answer.status_code} {why}".rstrip())
    if found is None:
        raise IssuerFailed(f"{url} did not answer with an object of JSON")
    return found


async def _read(answer: httpx2.Response) -> bytes:
    content = bytearray()
    async for piece in answer.aiter_bytes():
        content += piece
        if len(content) > MOST_BYTES:
            raise IssuerFailed(f"{answer.request.url} answered with more than {MOST_BYTES // 1024} KiB")
    return bytes(content)


def _object(content: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
