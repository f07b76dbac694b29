"""What an update of the Bot API says: a message, a press of a button, or nothing that is passed on."""

import logging
from collections.abc import Iterator

from aiogram.enums import ContentType
from aiogram.types import CallbackQuery, Message, MessageEntity, PhotoSize, Update, User

from holdfast.gateway.contract import ChatFile, Incoming, Place, Sender

logger = logging.getLogger(__name__)

MICROSECONDS = 1_000_000


def incoming(update: Update, me: User, received: int) -> Incoming | None:
    """The event of this update; None, and a line in the log, for a kind that is not passed on.

    `received` is the time of a press, for which Telegram gives none.
    """
    event = None
    if update.message is not None:
        event = _message(update.message, me)
    elif update.callback_query is not None:
        event = _press(update.callback_query, received)
    if event is None:
        kinds = sorted(update.model_fields_set - {"update_id"})
        content = ContentType(update.message.content_type).value if update.message is not None else ""
        facts = {"update": update.update_id, "kind": " ".join(kinds), "content": content}
        logger.info("telegram.left_out", extra=facts)
    return event


def _message(message: Message, me: User) -> Incoming | None:
    sender = _sender(message)
    files = tuple(_files(message))
    text, is_named = _without_mention(message, me)
    if sender is None or not (text or files or is_named):
        return None
    answered = _answered(message)
    return Incoming(
        # Update ids can begin anew after a quiet week; a message's id stays unique in its chat.
        id=str(message.message_id),
        place=_place(message),
        sender=sender,
        sent=int(message.date.timestamp() * MICROSECONDS),
        text=text,
        is_direct=message.chat.type == "private",
        is_mention=is_named or (answered is not None and _is_by(answered, me)),
        chat_title=message.chat.title or "",
        reply_to=str(answered.message_id) if answered is not None else "",
        quoted=_quoted(message, answered),
        files=files,
        message_id=str(message.message_id),
    )


def _press(query: CallbackQuery, received: int) -> Incoming | None:
    message = query.message
    if message is None or query.data is None:
        return None
    return Incoming(
        id=f"press-{query.id}",
        place=_place(message) if isinstance(message, Message) else Place(str(message.chat.id)),
        sender=Sender(str(query.from_user.id), query.from_user.full_name, query.from_user.is_bot),
        sent=received,
        kind="press",
        text=query.data,
        is_direct=message.chat.type == "private",
        is_mention=True,
        chat_title=message.chat.title or "",
        message_id=str(message.message_id),
        press_token=query.id,
    )


def _place(message: Message) -> Place:
    # Outside of forums a thread id only says which message a reply belongs to.
    is_topic = message.is_topic_message and message.message_thread_id is not None
    return Place(str(message.chat.id), str(message.message_thread_id) if is_topic else "")


def _sender(message: Message) -> Sender | None:
    if message.sender_chat is not None:
        # An anonymous administrator, or a channel: the person behind it is not told.
        return Sender(str(message.sender_chat.id), message.sender_chat.full_name)
    who = message.from_user
    return Sender(str(who.id), who.full_name, who.is_bot) if who is not None else None


def _is_by(message: Message, who: User) -> bool:
    return message.from_user is not None and message.from_user.id == who.id


def _answered(message: Message) -> Message | None:
    """The message that a person answered. In a topic, one that answers nothing names the topic's first."""
    answered = message.reply_to_message
    if answered is not None and message.is_topic_message and answered.forum_topic_created is not None:
        return None
    return answered


def _quoted(message: Message, answered: Message | None) -> str:
    if message.quote is not None:
        return message.quote.text
    return (answered.text or answered.caption or "") if answered is not None else ""


def _without_mention(message: Message, me: User) -> tuple[str, bool]:
    """The text without the names of the bot, and whether there was one. Offsets are in UTF-16 units."""
    text = message.text or message.caption or (message.sticker.emoji if message.sticker else None) or ""
    units = text.encode("utf-16-le", "surrogatepass")
    name = f"@{me.username}".lower()
    is_named = False
    for entity in reversed(message.entities or message.caption_entities or []):
        start, end = 2 * entity.offset, 2 * (entity.offset + entity.length)
        said = units[start:end].decode("utf-16-le", "replace")
        if not _names(entity, said, me, name):
            continue
        is_named = True
        kept = said[: -len(name)] if entity.type == "bot_command" else ""
        before, after = units[:start], units[end:]
        if not kept and after.startswith(b" \0"):
            after = after[2:]
        units = before + kept.encode("utf-16-le") + after
    return units.decode("utf-16-le", "replace").strip() if is_named else text, is_named


def _names(entity: MessageEntity, said: str, me: User, name: str) -> bool:
    if entity.type == "text_mention":
        return entity.user is not None and entity.user.id == me.id
    if entity.type == "bot_command":
        return said.lower().endswith(name)
    return entity.type == "mention" and said.lower() == name


def _files(message: Message) -> Iterator[ChatFile]:
    if message.photo:
        largest: PhotoSize = max(message.photo, key=lambda size: size.width * size.height)
        yield ChatFile(
            largest.file_id,
            f"photo-{message.message_id}.jpg",
            "image/jpeg",
            largest.file_size,
            is_voice=False,
        )
    if message.voice is not None:
        voice = message.voice
        kind = voice.mime_type or "audio/ogg"
        yield ChatFile(voice.file_id, f"voice-{message.message_id}.ogg", kind, voice.file_size, is_voice=True)
    if message.video_note is not None:
        note = message.video_note
        yield ChatFile(note.file_id, f"video-{message.message_id}.mp4", "video/mp4", note.file_size)
    # An animation comes as a document too, under the same id.
    for file in (message.document, message.audio, message.video):
        if file is not None:
            kind = file.mime_type or "application/octet-stream"
            yield ChatFile(file.file_id, file.file_name or f"file-{message.message_id}", kind, file.file_size)
