"""One Discord bot behind the port. Read `gateway/contract.py` first, then `discord_socket.py`.

Discord delivers over a socket without acknowledgements, and keeps every channel's messages by ascending ids.
So a cursor is the last stored id of a channel; the account has one too, for channels that had none. Each
`receive` waits for the connection, fetches what the channels have after their cursors, and only then takes
what the socket has held back meanwhile.
"""

import logging
from collections.abc import AsyncGenerator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from holdfast.core.secret import Secret
from holdfast.gateway.adapters.discord_api import API_URL, DiscordApi, DiscordRefused, Payload
from holdfast.gateway.adapters.discord_channels import PAGE, DiscordChannels, patiently
from holdfast.gateway.adapters.discord_events import COMMAND, read_message
from holdfast.gateway.adapters.discord_markup import (
    MARK_SIZE,
    MAX_CHARACTERS,
    mark,
    nonce,
    size,
    to_discord,
)
from holdfast.gateway.adapters.discord_order import LiveOrder
from holdfast.gateway.adapters.discord_socket import CONNECT_SECONDS, INTENT_HINT, DiscordSocket, Held
from holdfast.gateway.contract import (
    AdapterTraits,
    Batch,
    Button,
    ChatFile,
    ChatPlatformError,
    Command,
    FileTooLarge,
    Identity,
    Incoming,
    Outgoing,
    Place,
    Route,
    SendRefused,
    SignInRefused,
)

logger = logging.getLogger(__name__)

MESSAGE = "MESSAGE_CREATE"
NOT_FOUND = 404
PAGES_TO_SEARCH = 5
BUTTONS_A_ROW = 5
MAX_LABEL = 80
MAX_DESCRIPTION = 100

MESSAGE_CONTENT_FLAGS = 1 << 18 | 1 << 19
EPHEMERAL = 1 << 6
SILENT = 1 << 12

ACTION_ROW, BUTTON, GREY = 1, 2, 2
TEXT_OPTION = 3
ANSWER, NOTHING_TO_SHOW = 4, 6

# View channels, send (also in threads), attach files, read the history, add reactions.
PERMISSIONS = 1 << 10 | 1 << 11 | 1 << 38 | 1 << 15 | 1 << 16 | 1 << 6

NO_PINGS: Payload = {"parse": [], "replied_user": True}


class DiscordAdapter:
    """`Adapter` for one bot."""

    traits = AdapterTraits(
        max_size=MAX_CHARACTERS - MARK_SIZE,
        repeat="key",
        key_seconds=120.0,
        chat_seconds=1.0,
        account_per_second=40.0,
        edit_seconds=1.5,
        typing_seconds=10.0,
        max_upload=10_000_000,
        max_download=25_000_000,
        has_history=True,
    )

    def __init__(
        self, token: Secret, *, api_url: str = API_URL, connect_seconds: float = CONNECT_SECONDS
    ) -> None:
        self._token = token
        self._connect_seconds = connect_seconds
        self._api = DiscordApi(token, api_url)
        self._socket: DiscordSocket | None = None
        self._channels: DiscordChannels | None = None
        self._application = ""

    async def connect(self) -> Identity:
        user = await self._api.call("GET", "/users/@me")
        application = await self._api.call("GET", "/applications/@me")
        self._application = str(application["id"])
        if not (application.get("flags") or 0) & MESSAGE_CONTENT_FLAGS:
            raise SignInRefused(INTENT_HINT.format(application=self._application))
        invite = (
            "Open https://discord.com/oauth2/authorize"
            f"?client_id={self._application}&scope=bot+applications.commands&permissions={PERMISSIONS} "
            "to add it to a server; people of that server can also write to it directly."
        )
        self._channels = self._channels or DiscordChannels(self._api, str(user["id"]))
        return Identity(self._channels.me, user["username"], invite)

    async def receive(self, cursors: Mapping[str, str]) -> AsyncGenerator[Batch, None]:
        channels = await patiently(self._signed_in)
        if self._socket is None:
            self._socket = DiscordSocket(self._token, self._api, self._application, self._connect_seconds)
        socket = self._socket
        epoch = await patiently(socket.connected)
        order = LiveOrder({channel: int(cursor) for channel, cursor in cursors.items()})
        async for batch in channels.catch_up(order):
            yield batch
        socket.check(epoch)
        yield Batch((), order.account_cursor())
        while True:
            held = await socket.wait(epoch)
            batch = await self._live_batch(held, order, channels)
            if batch.events or batch.cursors:
                yield batch
            socket.release(held)

    async def send(self, route: Route, message: Outgoing, key: str) -> str:
        body: dict[str, Any] = {
            "content": (to_discord(message.text) + mark(key)).lstrip(),
            "nonce": nonce(key),
            "enforce_nonce": True,
            "allowed_mentions": NO_PINGS,
            "components": _rows(message.buttons),
        }
        if route.reply_to:
            body["message_reference"] = {"message_id": route.reply_to, "fail_if_not_exists": False}
        if message.is_silent:
            body["flags"] = SILENT
        if message.file is not None:
            _check_upload(message.file, self.traits.max_upload)
            body["attachments"] = [{"id": 0, "filename": message.file.name}]
        path = f"/channels/{_channel_id(route.place)}/messages"
        try:
            sent = await self._api.call("POST", path, body=body, file=message.file)
        except DiscordRefused as refused:
            if refused.code != DiscordRefused.UNKNOWN_MESSAGE:
                raise
            # The message with this nonce was deleted meanwhile, and Discord still knows the nonce.
            body["nonce"] = nonce(f"{key} again")
            sent = await self._api.call("POST", path, body=body, file=message.file)
        return str(sent["id"])

    async def find_sent(self, route: Route, key: str) -> str | None:
        """Discord forgets a nonce after some minutes, so the mark in the text counts too."""
        channels = await self._signed_in()
        before: dict[str, str | int] = {}
        for _ in range(PAGES_TO_SEARCH):
            page = await channels.page(_channel_id(route.place), limit=PAGE, **before)
            for message in page:
                is_ours = str(message["author"]["id"]) == channels.me
                has_key = message.get("nonce") == nonce(key) or message["content"].endswith(mark(key).strip())
                if is_ours and has_key:
                    return str(message["id"])
            if len(page) < PAGE:
                break
            before = {"before": page[0]["id"]}
        return None

    async def edit(self, route: Route, message_id: str, message: Outgoing) -> None:
        body = {
            "content": to_discord(message.text),
            "components": _rows(message.buttons),
            "allowed_mentions": NO_PINGS,
        }
        await self._api.call("PATCH", _message_path(route, message_id), body=body)

    async def delete(self, route: Route, message_id: str) -> None:
        try:
            await self._api.call("DELETE", _message_path(route, message_id))
        except DiscordRefused as refused:
            if refused.code != DiscordRefused.UNKNOWN_MESSAGE:
                raise

    async def react(self, route: Route, message_id: str, emoji: str) -> None:
        await self._api.call(
            "PUT", f"{_message_path(route, message_id)}/reactions/{quote(emoji, safe='')}/@me"
        )

    async def show_typing(self, route: Route) -> None:
        await self._api.call("POST", f"/channels/{_channel_id(route.place)}/typing")

    async def stop_typing(self, route: Route) -> None:
        """Discord has no call for it: the sign goes with the next message, or after ten seconds."""

    async def confirm_press(self, press: Incoming, note: str) -> None:
        await self._answer_interaction(press.press_token, note)

    async def download(self, file: ChatFile, target: Path, most: int) -> None:
        if file.size is not None and file.size > most:
            raise FileTooLarge(f"{file.name} has {file.size} bytes, more than {most}")
        channel, message, attachment = file.ref.split("/")
        found = await self._api.call("GET", f"/channels/{channel}/messages/{message}")
        for candidate in found["attachments"]:
            if str(candidate["id"]) == attachment:
                await self._api.fetch(candidate["url"], target, most)
                return
        raise SendRefused(f"{file.name} was taken away from its message")

    async def history(self, place: Place, before: str, most: int) -> Sequence[Incoming]:
        channels = await self._signed_in()
        own = _channel_id(place)
        channel = await channels.channel(own)
        query: dict[str, str | int] = {"before": before} if before else {}
        page = await channels.page(own, limit=max(1, min(most, PAGE)), **query)
        events = [read_message(message, channel, channels.me) for message in page]
        return [event for event in events if event is not None]

    async def set_commands(self, commands: Sequence[Command]) -> None:
        """Each takes the rest of its line as one optional text."""
        await self._signed_in()
        option = {"type": TEXT_OPTION, "name": "text", "description": "More words, if it needs any"}
        body = [
            {"name": one.name, "description": one.description[:MAX_DESCRIPTION], "options": [option]}
            for one in commands
        ]
        await self._api.call("PUT", f"/applications/{self._application}/commands", body=body)

    def measure(self, markdown: str) -> int:
        return size(to_discord(markdown))

    async def close(self) -> None:
        if self._socket is not None:
            await self._socket.close()
        await self._api.close()

    async def _signed_in(self) -> DiscordChannels:
        while self._channels is None:
            await self.connect()
        return self._channels

    async def _live_batch(self, held: Sequence[Held], order: LiveOrder, channels: DiscordChannels) -> Batch:
        events: list[Incoming] = []
        cursors: dict[str, str] = {}
        for one in held:
            channel = str(one.payload.get("channel_id") or "") if one.name == MESSAGE else ""
            number = int(one.payload["id"])
            if not order.take(channel, number):
                continue
            if one.name == MESSAGE:
                cursors[channel] = str(order.move(channel, number))
                event = await channels.message(one.payload)
            else:
                event = await channels.interaction(one.payload)
            if event is not None:
                events.append(event)
        events.sort(key=lambda event: int(event.id))
        if cursors:
            cursors |= order.account_cursor()
        return Batch(tuple(events), cursors, acknowledge=partial(self._acknowledge, held))

    async def _acknowledge(self, held: Sequence[Held]) -> None:
        """Forget what is stored, and tell the people who chose a command that it was taken."""
        if self._socket is not None:
            self._socket.release(held)
        for one in held:
            if one.name != MESSAGE and one.payload["type"] == COMMAND:
                token = f"{one.payload['id']}/{one.payload['token']}"
                try:
                    await self._answer_interaction(token, f"/{one.payload['data']['name']}")
                except ChatPlatformError as cause:
                    logger.info("discord.command_unanswered", extra={"cause": repr(cause)})

    async def _answer_interaction(self, token: str, note: str) -> None:
        """Discord takes an answer for three seconds, and one; whoever comes later has nothing left to say."""
        answer: dict[str, Any] = {"type": NOTHING_TO_SHOW}
        if note:
            content = to_discord(note)[:MAX_CHARACTERS]
            answer = {
                "type": ANSWER,
                "data": {"content": content, "flags": EPHEMERAL, "allowed_mentions": NO_PINGS},
            }
        try:
            await self._api.call("POST", f"/interactions/{token}/callback", body=answer)
        except DiscordRefused as refused:
            if refused.status != NOT_FOUND and refused.code != DiscordRefused.ALREADY_ANSWERED:
                raise


def _channel_id(place: Place) -> str:
    return place.thread or place.chat


def _message_path(route: Route, message_id: str) -> str:
    return f"/channels/{_channel_id(route.place)}/messages/{message_id}"


def _rows(buttons: Sequence[Button]) -> list[Payload]:
    made = [
        {"type": BUTTON, "style": GREY, "label": button.label[:MAX_LABEL], "custom_id": button.value}
        for button in buttons
    ]
    starts = range(0, len(made), BUTTONS_A_ROW)
    return [{"type": ACTION_ROW, "components": made[at : at + BUTTONS_A_ROW]} for at in starts]


def _check_upload(file: Path, most: int) -> None:
    if file.stat().st_size > most:
        raise FileTooLarge(f"{file.name} has {file.stat().st_size} bytes; Discord takes {most}")
