"""Discord's REST API: one call, with its refusals as the port's errors, and files.

The library's own REST client is not used: it waits and repeats by itself when Discord says 429, and the
gateway must decide that. The library keeps the socket, see `discord_socket.py`.
"""

import json
import mimetypes
from collections.abc import Mapping
from contextlib import suppress
from io import BufferedWriter
from pathlib import Path
from typing import Any

import httpx2

from holdfast import __version__
from holdfast.core.secret import Secret
from holdfast.gateway.contract import (
    FileTooLarge,
    NotTaken,
    SendRefused,
    SignInRefused,
    SlowDown,
    Unreachable,
)
from holdfast.process.http_transport import direct_transport

API_URL = "https://discord.com/api/v10"
# Discord wants this form: an address and a version.
USER_AGENT = f"DiscordBot (https://pypi.org/project/holdfast-agent, {__version__})"
TIMEOUT_SECONDS = 30.0
DEFAULT_WAIT_SECONDS = 5.0

UNAUTHORIZED = 401
TOO_LARGE = 413
TOO_MANY = 429
SERVER_ERROR = 500

Payload = Mapping[str, Any]


class DiscordRefused(SendRefused):
    """Discord said no; `code` is its own number for the reason (0: it gave none)."""

    UNKNOWN_MESSAGE = 10008
    UNKNOWN_INTERACTION = 10062
    ENTITY_TOO_LARGE = 40005
    ALREADY_ANSWERED = 40060

    def __init__(self, status: int, code: int, reason: str) -> None:
        super().__init__(f"Discord refused it: {reason} (HTTP {status}, code {code})")
        self.status = status
        self.code = code


class DiscordApi:
    """One bot's calls. Used on one event loop."""

    def __init__(self, token: Secret, url: str = API_URL) -> None:
        self._token = token
        self.url = url
        self._client = httpx2.AsyncClient(
            timeout=TIMEOUT_SECONDS, transport=direct_transport(), headers={"user-agent": USER_AGENT}
        )

    async def call(
        self,
        method: str,
        path: str,
        *,
        body: object = None,
        query: Mapping[str, str | int] | None = None,
        file: Path | None = None,
    ) -> Any:  # noqa: ANN401 - what Discord answers, as JSON
        """Ask once. Whatever goes wrong is one of the port's errors."""
        if self._client.is_closed:
            raise NotTaken("the adapter is closed")
        content: dict[str, Any] = {} if body is None else {"json": body}
        if file is not None:
            content = {"data": {"payload_json": json.dumps(body)}, "files": {"files[0]": _upload(file)}}
        headers = {"authorization": f"Bot {self._token.reveal()}"}
        try:
            answer = await self._client.request(
                method, self.url + path, params=query, headers=headers, **content
            )
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as cause:
            raise NotTaken(f"Discord can't be reached: {cause!r}") from cause
        except httpx2.HTTPError as cause:
            raise Unreachable(f"the connection to Discord broke: {cause!r}") from cause
        if answer.is_success:
            return _json(answer)
        raise _refusal(answer)

    async def fetch(self, url: str, target: Path, most: int) -> None:
        """Write what is at this address to `target`. The address is Discord's, for anybody who knows it."""
        try:
            async with self._client.stream("GET", url) as answer:
                await _check(answer)
                with _open_for_writing(target) as out:
                    await _copy(answer, out, most)
        except httpx2.HTTPError as cause:
            _remove(target)
            raise Unreachable(f"the file broke off: {cause!r}") from cause
        except BaseException:
            _remove(target)
            raise

    async def close(self) -> None:
        await self._client.aclose()


async def _check(answer: httpx2.Response) -> None:
    if not answer.is_success:
        await answer.aread()
        raise _refusal(answer)


async def _copy(answer: httpx2.Response, out: BufferedWriter, most: int) -> None:
    written = 0
    async for piece in answer.aiter_bytes():
        written += len(piece)
        if written > most:
            raise FileTooLarge(f"the file has more than {most} bytes")
        out.write(piece)


def _open_for_writing(target: Path) -> BufferedWriter:
    return target.open("wb")


def _remove(target: Path) -> None:
    with suppress(OSError):
        target.unlink(missing_ok=True)


def _upload(file: Path) -> tuple[str, bytes, str]:
    media_type = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
    return file.name, file.read_bytes(), media_type


def _json(answer: httpx2.Response) -> Any:  # noqa: ANN401 - what Discord answers
    if not answer.content:
        return None
    try:
        return answer.json()
    except ValueError as cause:
        raise Unreachable("Discord's answer is not JSON") from cause


def _refusal(answer: httpx2.Response) -> Exception:
    try:
        found = answer.json()
    except ValueError:
        found = {}
    said: Payload = found if isinstance(found, dict) else {}
    reason = str(said.get("message") or answer.reason_phrase)
    code = said["code"] if isinstance(said.get("code"), int) else 0
    if answer.status_code == TOO_MANY:
        return _slow_down(answer, said)
    if answer.status_code == UNAUTHORIZED:
        return SignInRefused(f"Discord does not take this bot's token: {reason}")
    if answer.status_code == TOO_LARGE or code == DiscordRefused.ENTITY_TOO_LARGE:
        return FileTooLarge(f"Discord does not take a file of this size: {reason}")
    if answer.status_code >= SERVER_ERROR:
        return Unreachable(f"Discord has trouble: {reason} (HTTP {answer.status_code})")
    return DiscordRefused(answer.status_code, code, reason)


def _slow_down(answer: httpx2.Response, said: Payload) -> SlowDown:
    """Without `Via` the answer is not the API's but its guard's, which blocks every call from here."""
    wanted = said.get("retry_after") or answer.headers.get("retry-after")
    try:
        seconds = float(wanted or DEFAULT_WAIT_SECONDS)
    except ValueError:  # a header may also name a date
        seconds = DEFAULT_WAIT_SECONDS
    is_global = bool(said.get("global")) or answer.headers.get("x-ratelimit-scope") == "global"
    return SlowDown(seconds, whole_account=is_global or "via" not in answer.headers)
