"""Telegram, by the Bot API with long polling. Beside it: its calls, events and markup.

Telegram keeps an update until `getUpdates` is called with a higher offset. The offset is the cursor: the next
call is made only when the gateway asks for the next batch, so only what is stored is acknowledged. aiogram
brings the transport and the types; its dispatcher, which acknowledges first, is not used.
"""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any, TypeVar

from aiogram.methods import (
    AnswerCallbackQuery,
    DeleteMessage,
    EditMessageMedia,
    EditMessageText,
    GetFile,
    GetMe,
    SendChatAction,
    SendDocument,
    SendMessage,
    SendPhoto,
    SendVoice,
    SetMessageReaction,
    SetMyCommands,
    TelegramMethod,
)
from aiogram.types import (
    BotCommand,
    FSInputFile,
    InlineKeyboardButton,
    InlineKeyboardMarkup,
    InputMediaDocument,
    InputMediaPhoto,
    LinkPreviewOptions,
    Message,
    ReactionTypeEmoji,
    ReactionTypeUnion,
    ReplyParameters,
    Update,
    User,
)
from pydantic import ValidationError

from holdfast.core.contract import Clock
from holdfast.core.secret import Secret
from holdfast.gateway.adapters.telegram_client import (
    ANSWER_SECONDS,
    BATCH,
    TRANSFER_SECONDS,
    ReadUpdates,
    TelegramClient,
    says,
)
from holdfast.gateway.adapters.telegram_events import MICROSECONDS, incoming
from holdfast.gateway.adapters.telegram_groups import MovedGroups
from holdfast.gateway.adapters.telegram_markup import telegram_text, utf16_cut
from holdfast.gateway.contract import (
    AdapterTraits,
    Batch,
    Button,
    ChatFile,
    Command,
    FileTooLarge,
    Identity,
    Incoming,
    Outgoing,
    Place,
    Route,
    SendRefused,
)
from holdfast.process import DaemonPool, off_loop

logger = logging.getLogger(__name__)

T = TypeVar("T")

API_URL = "https://api.telegram.org"
POLL_SECONDS = 25
MAX_CAPTION = 1024
MAX_PHOTO = 10_000_000
MAX_NOTE = 200
MAX_DESCRIPTION = 256
ROW_OF_LABELS = 30
PHOTOS = (".jpg", ".jpeg", ".png", ".webp")
VOICES = (".ogg", ".oga")

# Telegram tells these apart by their text alone; each comes with the status 400.
UNCHANGED = ("message is not modified",)
ALREADY_DELETED = ("message to delete not found", "message_id_invalid")
PRESS_TOO_OLD = ("query is too old", "query id is invalid", "query_id_invalid")
TOO_BIG = ("file is too big",)
NO_PHOTO = ("photo_invalid", "photo_ext_invalid", "image_process_failed", "photo_save_file_invalid")
BAD_MARKUP = ("can't parse entities",)


class TelegramAdapter:
    """One bot on Telegram."""

    traits = AdapterTraits(
        max_size=4096,
        repeat="placeholder",
        chat_seconds=1.0,
        group_seconds=3.0,
        account_per_second=30.0,
        typing_seconds=5.0,
        max_upload=50_000_000,
        max_download=20_000_000,
    )

    def __init__(self, token: Secret, clock: Clock, *, api_url: str = API_URL) -> None:
        self._client = TelegramClient(token, api_url)
        self._clock = clock
        self._me: User | None = None
        self._groups = MovedGroups()
        self._files = DaemonPool("telegram-files", 1, 100)

    async def connect(self) -> Identity:
        me = self._me = await self._client.call(GetMe())
        sees = "every message" if me.can_read_all_group_messages else "only what names it or answers it"
        return Identity(
            str(me.id),
            f"@{me.username}",
            f"Open https://t.me/{me.username} and press Start, or add it to a group, where it sees {sees}.",
        )

    async def receive(self, cursors: Mapping[str, str]) -> AsyncGenerator[Batch, None]:
        if self._me is None:
            await self.connect()
        self._groups.load(cursors)
        is_catching_up = "" in cursors
        if is_catching_up:
            offset = int(cursors[""])
        else:
            # -1 makes Telegram forget all updates but the last, and the next offset is beyond that one.
            offset = _next_offset(await self._updates(-1, 0), 0)
            yield Batch((), {"": str(offset)})
        while True:
            updates = await self._updates(offset, 0 if is_catching_up else POLL_SECONDS)
            offset = _next_offset(updates, offset)
            has_more = is_catching_up and len(updates) == BATCH
            if updates or is_catching_up:
                events = tuple(self._events(updates))
                cursors = {"": str(offset), **self._groups.cursors()}
                yield Batch(events, cursors, caught_up=not has_more)
            is_catching_up = has_more

    async def send(self, route: Route, message: Outgoing, key: str) -> str:  # noqa: ARG002 - there are no keys
        return await self._groups.follow(route, lambda: self._send(route, message))

    async def _send(self, route: Route, message: Outgoing) -> str:
        fields = {**self._target(route), "reply_markup": _keyboard(message.buttons)}
        if message.is_silent:
            fields["disable_notification"] = True
        if route.reply_to and (answered := self._groups.number_of(route, route.reply_to)) is not None:
            fields["reply_parameters"] = ReplyParameters(
                message_id=answered, allow_sending_without_reply=True
            )
        if message.file is None:
            sent = await self._call_with_text(SendMessage, message.text, fields)
        else:
            sent = await self._send_file(message.file, {**fields, **_caption(message.text)})
        return self._groups.id_of(route, sent.message_id)

    async def find_sent(self, route: Route, key: str) -> str | None:  # noqa: ARG002 - bots can't look back
        return None

    async def edit(self, route: Route, message_id: str, message: Outgoing) -> None:
        await self._groups.follow(route, lambda: self._edit(route, message_id, message))

    async def _edit(self, route: Route, message_id: str, message: Outgoing) -> None:
        fields: dict[str, Any] = {
            **self._message(route, message_id),
            "reply_markup": _keyboard(message.buttons),
        }
        try:
            if message.file is None:
                await self._call_with_text(EditMessageText, message.text, fields)
            else:
                kind = InputMediaPhoto if _is_photo(message.file) else InputMediaDocument
                media = kind(media=self._upload(message.file), **_caption(message.text))
                await self._client.call(EditMessageMedia(media=media, **fields), TRANSFER_SECONDS)
        except SendRefused as refused:
            if not says(refused, UNCHANGED):
                raise

    async def delete(self, route: Route, message_id: str) -> None:
        def call() -> Awaitable[bool]:
            return self._client.call(DeleteMessage(**self._message(route, message_id)))

        try:
            await self._groups.follow(route, call)
        except SendRefused as refused:
            # Nobody reads the group any more in which a message stayed.
            is_there = self._groups.number_of(route, message_id) is not None
            if is_there and not says(refused, ALREADY_DELETED):
                raise

    async def react(self, route: Route, message_id: str, emoji: str) -> None:
        sign: list[ReactionTypeUnion] = [ReactionTypeEmoji(emoji=emoji)]
        await self._client.call(SetMessageReaction(reaction=sign, **self._message(route, message_id)))

    async def show_typing(self, route: Route) -> None:
        await self._client.call(SendChatAction(action="typing", **self._target(route)))

    async def stop_typing(self, route: Route) -> None:
        """Telegram takes the sign away with the next message, or after five seconds."""

    async def confirm_press(self, press: Incoming, note: str) -> None:
        answer = AnswerCallbackQuery(callback_query_id=press.press_token, text=utf16_cut(note, MAX_NOTE))
        try:
            await self._client.call(answer)
        except SendRefused as refused:
            if not says(refused, PRESS_TOO_OLD):
                raise

    async def download(self, file: ChatFile, target: Path, most: int) -> None:
        try:
            found = await self._client.call(GetFile(file_id=file.ref))
        except SendRefused as refused:
            if says(refused, TOO_BIG):
                raise FileTooLarge(f"{file.name} is larger than Telegram gives to bots") from refused
            raise
        if found.file_path is None or (found.file_size or 0) > most:
            raise FileTooLarge(f"{file.name} has more than {most} bytes")
        output = await off_loop(self._files, target.open, "wb")
        size = 0
        is_whole = False
        try:
            async with aclosing(self._client.content(found.file_path)) as chunks:
                async for chunk in chunks:
                    size += len(chunk)
                    if size > most:
                        raise FileTooLarge(f"{file.name} has more than {most} bytes")
                    await off_loop(self._files, output.write, chunk)
            is_whole = True
        finally:
            await off_loop(self._files, output.close)
            if not is_whole:
                await off_loop(self._files, target.unlink)

    async def history(self, place: Place, before: str, most: int) -> Sequence[Incoming]:  # noqa: ARG002
        return ()

    async def set_commands(self, commands: Sequence[Command]) -> None:
        listed = [
            BotCommand(command=command.name, description=utf16_cut(command.description, MAX_DESCRIPTION))
            for command in commands
        ]
        await self._client.call(SetMyCommands(commands=listed))

    def measure(self, markdown: str) -> int:
        return telegram_text(markdown).size

    async def close(self) -> None:
        self._files.close(0.0)
        await self._client.close()

    async def _updates(self, offset: int, seconds: int) -> list[dict[str, Any]]:
        updates = await self._client.call(
            ReadUpdates(offset=offset, timeout=seconds), seconds + ANSWER_SECONDS
        )
        return sorted(updates, key=_update_id)

    def _events(self, updates: Sequence[Mapping[str, Any]]) -> Iterator[Incoming]:
        assert self._me is not None  # noqa: S101 - `receive` has connected
        received = int(self._clock.now() * MICROSECONDS)
        for raw in updates:
            try:
                update = Update.model_validate(raw)
                if update.message is not None:
                    self._groups.note(update.message)
                event = incoming(update, self._me, received)
            except ValidationError as cause:
                facts = {"update": _update_id(raw), "cause": str(cause.errors(include_input=False)[0])}
                logger.warning("telegram.unreadable", extra=facts)
                continue
            if event is not None:
                yield self._groups.placed(event)

    def _target(self, route: Route) -> dict[str, Any]:
        thread = {"message_thread_id": int(route.place.thread)} if route.place.thread else {}
        return {"chat_id": self._groups.chat_of(route), **thread}

    def _message(self, route: Route, message_id: str) -> dict[str, Any]:
        return {
            "chat_id": self._groups.chat_of(route),
            "message_id": self._groups.own_number(route, message_id),
        }

    async def _call_with_text(
        self, method: Callable[..., TelegramMethod[T]], markdown: str, fields: Mapping[str, Any]
    ) -> T:
        text = telegram_text(markdown)
        preview = LinkPreviewOptions(is_disabled=True)
        try:
            return await self._client.call(
                method(text=text.html, parse_mode="HTML", link_preview_options=preview, **fields)
            )
        except SendRefused as refused:
            if not says(refused, BAD_MARKUP):
                raise
            logger.warning("telegram.markup_refused", extra={"cause": str(refused)})
        return await self._client.call(method(text=text.text, link_preview_options=preview, **fields))

    async def _send_file(self, path: Path, fields: Mapping[str, Any]) -> Message:
        file = self._upload(path)
        if path.suffix.lower() in VOICES:
            return await self._client.call(SendVoice(voice=file, **fields), TRANSFER_SECONDS)
        if _is_photo(path):
            try:
                return await self._client.call(SendPhoto(photo=file, **fields), TRANSFER_SECONDS)
            except SendRefused as refused:
                if not says(refused, NO_PHOTO):
                    raise
        return await self._client.call(SendDocument(document=file, **fields), TRANSFER_SECONDS)

    def _upload(self, path: Path) -> FSInputFile:
        try:
            size = path.stat().st_size
        except OSError as cause:
            raise SendRefused(f"{path.name} can't be read: {cause.strerror}") from cause
        if size > self.traits.max_upload:
            raise FileTooLarge(f"{path.name} has {size} bytes; Telegram takes {self.traits.max_upload}")
        return FSInputFile(path)


def _update_id(update: Mapping[str, Any]) -> int:
    return int(update["update_id"])


def _next_offset(updates: Sequence[Mapping[str, Any]], offset: int) -> int:
    """The offset that acknowledges these. It can be lower than before, since the numbering can begin anew."""
    return _update_id(updates[-1]) + 1 if updates else offset


def _caption(markdown: str) -> dict[str, Any]:
    if not markdown:
        return {}
    caption = telegram_text(markdown)
    if caption.size > MAX_CAPTION:
        raise SendRefused(
            f"a caption has at most {MAX_CAPTION} characters on Telegram, this one {caption.size}"
        )
    return {"caption": caption.html, "parse_mode": "HTML"}


def _is_photo(path: Path) -> bool:
    return path.suffix.lower() in PHOTOS and path.exists() and path.stat().st_size <= MAX_PHOTO


def _keyboard(buttons: Sequence[Button]) -> InlineKeyboardMarkup | None:
    """Short labels stand side by side, long ones below each other."""
    if not buttons:
        return None
    made = [InlineKeyboardButton(text=button.label, callback_data=button.value) for button in buttons]
    is_short = sum(len(button.label) for button in buttons) <= ROW_OF_LABELS
    return InlineKeyboardMarkup(inline_keyboard=[made] if is_short else [[button] for button in made])
