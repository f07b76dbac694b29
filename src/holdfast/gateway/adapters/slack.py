"""`SlackAdapter`: one bot in one Slack workspace, by the Web API and socket mode.

Beside it: `slack_socket.py` receives envelopes, `slack_events.py` reads them, `slack_catch_up.py` finds what
was missed, `slack_api.py` makes the calls, and `slack_markup.py` turns Markdown into Slack's own form.

The app needs the bot scopes chat:write, reactions:write, files:read, files:write, users:read, commands,
app_mentions:read, metadata.message:read, and `:history` and `:read` of channels, groups, im and mpim; the
events message.channels, message.groups, message.im, message.mpim and app_mention; interactivity; and an app
token with connections:write.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

from slack_sdk.web.async_slack_response import AsyncSlackResponse

from holdfast.core.contract import Clock
from holdfast.core.secret import Secret
from holdfast.gateway.adapters.slack_api import PUBLIC_URL, Method, Pause, SlackApi, SlackRefused
from holdfast.gateway.adapters.slack_catch_up import missed
from holdfast.gateway.adapters.slack_events import Directory, SlackEventReader, is_direct, microseconds
from holdfast.gateway.adapters.slack_markup import emoji_name, to_mrkdwn
from holdfast.gateway.adapters.slack_socket import HEARTBEAT, Envelope, SlackSocket
from holdfast.gateway.contract import (
    AdapterTraits,
    Batch,
    ChatFile,
    ChatPlatformError,
    Command,
    FileTooLarge,
    Identity,
    Incoming,
    NotTaken,
    Outgoing,
    Place,
    Route,
    SendRefused,
    SignInRefused,
    Unreachable,
)
from holdfast.process import DaemonPool, off_loop

__all__ = ["PUBLIC_URL", "SlackAdapter"]

logger = logging.getLogger(__name__)

SECTION_SIZE = 3_000
"""The most characters of a block of text; a message without blocks may have more."""
LABEL_SIZE = 75
CONTENT = ("text", "blocks", "attachments")
EVENT_TYPE = "holdfast_message"
LOOK_PAGES = 10
"""How many pages of a chat are looked through for a message of ours."""


class SlackAdapter:
    """Implements `Adapter`."""

    traits = AdapterTraits(
        max_size=4_000,
        repeat="look",
        chat_seconds=1.0,
        account_per_second=5.0,
        # Slack allows about 50 edits a minute in all chats together.
        edit_seconds=3.0,
        typing_seconds=0.0,
        has_history=True,
    )

    def __init__(
        self,
        bot_token: Secret,
        app_token: Secret,
        clock: Clock,
        *,
        base_url: str = PUBLIC_URL,
        pause: Pause = asyncio.sleep,
        heartbeat: float = HEARTBEAT,
    ) -> None:
        self._bot_token = bot_token
        self._app_token = app_token
        self._clock = clock
        self._heartbeat = heartbeat
        self._api = SlackApi(bot_token, base_url, pause)
        self._files = DaemonPool("slack-files", 1, 100)
        self._reader: SlackEventReader | None = None

    async def connect(self) -> Identity:
        for token, prefix in ((self._bot_token, "xoxb-"), (self._app_token, "xapp-")):
            if not token.reveal().startswith(prefix):
                name = "bot" if prefix == "xoxb-" else "app"
                raise SignInRefused(f"the {name} token of Slack begins with {prefix}")
        # To ask for a connection's address is the only check of an app token; no connection is made here.
        await self._checked("app", self._api.web.apps_connections_open, app_token=self._app_token.reveal())
        about = await self._checked("bot", self._api.web.auth_test)
        self._reader = SlackEventReader(
            str(about["user_id"]),
            str(about.get("bot_id") or ""),
            str(about["team_id"]),
            Directory(self._api),
            self._clock,
        )
        name = str(about["user"])
        return Identity(
            id=self._reader.user,
            name=name,
            invite=f"Write to @{name} in Slack, or invite it to a channel with /invite @{name}.",
        )

    async def receive(self, cursors: Mapping[str, str]) -> AsyncGenerator[Batch, None]:
        known = dict(cursors)
        try:
            reader = await self._signed_in()
            async with SlackSocket(self._api, self._app_token, self._heartbeat) as socket:
                while True:
                    began = self._cursor_of(await socket.open())
                    caught: set[str] = set()
                    async for batch in self._missed(reader, known):
                        caught.update(event.id for event in batch.events)
                        yield batch
                    known[""] = began
                    yield Batch((), {"": began})
                    while envelopes := await socket.next():
                        live = await self._live(reader, envelopes, known, caught)
                        if live.events:
                            yield live
        except NotTaken as cause:
            raise Unreachable(str(cause)) from cause

    async def send(self, route: Route, message: Outgoing, key: str) -> str:
        payload = {"key": key}
        if message.file is not None:
            payload["file"] = await self._upload(message.file)
        content = _content(message)
        answer = await self._api.call(
            self._api.web.chat_postMessage,
            channel=route.place.chat,
            thread_ts=_thread(route) or None,
            metadata={"event_type": EVENT_TYPE, "event_payload": payload},
            # Slack fetches the address of a link that it unfolds, and with it what a model wrote into it.
            unfurl_links=False,
            unfurl_media=False,
            **content,
        )
        message_id = str(answer["ts"])
        if "file" in payload:
            try:
                await self._attach(route, message_id, payload["file"], content)
            except ChatPlatformError as cause:
                # The message stands without its file: `find_sent` finds it and puts the file to it.
                raise Unreachable(f"the file is not at its message yet: {cause}") from cause
        return message_id

    async def find_sent(self, route: Route, key: str) -> str | None:
        reader = await self._signed_in()
        read = 0
        async for page in self._chat(route.place.chat, _thread(route), include_all_metadata=True):
            for message in page["messages"]:
                metadata = message.get("metadata") or {}
                payload = metadata.get("event_payload") or {}
                if metadata.get("event_type") != EVENT_TYPE or payload.get("key") != key:
                    continue
                if not reader.is_own(message):
                    continue
                if payload.get("file") and not message.get("files"):
                    content = {name: message[name] for name in CONTENT if message.get(name)}
                    await self._attach(route, message["ts"], payload["file"], content)
                return str(message["ts"])
            read += 1
            if read >= LOOK_PAGES and not _thread(route):
                break
        return None

    async def edit(self, route: Route, message_id: str, message: Outgoing) -> None:
        content = {"blocks": [], "attachments": [], **_content(message)}
        await self._api.call(self._api.web.chat_update, channel=route.place.chat, ts=message_id, **content)

    async def delete(self, route: Route, message_id: str) -> None:
        try:
            await self._api.call(self._api.web.chat_delete, channel=route.place.chat, ts=message_id)
        except SlackRefused as cause:
            if cause.error != "message_not_found":
                raise

    async def react(self, route: Route, message_id: str, emoji: str) -> None:
        if not message_id:
            return  # a slash command is no message
        try:
            await self._api.call(
                self._api.web.reactions_add,
                channel=route.place.chat,
                timestamp=message_id,
                name=emoji_name(emoji),
            )
        except SlackRefused as cause:
            if cause.error != "already_reacted":
                raise

    async def show_typing(self, route: Route) -> None:
        """Do nothing: Slack shows no such sign for a bot."""

    async def stop_typing(self, route: Route) -> None:
        """Do nothing: Slack shows no such sign for a bot."""

    async def confirm_press(self, press: Incoming, note: str) -> None:
        if not note:
            return
        try:
            await self._api.call(
                self._api.web.chat_postEphemeral,
                channel=press.place.chat,
                user=press.sender.id,
                thread_ts=press.place.thread or None,
                text=to_mrkdwn(note),
            )
        except SlackRefused as cause:
            # The person or the bot has left the channel since.
            logger.info("slack.press_not_confirmed", extra={"press": press.id, "cause": cause.error})

    async def download(self, file: ChatFile, target: Path, most: int) -> None:
        about = (await self._api.call(self._api.web.files_info, file=file.ref))["file"]
        if int(about.get("size") or 0) > most:
            raise FileTooLarge(f"{file.name} has more than {most} bytes")
        url = str(about.get("url_private_download") or about.get("url_private") or "")
        await off_loop(self._files, target.write_bytes, await self._api.fetch(url, most))

    async def history(self, place: Place, before: str, most: int) -> Sequence[Incoming]:
        reader = await self._signed_in()
        found: list[Mapping[str, Any]] = []
        # Before the message that begins a thread there is the channel.
        thread = "" if before == place.thread else place.thread
        async for page in self._chat(place.chat, thread, latest=before or None):
            found += [each for each in page["messages"] if each["ts"] != before]
            if len(found) >= most and not thread:
                break
        found.sort(key=lambda message: microseconds(message["ts"]))
        read = [await reader.message(place.chat, message) for message in found[-most:]]
        return [message for message in read if message is not None]

    async def set_commands(self, commands: Sequence[Command]) -> None:
        """Do nothing: Slack lists the commands that the app's manifest names."""

    def measure(self, markdown: str) -> int:
        return len(to_mrkdwn(markdown))

    async def close(self) -> None:
        self._files.close(0.0)
        await self._api.close()

    async def _checked(self, token: str, method: Method, **arguments: str) -> AsyncSlackResponse:
        try:
            return await self._api.call(method, **arguments)
        except (SignInRefused, SlackRefused) as cause:
            raise SignInRefused(f"the {token} token: {cause}") from cause

    async def _signed_in(self) -> SlackEventReader:
        if self._reader is None:
            await self.connect()
        assert self._reader is not None  # noqa: S101 - `connect` sets it
        return self._reader

    def _chat(self, channel: str, thread: str, **wanted: Any) -> AsyncIterator[AsyncSlackResponse]:  # noqa: ANN401
        """The messages of a channel, newest first, or of a thread, oldest first, in pages."""
        if thread:
            return self._api.pages(self._api.web.conversations_replies, channel=channel, ts=thread, **wanted)
        return self._api.pages(self._api.web.conversations_history, channel=channel, **wanted)

    async def _missed(self, reader: SlackEventReader, known: dict[str, str]) -> AsyncIterator[Batch]:
        if not known:
            return
        async for channel, messages in missed(self._api, dict(known)):
            known[channel] = str(messages[-1]["ts"])
            read = [await reader.message(channel, each) for each in messages if not reader.is_own(each)]
            yield Batch(
                tuple(event for event in read if event is not None),
                {channel: known[channel]},
                caught_up=False,
            )

    async def _live(
        self, reader: SlackEventReader, envelopes: Sequence[Envelope], known: dict[str, str], caught: set[str]
    ) -> Batch:
        """What these envelopes bring, in the order in which it was said; empty ones are acknowledged now."""
        events: dict[str, Incoming] = {}
        kept: list[Envelope] = []
        for envelope in envelopes:
            event = await _read(reader, envelope)
            if event is None or event.id in caught:
                await envelope.acknowledge()
                continue
            events.setdefault(event.id, event)
            kept.append(envelope)
        ordered = sorted(events.values(), key=lambda event: event.sent)
        cursors: dict[str, str] = {}
        for event in ordered:
            chat = event.place.chat
            if event.kind == "message" and event.message_id:
                known[chat] = max(known.get(chat, "0"), event.message_id, key=microseconds)
                cursors[chat] = known[chat]

        async def acknowledge() -> None:
            for envelope in kept:
                await envelope.acknowledge()

        return Batch(tuple(ordered), cursors, acknowledge)

    async def _upload(self, path: Path) -> str:
        """Give Slack a file that nobody sees yet, and return its id."""
        content = await off_loop(self._files, _content_of, path, self.traits.max_upload)
        try:
            place = await self._api.call(
                self._api.web.files_getUploadURLExternal, filename=path.name, length=len(content)
            )
            await self._api.upload(str(place["upload_url"]), content)
            file = {"id": str(place["file_id"]), "title": path.name}
            await self._api.call(self._api.web.files_completeUploadExternal, files=[file])
        except Unreachable as cause:
            raise NotTaken(str(cause)) from cause
        return file["id"]

    async def _attach(self, route: Route, message_id: str, file: str, content: Mapping[str, Any]) -> None:
        """Put a file to its message: only a message has room for the key, and a file's own has none."""
        await self._api.call(
            self._api.web.chat_update, channel=route.place.chat, ts=message_id, file_ids=[file], **content
        )

    def _cursor_of(self, date: str) -> str:
        """Now, as a cursor. A clock of ours that is fast must not skip anything, so Slack's is asked too."""
        now = self._clock.now()
        if date:
            now = min(now, parsedate_to_datetime(date).timestamp() + 1)
        return f"{now:.6f}"


async def _read(reader: SlackEventReader, envelope: Envelope) -> Incoming | None:
    try:
        return await reader.of_envelope(envelope.type, envelope.payload)
    except (AttributeError, KeyError, TypeError, ValueError):
        # Slack would deliver it again and again, and it would never be read.
        logger.exception("slack.unreadable", extra={"envelope": envelope.id, "type": envelope.type})
        return None


def _content_of(path: Path, most: int) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(most + 1)
    except OSError as cause:
        raise SendRefused(f"{path.name} can't be read: {cause.strerror}") from cause
    if len(content) > most:
        raise FileTooLarge(f"{path.name} has more than {most} bytes")
    return content


def _thread(route: Route) -> str:
    """The thread of a message. In a channel the answer to a message is a thread under it."""
    if route.place.thread or is_direct(route.place.chat):
        return route.place.thread
    return route.reply_to


def _content(message: Outgoing) -> dict[str, Any]:
    """The text and, with buttons, the blocks; under a text too long for a block they stand by themselves."""
    text = to_mrkdwn(message.text) or (message.file.name if message.file else "…")
    if not message.buttons:
        return {"text": text}
    actions = {
        "type": "actions",
        "elements": [
            {
                "type": "button",
                "action_id": f"holdfast_{number}",
                "text": {"type": "plain_text", "text": button.label[:LABEL_SIZE]},
                "value": button.value,
            }
            for number, button in enumerate(message.buttons)
        ],
    }
    if len(text) > SECTION_SIZE:
        return {"text": text, "attachments": [{"blocks": [actions], "fallback": text[:LABEL_SIZE]}]}
    section = {"type": "section", "text": {"type": "mrkdwn", "text": text}, "expand": True}
    return {"text": text, "blocks": [section, actions]}
