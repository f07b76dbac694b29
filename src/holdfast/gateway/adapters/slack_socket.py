"""Slack's socket mode: envelopes come over a WebSocket; each is acknowledged when the gateway has stored it.

slack_sdk's own client connects again without telling, and hides a refused token and a dead connection, but
every new connection needs a look at what was missed. So the connection is held here, by aiohttp.
"""

import asyncio
import json
import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self

import aiohttp

from holdfast.core.secret import Secret
from holdfast.gateway.adapters.slack_api import SlackApi
from holdfast.gateway.contract import ChatPlatformError, SignInRefused, TakenElsewhere, Unreachable

logger = logging.getLogger(__name__)

HEARTBEAT = 15.0
"""How often the connection is tried with a ping; one that does not answer is dead."""
HELLO_SECONDS = 15.0
CLOSE_SECONDS = 1.0
MOST_WAITING = 1_000
MOST_SIZE = 16 * 1024 * 1024
_NO_END = object()

Hello = asyncio.Future[None]


@dataclass(frozen=True, slots=True)
class Envelope:
    """One delivery of Slack, with the connection on which it is acknowledged."""

    id: str
    type: str
    payload: Mapping[str, Any]
    connection: aiohttp.ClientWebSocketResponse

    async def acknowledge(self) -> None:
        """Tell Slack to deliver it no more. On a dead connection nothing is said: Slack delivers it again."""
        try:
            await self.connection.send_json({"envelope_id": self.id})
        except (aiohttp.ClientError, ConnectionError, RuntimeError) as cause:
            logger.info("slack.not_acknowledged", extra={"envelope": self.id, "cause": repr(cause)})


class SlackSocket:
    """The connection of one receiver, and the one before it for as long as Slack keeps that open."""

    def __init__(self, api: SlackApi, app_token: Secret, heartbeat: float = HEARTBEAT) -> None:
        self._api = api
        self._heartbeat = heartbeat
        self._app_token = app_token
        self._current: aiohttp.ClientWebSocketResponse | None = None
        self._readers: set[asyncio.Task[None]] = set()
        # None: Slack asks for a new connection.
        self._received: asyncio.Queue[Envelope | ChatPlatformError | None] = asyncio.Queue(MOST_WAITING)
        self._end: ChatPlatformError | object | None = _NO_END

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        for reader in self._readers:
            reader.cancel()
        await asyncio.gather(*self._readers, return_exceptions=True)

    async def open(self) -> str:
        """Connect, and wait for Slack's hello. What comes from now on waits for `next`.

        Returns when that was, as a header of Slack's HTTP answer says it. The connection before it stays open
        until Slack closes it, so that no press of a button is lost.
        """
        answer = await self._api.call_patiently(
            self._api.web.apps_connections_open, app_token=self._app_token.reveal()
        )
        try:
            connection = await self._api.session.ws_connect(
                str(answer["url"]),
                heartbeat=self._heartbeat,
                max_msg_size=MOST_SIZE,
                proxy=self._api.web.proxy,
                timeout=aiohttp.ClientWSTimeout(ws_close=CLOSE_SECONDS),
            )
        except (aiohttp.ClientError, OSError, TimeoutError) as cause:
            raise Unreachable(f"Slack's socket can't be reached: {cause!r}") from cause
        self._current = connection
        hello: Hello = asyncio.get_running_loop().create_future()
        reader = asyncio.create_task(self._read(connection, hello), name="slack-socket")
        self._readers.add(reader)
        reader.add_done_callback(self._readers.discard)
        await asyncio.wait({hello}, timeout=HELLO_SECONDS)
        if not hello.done():
            raise Unreachable("Slack's socket said no hello")
        hello.result()
        return str(answer.headers.get("Date", ""))

    async def next(self) -> list[Envelope]:
        """All envelopes that wait, at least one; empty when Slack asks for a new connection."""
        envelopes: list[Envelope] = []
        while self._end is _NO_END and (not envelopes or not self._received.empty()):
            received = await self._received.get()
            if isinstance(received, Envelope):
                envelopes.append(received)
            else:
                self._end = received
        if envelopes:
            return envelopes
        end, self._end = self._end, _NO_END
        if isinstance(end, ChatPlatformError):
            raise end
        return []

    async def _read(self, connection: aiohttp.ClientWebSocketResponse, hello: Hello) -> None:
        try:
            async for frame in connection:
                if frame.type is aiohttp.WSMsgType.TEXT:
                    await self._handle(json.loads(frame.data), connection, hello)
            cause = connection.exception() or connection.close_code
            await self._end_of(connection, hello, Unreachable(f"Slack closed the socket: {cause}"))
        except (AttributeError, TypeError, ValueError) as cause:
            failure = Unreachable(f"Slack's socket sent what is no envelope: {cause!r}")
            await self._end_of(connection, hello, failure)
        finally:
            with suppress(aiohttp.ClientError, OSError):
                await connection.close()

    async def _end_of(
        self, connection: aiohttp.ClientWebSocketResponse, hello: Hello, why: ChatPlatformError | None
    ) -> None:
        """Report the end of the current connection. An older one may end without a word."""
        if connection is not self._current:
            return
        self._current = None
        if hello.done():
            await self._received.put(why)
        elif why is not None:
            hello.set_exception(why)

    async def _handle(
        self,
        message: Mapping[str, Any],
        connection: aiohttp.ClientWebSocketResponse,
        hello: Hello,
    ) -> None:
        kind = str(message.get("type", ""))
        if "envelope_id" in message:
            await self._received.put(
                Envelope(
                    str(message["envelope_id"]),
                    kind,
                    message.get("payload") or {},
                    connection,
                )
            )
        elif kind == "hello":
            if int(message.get("num_connections") or 1) > len(self._readers):
                logger.warning("slack.other_connections", extra={"count": message["num_connections"]})
            if not hello.done():
                hello.set_result(None)
        elif kind == "disconnect":
            await self._end_of(connection, hello, _parting(str(message.get("reason", ""))))


def _parting(reason: str) -> ChatPlatformError | None:
    """What Slack's wish to end a connection means; None: that a new one is to be opened."""
    if reason == "link_disabled":
        return SignInRefused("Socket Mode is switched off in the settings of the Slack app")
    if reason == "too_many_websockets":
        return TakenElsewhere("too many receivers use this Slack app")
    logger.info("slack.refresh", extra={"reason": reason})
    return None
