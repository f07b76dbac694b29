"""The four platforms as a gateway process meets them: where the server is, what is set up, who is there."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from holdfast.gateway.contract import Place
from holdfast.testing.chat_platform import ChatPlatform
from tests.gateway.moments import LOOPBACK, Marks, MomentProxy, Moments

if TYPE_CHECKING:
    from tests.gateway.synapse_server import SynapseServer

NAMES = ("telegram", "discord", "slack", "matrix")


@dataclass(frozen=True)
class ChatSite:
    """A platform with its server, for a gateway that speaks to it through `proxy`."""

    name: str
    platform: ChatPlatform
    values: Mapping[str, str]
    """What `holdfast gateway setup` is given."""
    person_id: Callable[[str], str]
    thread: Callable[[Sequence[str]], Any]
    """Makes a group with a thread in it; returns the thread's place."""
    answers: Callable[[Place, str], str]
    """What the answer to a message of this id in this place is shown as an answer to."""
    has_order_in_groups: bool = True
    """False where each message of a group begins a thread of its own, so that answers overtake each other."""


@asynccontextmanager
async def a_site(
    name: str, moments: Moments, synapse: "SynapseServer | None" = None
) -> AsyncIterator[ChatSite]:
    """The platform of this name with a proxy before its server."""
    if name == "telegram":
        opened = telegram_site(moments)
    elif name == "discord":
        opened = _discord(moments)
    elif name == "slack":
        opened = _slack(moments)
    else:
        assert synapse is not None
        opened = _matrix(moments, synapse)
    async with opened as site:
        yield site


@asynccontextmanager
async def telegram_site(moments: Moments, host: str = LOOPBACK) -> AsyncIterator[ChatSite]:
    """Telegram, reached by gateways at this address."""
    # To load the library behind it takes seconds.
    from tests.gateway.telegram_platform import TelegramPlatform
    from tests.gateway.telegram_server import TOKEN

    platform = TelegramPlatform()
    calls = {
        b"/getUpdates": "acknowledge",
        b"/sendMessage": "send",
        b"/editMessageText": "edit",
    }

    async def thread(people: Sequence[str]) -> Place:
        return await platform.topic(await platform.group(people, is_forum=True), "a topic")

    marks = Marks(calls, b'"update_id"')
    async with _started(platform, marks, moments, lambda: platform.server.url, host) as url:
        yield ChatSite(
            "telegram",
            platform,
            {"token": TOKEN, "api_url": url},
            lambda person: str(platform.person(person)["id"]),
            thread,
            lambda _, asked: asked,
        )


@asynccontextmanager
async def _discord(moments: Moments) -> AsyncIterator[ChatSite]:
    from tests.gateway.discord_server import DiscordPlatform

    platform = DiscordPlatform()
    calls = {rb"^POST /api/v10/channels/\d+/messages": "send", rb"^PATCH /api/v10/channels/": "edit"}

    async def thread(people: Sequence[str]) -> Place:
        return await platform.thread(await platform.group(people))

    # Its frames are of one compressed stream, so any of them may bring the message.
    async with _started(platform, Marks(calls, b""), moments, lambda: platform.url) as url:
        yield ChatSite(
            "discord",
            platform,
            {"token": platform.token, "api_url": f"{url}/api/v10"},
            lambda person: str(platform.world.user(person)["id"]),
            thread,
            lambda _, asked: asked,
        )


@asynccontextmanager
async def _slack(moments: Moments) -> AsyncIterator[ChatSite]:
    from tests.gateway.slack_platform import SlackPlatform
    from tests.gateway.slack_server import APP_TOKEN, BOT_TOKEN

    platform = SlackPlatform()
    calls = {b"/api/chat.postMessage": "send", b"/api/chat.update": "edit"}

    async def thread(people: Sequence[str]) -> Place:
        return await platform.thread(await platform.group(people))

    def answers(place: Place, asked: str) -> str:
        return "" if place.chat.startswith("D") else place.thread or asked

    marks = Marks(calls, b'"events_api"', acknowledges_by_frame=True)
    async with _started(platform, marks, moments, lambda: platform.server.url) as url:
        platform.server.link_port = urlsplit(url).port or 0
        yield ChatSite(
            "slack",
            platform,
            {"bot_token": BOT_TOKEN, "app_token": APP_TOKEN, "api_url": f"{url}/api/"},
            platform.workspace.person,
            thread,
            answers,
            has_order_in_groups=False,
        )


@asynccontextmanager
async def _matrix(moments: Moments, synapse: "SynapseServer") -> AsyncIterator[ChatSite]:
    from tests.gateway.matrix_platform import MatrixPlatform

    platform = MatrixPlatform(synapse)
    calls = {rb"/v3/sync\?": "acknowledge", b"/send/m.room.message": "send"}

    async def thread(people: Sequence[str]) -> Place:
        return await platform.thread(await platform.group(people))

    async with _started(
        platform, Marks(calls, b"m.room.message"), moments, lambda: platform.proxy.url
    ) as url:
        bot = replace(platform.bot, homeserver=url)
        values = {
            "homeserver": bot.homeserver,
            "user_id": bot.user_id,
            "token": bot.token.reveal(),
            "device_id": bot.device_id,
        }
        yield ChatSite(
            "matrix",
            platform,
            values,
            lambda person: platform.person(person).user_id,
            thread,
            lambda _, asked: asked,
        )


@asynccontextmanager
async def _started(
    platform: ChatPlatform,
    marks: Marks,
    moments: Moments,
    server_url: Callable[[], str],
    host: str = LOOPBACK,
) -> AsyncIterator[str]:
    """The platform while it serves; gives the address of the proxy before it."""
    await platform.start()
    try:
        async with MomentProxy(lambda: urlsplit(server_url()).port or 0, marks, moments, host) as proxy:
            yield f"http://{host}:{proxy.port}"
    finally:
        await platform.close()
