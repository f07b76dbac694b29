"""Slack's Web API: calls by slack_sdk, with the errors of the port in place of the library's.

slack_sdk repeats a call after a broken connection by itself, which would send a message twice. That is
switched off: the gateway decides what is sent again.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient
from slack_sdk.web.async_slack_response import AsyncSlackResponse

from holdfast.core.secret import Secret
from holdfast.gateway.contract import (
    ChatPlatformError,
    FileTooLarge,
    NotTaken,
    SendRefused,
    SignInRefused,
    SlowDown,
    Unreachable,
)

logger = logging.getLogger(__name__)

Method = Callable[..., Awaitable[AsyncSlackResponse]]
Pause = Callable[[float], Awaitable[None]]

PUBLIC_URL = "https://slack.com/api/"
TIMEOUT = aiohttp.ClientTimeout(total=30.0, sock_connect=10.0)
PAGE = 200
"""How many messages are asked for at once; Slack advises at most 200."""

SLOW = frozenset({"ratelimited", "rate_limited"})
SIGNED_OUT = frozenset(
    {
        "account_inactive",
        "invalid_auth",
        "not_allowed_token_type",
        "not_authed",
        "token_expired",
        "token_revoked",
    }
)
# Slack says of these that a part of the call may have been done.
UNCERTAIN = frozenset({"fatal_error", "internal_error", "request_timeout", "service_unavailable"})
FILE_HOSTS = (".slack.com", ".slack-gov.com")


class SlackRefused(SendRefused):
    """Slack refused a call for good; `error` is its word for the reason."""

    def __init__(self, error: str) -> None:
        super().__init__(f"Slack refuses it: {error}")
        self.error = error


class SlackApi:
    """The Web API with a bot's token. It connects at the first call, on the running event loop."""

    def __init__(self, bot_token: Secret, base_url: str = PUBLIC_URL, pause: Pause = asyncio.sleep) -> None:
        self._bot_token = bot_token
        self._base_url = base_url
        self._pause = pause
        self._web: AsyncWebClient | None = None
        self._session: aiohttp.ClientSession | None = None

    @property
    def session(self) -> aiohttp.ClientSession:
        if self._session is None or self._session.closed:
            self._session = aiohttp.ClientSession(timeout=TIMEOUT)
        return self._session

    @property
    def web(self) -> AsyncWebClient:
        if self._web is None or self._web.session is not self._session:
            # slack_sdk would log the text of every message, and composes those lines in any case.
            quiet = logging.getLogger(f"{__name__}.slack_sdk")
            quiet.setLevel(logging.WARNING)
            self._web = AsyncWebClient(
                self._bot_token.reveal(),
                base_url=self._base_url,
                session=self.session,
                retry_handlers=[],
                logger=quiet,
            )
        return self._web

    async def call(self, method: Method, **arguments: Any) -> AsyncSlackResponse:  # noqa: ANN401
        """One call of a method of `web`."""
        try:
            return await method(**arguments)
        except SlackApiError as cause:
            raise _refusal(cause.response) from cause
        except (aiohttp.ClientError, OSError, TimeoutError) as cause:
            raise _broken(cause) from cause

    async def call_patiently(self, method: Method, **arguments: Any) -> AsyncSlackResponse:  # noqa: ANN401
        """As `call`, but a "slow down" is waited out."""
        while True:
            try:
                return await self.call(method, **arguments)
            except SlowDown as cause:
                logger.info("slack.slow_down", extra={"seconds": cause.seconds})
                await self._pause(cause.seconds)

    async def pages(
        self,
        method: Method,
        *,
        patient: bool = False,
        **arguments: Any,  # noqa: ANN401
    ) -> AsyncIterator[AsyncSlackResponse]:
        """The answers to a call that Slack gives in pages."""
        call = self.call_patiently if patient else self.call
        arguments.setdefault("limit", PAGE)
        while True:
            answer = await call(method, **arguments)
            yield answer
            cursor = (answer.get("response_metadata") or {}).get("next_cursor")
            if not cursor:
                return
            arguments["cursor"] = cursor

    async def upload(self, url: str, content: bytes) -> None:
        """Put a file where Slack said. Nobody sees it yet, so a failure is `NotTaken`."""
        try:
            async with self.session.post(url, data=content, proxy=self.web.proxy) as answer:
                if not answer.ok:
                    raise NotTaken(f"Slack did not take the file: HTTP {answer.status}")
        except (aiohttp.ClientError, OSError, TimeoutError) as cause:
            raise NotTaken(f"the file did not reach Slack: {cause!r}") from cause

    async def fetch(self, url: str, most: int) -> bytes:
        """A person's file, with the bot's token, which only Slack itself is shown."""
        host = urlsplit(url).hostname or ""
        if not host.endswith(FILE_HOSTS) and host != urlsplit(self._base_url).hostname:
            raise SendRefused(f"the file is kept outside Slack, by {host}")
        headers = {"Authorization": f"Bearer {self._bot_token.reveal()}"}
        try:
            async with self.session.get(url, headers=headers, proxy=self.web.proxy) as answer:
                return await _content(answer, most)
        except (aiohttp.ClientError, OSError, TimeoutError) as cause:
            raise _broken(cause) from cause

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()


async def _content(answer: aiohttp.ClientResponse, most: int) -> bytes:
    if answer.status >= 500:  # noqa: PLR2004 - HTTP's errors of a server
        raise Unreachable(f"Slack answers HTTP {answer.status}")
    # Without the scope files:read the answer is the page to sign in.
    if not answer.ok or (answer.history and answer.content_type == "text/html"):
        raise SendRefused(f"Slack does not give the file: HTTP {answer.status}")
    content = bytearray()
    async for piece in answer.content.iter_chunked(65_536):
        content += piece
        if len(content) > most:
            raise FileTooLarge(f"the file has more than {most} bytes")
    return bytes(content)


def _refusal(response: object) -> ChatPlatformError:
    """What an answer that is not `ok` means for the gateway."""
    data = getattr(response, "data", None)
    error = str(data.get("error", "")) if isinstance(data, Mapping) else ""
    status = getattr(response, "status_code", None) or getattr(response, "status", 0)
    if status == 429 or error in SLOW:  # noqa: PLR2004 - HTTP's "too many requests"
        return SlowDown(_retry_after(getattr(response, "headers", {})))
    if error in SIGNED_OUT:
        return SignInRefused(f"Slack does not accept the token: {error}")
    if not error or error in UNCERTAIN:
        return Unreachable(f"Slack answers HTTP {status} {error}".rstrip())
    return SlackRefused(error)


def _retry_after(headers: Mapping[str, str]) -> float:
    try:
        return max(float(headers.get("Retry-After", "1")), 0.0)
    except ValueError:
        return 1.0


def _broken(cause: Exception) -> ChatPlatformError:
    """A call without an answer: only one that found no connection is known not to be taken."""
    if isinstance(cause, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError):
        return NotTaken(f"Slack can't be reached: {cause!r}")
    return Unreachable(f"the connection to Slack broke: {cause!r}")
