"""What the bot reads by asking Discord: channels, their messages, and what came while nobody received."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import TypeVar

from holdfast.gateway.adapters.discord_api import DiscordApi, DiscordRefused, Payload
from holdfast.gateway.adapters.discord_events import (
    Channel,
    opened_thread,
    read_channel,
    read_interaction,
    read_message,
)
from holdfast.gateway.adapters.discord_order import LiveOrder
from holdfast.gateway.contract import Batch, Incoming, NotTaken, Place, SlowDown, Unreachable

logger = logging.getLogger(__name__)

T = TypeVar("T")

PAGE = 100
CHANNELS_AT_ONCE = 8
SERVERS_A_PAGE = 200
MOST_CHANNELS_KNOWN = 10_000
MAX_PATIENCE_SECONDS = 60.0


class DiscordChannels:
    """Reads for the bot with the id `me`."""

    def __init__(self, api: DiscordApi, me: str) -> None:
        self.me = me
        self._api = api
        self._known: dict[str, Channel] = {}

    async def page(self, channel: str, **query: str | int) -> list[Payload]:
        """One page of a channel's messages, oldest first."""
        page = await self._api.call("GET", f"/channels/{channel}/messages", query=query)
        return sorted(page, key=lambda message: int(message["id"]))

    async def channel(self, own: str) -> Channel:
        """Messages don't say whether their channel is a thread, so each channel is asked for once."""
        if own not in self._known:
            try:
                payload = await patiently(partial(self._api.call, "GET", f"/channels/{own}"))
            except DiscordRefused:
                return Channel(Place(own))
            if len(self._known) >= MOST_CHANNELS_KNOWN:
                self._known.clear()
            self._known[own] = read_channel(payload)
        return self._known[own]

    async def message(self, payload: Payload) -> Incoming | None:
        """None for what is no event: the bot's own messages, and what Discord itself says."""
        if str(payload["author"]["id"]) == self.me:
            return None
        return read_message(payload, await self.channel(str(payload["channel_id"])), self.me)

    async def interaction(self, payload: Payload) -> Incoming | None:
        if "channel_id" not in payload:
            return None
        return read_interaction(payload, await self.channel(str(payload["channel_id"])))

    async def catch_up(self, order: LiveOrder) -> AsyncIterator[Batch]:
        """The messages after each channel's cursor, by pages; several channels are asked at once.

        A channel of a server in which nobody spoke before has no cursor: there it is the account's.
        """
        waiting = [*order.known(), *order.spoken_in(await self._last_messages(), int(self.me))]
        while waiting:
            some, waiting = waiting[:CHANNELS_AT_ONCE], waiting[CHANNELS_AT_ONCE:]
            # From the cursor's own message on: a thread may have been opened on it meanwhile.
            firsts = await asyncio.gather(*(self._missed(channel, after - 1) for channel, after in some))
            for (channel, after), first in zip(some, firsts, strict=True):
                page = first
                while page:
                    threads = filter(order.discover, filter(None, map(opened_thread, page)))
                    waiting += [(thread, 0) for thread in threads]
                    fresh = [message for message in page if int(message["id"]) > after]
                    if fresh:
                        yield await self._batch(channel, fresh, order)
                    page = await self._missed(channel, int(page[-1]["id"])) if len(page) == PAGE else []

    async def _last_messages(self) -> dict[str, int]:
        """The last message of each channel and active thread of all servers that the bot is in."""
        servers: list[str] = []
        while True:
            after = servers[-1] if servers else 0
            query: dict[str, str | int] = {"limit": SERVERS_A_PAGE, "after": after}
            page = await patiently(partial(self._api.call, "GET", "/users/@me/guilds", query=query))
            servers += [str(one["id"]) for one in page]
            if len(page) < SERVERS_A_PAGE:
                break
        found: dict[str, int] = {}
        for at in range(0, len(servers), CHANNELS_AT_ONCE):
            some = servers[at : at + CHANNELS_AT_ONCE]
            for each in await asyncio.gather(*map(self._last_of_server, some)):
                found |= each
        return found

    async def _last_of_server(self, server: str) -> dict[str, int]:
        try:
            channels = await patiently(partial(self._api.call, "GET", f"/guilds/{server}/channels"))
            active = await patiently(partial(self._api.call, "GET", f"/guilds/{server}/threads/active"))
        except DiscordRefused as refused:
            logger.info("discord.server_left", extra={"server": server, "cause": str(refused)})
            return {}
        both = [*channels, *active.get("threads", ())]
        return {str(one["id"]): int(one["last_message_id"]) for one in both if one.get("last_message_id")}

    async def _batch(self, channel: str, page: list[Payload], order: LiveOrder) -> Batch:
        last = int(page[-1]["id"])
        events = [await self.message(message) for message in page]
        order.caught_up_to(channel, last)
        found = tuple(event for event in events if event is not None)
        return Batch(found, {channel: str(last)}, caught_up=False)

    async def _missed(self, channel: str, after: int) -> list[Payload]:
        """A page of what came after this message; nothing where the channel is closed to us."""
        try:
            return await patiently(partial(self.page, channel, after=max(after, 0), limit=PAGE))
        except DiscordRefused as refused:
            logger.info("discord.channel_left", extra={"channel": channel, "cause": str(refused)})
            return []


async def patiently(call: Callable[[], Awaitable[T]]) -> T:
    """While receiving, "slow down" means to wait: to begin anew would only ask more."""
    while True:
        try:
            return await call()
        except NotTaken as cause:
            raise Unreachable(str(cause)) from cause
        except SlowDown as slow:
            if slow.seconds > MAX_PATIENCE_SECONDS:
                raise
            await asyncio.sleep(slow.seconds)
