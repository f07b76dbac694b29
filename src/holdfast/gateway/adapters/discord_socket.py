"""The connection through which Discord delivers, and what came through it and is not stored yet.

hikari does the handshake, the heartbeats, RESUME and the waiting before it connects again. It has no
acknowledgement towards its user, so what it delivers waits here until `release`. A break of the connection
ends the current `wait`; the library meanwhile resumes the session, and the events that it missed come first.
"""

import asyncio
import json
import logging
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.core.distribution import install_command
from holdfast.core.secret import Secret
from holdfast.gateway.adapters.discord_api import DiscordApi, Payload
from holdfast.gateway.contract import ChatPlatformError, SignInRefused, Unreachable

if TYPE_CHECKING:
    import hikari

logger = logging.getLogger(__name__)

CONNECT_SECONDS = 60.0
# Events of one channel that were sent at nearly the same time may come in another order.
SETTLE_SECONDS = 0.05
MOST_HELD = 10_000

WANTED = frozenset({"MESSAGE_CREATE", "INTERACTION_CREATE"})
EDIT = "MESSAGE_UPDATE"
GREETINGS = frozenset({"READY", "RESUMED"})

AUTHENTICATION_FAILED = 4004
INVALID_INTENTS = 4013
DISALLOWED_INTENTS = 4014

INTENT_HINT = (
    "Discord does not give this bot the text of messages. Open "
    "https://discord.com/developers/applications/{application}/bot, switch on "
    '"Message Content Intent" under "Privileged Gateway Intents", and save.'
)


@dataclass(frozen=True, slots=True)
class Held:
    """An event that Discord delivered and that is not stored yet."""

    number: int
    name: str
    payload: Payload


class DiscordSocket:
    """Used on one event loop, by one reader at a time."""

    def __init__(self, token: Secret, api: DiscordApi, application: str, connect_seconds: float) -> None:
        self._token = token
        self._api = api
        self._application = application
        self._connect_seconds = connect_seconds
        self._held: deque[Held] = deque()
        self._count = 0
        self._epoch = 0
        self._changed = asyncio.Event()
        self._running: asyncio.Task[None] | None = None
        self._bot: hikari.GatewayBot | None = None
        self._ready_shards: set[int] = set()
        self._closed = False

    async def connected(self) -> int:
        """Wait until the connection stands; returns its number, which `wait` wants."""
        if self._running is None or self._running.done():
            # The library asks this too, but repeats it at once when Discord wants all calls later.
            await self._api.call("GET", "/gateway/bot")
            self._running = asyncio.create_task(self._run(), name="discord socket")
            self._running.add_done_callback(self._ended)
        try:
            async with asyncio.timeout(self._connect_seconds):
                while not self._is_up():
                    await self._change()
        except TimeoutError as cause:
            raise Unreachable(f"Discord's gateway did not answer in {self._connect_seconds:g} s") from cause
        return self._epoch

    async def wait(self, epoch: int) -> Sequence[Held]:
        """What came and is not released. `Unreachable` once the connection of that number is gone."""
        self.check(epoch)
        while not self._held:
            await self._change()
            self.check(epoch)
        await asyncio.sleep(SETTLE_SECONDS)
        self.check(epoch)
        return tuple(self._held)

    def check(self, epoch: int) -> None:
        if epoch != self._epoch:
            raise Unreachable("the connection to Discord broke")

    def release(self, held: Sequence[Held]) -> None:
        """These are stored. Idempotent."""
        while held and self._held and self._held[0].number <= held[-1].number:
            self._held.popleft()

    async def close(self) -> None:
        self._closed = True
        if self._running is not None:
            self._running.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await self._running

    async def _run(self) -> None:
        """One session of the library, from its start to its end for good."""
        bot = self._new_bot()
        try:
            await bot.start(check_for_updates=False)
            self._bot = bot
            self._notify()
            await bot.join()
        finally:
            self._bot = None
            self._ready_shards.clear()
            self._epoch += 1
            if bot.is_alive:
                await bot.close()

    def _new_bot(self) -> "hikari.GatewayBot":
        try:
            import hikari
            from hikari.impl import CacheSettings
        except ImportError as cause:
            raise SignInRefused(f"Discord needs the extra: {install_command('discord')}") from cause
        intents = hikari.Intents
        try:
            bot = hikari.GatewayBot(
                self._token.reveal(),
                intents=intents.GUILDS
                | intents.GUILD_MESSAGES
                | intents.DM_MESSAGES
                | intents.MESSAGE_CONTENT,
                rest_url=self._api.url,
                # What the library would parse for its cache, it could fail to parse.
                cache_settings=CacheSettings(components=hikari.api.CacheComponents.NONE),
                auto_chunk_members=False,
                max_rate_limit=0.0,
                max_retries=0,
                loads=self._loads,
                logs=None,
                banner=None,
                suppress_optimization_warning=True,
            )
        except ValueError as cause:
            raise SignInRefused("this is no token of a Discord bot") from cause
        bot.subscribe(hikari.ShardPayloadEvent, self._on_payload)
        bot.subscribe(hikari.ShardDisconnectedEvent, self._on_disconnect)
        return bot

    def _loads(self, content: str | bytes) -> Any:  # noqa: ANN401 - any JSON
        """A shard whose start was given up goes on connecting; it ends with the first word from Discord."""
        if self._closed:
            raise asyncio.CancelledError
        return json.loads(content)

    async def _on_payload(self, event: "hikari.ShardPayloadEvent") -> None:
        if event.name in GREETINGS:
            self._ready_shards.add(event.shard.id)
        elif event.name in WANTED:
            self._hold(event.name, event.payload)
        elif event.name == EDIT and _is_of_a_person(event.payload):
            logger.info("discord.left_out", extra={"cause": f"an edit of {event.payload.get('id')}"})
        self._notify()

    def _hold(self, name: str, payload: Payload) -> None:
        if len(self._held) >= MOST_HELD:
            # The reader is far behind: it begins anew and fetches the messages from their channels.
            self._held.clear()
            self._epoch += 1
            return
        self._count += 1
        self._held.append(Held(self._count, name, payload))

    async def _on_disconnect(self, event: "hikari.ShardDisconnectedEvent") -> None:
        self._ready_shards.discard(event.shard.id)
        self._epoch += 1
        self._notify()

    def _is_up(self) -> bool:
        return self._bot is not None and len(self._ready_shards) == self._bot.shard_count

    async def _change(self) -> None:
        if self._running is None or self._running.done():
            raise self._failure()
        self._changed.clear()
        await self._changed.wait()

    def _notify(self) -> None:
        self._changed.set()

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled():
            task.exception()  # `_failure` reads it; if nobody waits, it is no news
        self._notify()

    def _failure(self) -> ChatPlatformError:
        """Why the library gave up, in the port's words."""
        import hikari

        ended = self._running
        cause = None if ended is None or ended.cancelled() else ended.exception()
        code = getattr(cause, "code", None) if isinstance(cause, hikari.GatewayError) else None
        if code in {INVALID_INTENTS, DISALLOWED_INTENTS}:
            failure: ChatPlatformError = SignInRefused(INTENT_HINT.format(application=self._application))
        elif code == AUTHENTICATION_FAILED or isinstance(cause, hikari.UnauthorizedError):
            failure = SignInRefused("Discord does not take this bot's token")
        elif isinstance(cause, ChatPlatformError):
            failure = cause
        else:
            failure = Unreachable(f"the connection to Discord ended: {cause!r}")
        failure.__cause__ = None if failure is cause else cause
        return failure


def _is_of_a_person(edit: Payload) -> bool:
    """Whether a person changed the text. Previews of links are edits for Discord too, without a time."""
    return bool(edit.get("edited_timestamp")) and not (edit.get("author") or {}).get("bot")
