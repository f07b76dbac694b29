"""Telegram: what an event says of its sender, its place, its files, and whether it is meant for the bot."""

import json
import threading
from pathlib import Path
from typing import Any, ClassVar

import pytest

from holdfast.gateway.contract import (
    ChatFile,
    FileTooLarge,
    Incoming,
    Place,
    Sender,
    SendRefused,
    Unreachable,
)
from tests.gateway.telegram_chats import MAX_DOWNLOAD
from tests.gateway.telegram_platform import TelegramPlatform
from tests.gateway.telegram_server import TOKEN
from tests.gateway.telegram_story import played, told

pytestmark = pytest.mark.slow  # the real library takes seconds to load

MOST = 1_000_000
RECEIVED = 1_700_000_000_000_000


def events(telegram: TelegramPlatform) -> list[Incoming]:
    """All that waits for the bot, as the adapter reads it."""
    from aiogram.types import Update, User

    from holdfast.gateway.adapters.telegram_events import incoming

    me = User.model_validate(telegram.server.chats.bot)
    updates = [Update.model_validate_json(json.dumps(raw)) for raw in telegram.server.updates.waiting]
    return [event for update in updates if (event := incoming(update, me, RECEIVED)) is not None]


def only_event(telegram: TelegramPlatform) -> Incoming:
    (event,) = events(telegram)
    return event


@told
async def test_a_message_in_a_direct_chat(telegram: TelegramPlatform) -> None:
    ada = await telegram.direct("Ada")
    number = await telegram.say(ada, "Ada", "hello")
    event = only_event(telegram)
    assert event.id == event.message_id == number
    assert event.place == ada
    assert event.sender == Sender(str(telegram.person("Ada")["id"]), "Ada")
    assert event.is_direct
    assert not event.is_mention
    assert event.sent == telegram.chat(ada).messages[int(number)]["date"] * 1_000_000


@pytest.mark.parametrize(
    ("text", "entity", "left", "is_mention"),
    [
        ("@holdfast_bot hi", ("mention", 0, 13), "hi", True),
        ("😀 @HOLDFAST_bot hi", ("mention", 3, 13), "😀 hi", True),
        ("hi @holdfast_bot", ("mention", 3, 13), "hi", True),
        ("@holdfast_bot", ("mention", 0, 13), "", True),
        ("@holdfast_bot_2 hi", ("mention", 0, 15), "@holdfast_bot_2 hi", False),
        ("/new@holdfast_bot now", ("bot_command", 0, 17), "/new now", True),
        ("/new@other_bot now", ("bot_command", 0, 14), "/new@other_bot now", False),
        ("/new now", ("bot_command", 0, 4), "/new now", False),
        ("Holdfast, hi", ("text_mention", 0, 8), ", hi", True),
        ("mail a@holdfast_bot", ("email", 5, 14), "mail a@holdfast_bot", False),
    ],
)
@told
async def test_a_mention_is_found_by_its_entity_and_taken_out(
    telegram: TelegramPlatform, text: str, entity: tuple[str, int, int], left: str, is_mention: bool
) -> None:
    place = await telegram.group(["Ada"])
    kind, offset, length = entity
    shown: dict[str, Any] = {"type": kind, "offset": offset, "length": length}
    if kind == "text_mention":
        shown["user"] = telegram.server.chats.bot
    telegram.post(place, "Ada", {"text": text, "entities": [shown]})
    event = only_event(telegram)
    assert (event.text, event.is_mention, event.is_direct) == (left, is_mention, False)
    assert event.chat_title == "A group of Ada"


@told
async def test_a_person_who_is_named_is_not_the_bot(telegram: TelegramPlatform) -> None:
    place = await telegram.group(["Ada", "Bo"])
    entity = {"type": "text_mention", "offset": 0, "length": 2, "user": telegram.person("Bo")}
    telegram.post(place, "Ada", {"text": "Bo hi", "entities": [entity]})
    event = only_event(telegram)
    assert (event.text, event.is_mention) == ("Bo hi", False)


@told
async def test_an_answer_to_the_bot_is_meant_for_it_one_to_a_person_is_not(
    telegram: TelegramPlatform,
) -> None:
    place = await telegram.group(["Ada", "Bo"])
    by_bot = telegram.server.chats.send_message({"chat_id": place.chat, "text": "from the bot"})
    by_bo = await telegram.say(place, "Bo", "from Bo")
    await telegram.say(place, "Ada", "to the bot", reply_to=str(by_bot["message_id"]))
    await telegram.say(place, "Ada", "to Bo", reply_to=by_bo)
    _, to_bot, to_bo = events(telegram)
    assert (to_bot.is_mention, to_bot.quoted, to_bot.reply_to) == (
        True,
        "from the bot",
        str(by_bot["message_id"]),
    )
    assert (to_bo.is_mention, to_bo.quoted, to_bo.reply_to) == (False, "from Bo", by_bo)


@told
async def test_a_part_that_a_person_quoted_is_the_quote(telegram: TelegramPlatform) -> None:
    ada = await telegram.direct("Ada")
    first = await telegram.say(ada, "Ada", "one two three")
    telegram.post(ada, "Ada", {"text": "why?", "quote": {"text": "two", "position": 4}}, reply_to=first)
    _, event = events(telegram)
    assert event.quoted == "two"


@told
async def test_a_topic_of_a_forum_is_a_thread(telegram: TelegramPlatform) -> None:
    forum = await telegram.group(["Ada"], is_forum=True)
    topic = await telegram.topic(forum, "News")
    await telegram.say(topic, "Ada", "in the topic")
    await telegram.say(forum, "Ada", "in general")
    in_topic, in_general = events(telegram)
    assert in_topic.place == topic
    assert topic.thread
    # Telegram lets it answer the message that the bot began the topic with.
    assert (in_topic.reply_to, in_topic.is_mention) == ("", False)
    assert in_general.place == forum


@told
async def test_a_thread_of_replies_outside_of_a_forum_is_no_thread(telegram: TelegramPlatform) -> None:
    place = await telegram.group(["Ada"])
    telegram.post(place, "Ada", {"text": "a reply", "message_thread_id": 7})
    assert only_event(telegram).place == Place(place.chat)


@told
async def test_an_anonymous_administrator_speaks_as_the_chat(telegram: TelegramPlatform) -> None:
    place = await telegram.group(["Ada"])
    anonymous = {"id": 1087968824, "is_bot": True, "first_name": "Group", "username": "GroupAnonymousBot"}
    chat = telegram.chat(place).shown()
    telegram.post(place, "Ada", {"text": "hi", "from": anonymous, "sender_chat": chat})
    assert only_event(telegram).sender == Sender(place.chat, "A group of Ada")


@told
async def test_another_bot_is_said_to_be_one(telegram: TelegramPlatform) -> None:
    place = await telegram.group(["Ada"])
    telegram.post(place, "Ada", {"text": "hi", "from": {"id": 77, "is_bot": True, "first_name": "Robot"}})
    assert only_event(telegram).sender == Sender("77", "Robot", is_bot=True)


FILE = {"file_id": "f", "file_unique_id": "u", "file_size": 5}
SMALL = {**FILE, "file_id": "small", "width": 1, "height": 1}
LARGE = {**FILE, "file_id": "large", "width": 9, "height": 9}
PDF = {**FILE, "file_name": "a.pdf", "mime_type": "application/pdf"}
SONG = {**FILE, "file_name": "a.mp3", "mime_type": "audio/mpeg", "duration": 1}
FILM = {**FILE, "file_name": "a.mp4", "mime_type": "video/mp4", "width": 1, "height": 1, "duration": 1}


@pytest.mark.parametrize(
    ("fields", "file"),
    [
        ({"photo": [SMALL, LARGE]}, ChatFile("large", "photo-1.jpg", "image/jpeg", 5)),
        ({"voice": {**FILE, "duration": 1}}, ChatFile("f", "voice-1.ogg", "audio/ogg", 5, is_voice=True)),
        ({"document": PDF}, ChatFile("f", "a.pdf", "application/pdf", 5)),
        ({"document": FILE}, ChatFile("f", "file-1", "application/octet-stream", 5)),
        ({"audio": SONG}, ChatFile("f", "a.mp3", "audio/mpeg", 5)),
        ({"video": FILM}, ChatFile("f", "a.mp4", "video/mp4", 5)),
        ({"document": FILM, "animation": FILM}, ChatFile("f", "a.mp4", "video/mp4", 5)),
        (
            {"video_note": {**FILE, "length": 1, "duration": 1}},
            ChatFile("f", "video-1.mp4", "video/mp4", 5),
        ),
    ],
)
@told
async def test_a_file_comes_with_its_name_kind_and_size(
    telegram: TelegramPlatform, fields: dict[str, Any], file: ChatFile
) -> None:
    ada = await telegram.direct("Ada")
    chat = telegram.chat(ada)
    message = chat.add({"from": telegram.person("Ada"), "caption": "look", **fields})
    telegram.server.updates.put({"message": message})
    event = only_event(telegram)
    assert event.files == (file,)
    assert event.text == "look"


@told
async def test_a_sticker_says_its_emoji(telegram: TelegramPlatform) -> None:
    ada = await telegram.direct("Ada")
    kind = {"type": "regular", "width": 1, "height": 1, "is_animated": False, "is_video": False}
    telegram.post(ada, "Ada", {"sticker": {**FILE, **kind, "emoji": "👍"}})
    assert only_event(telegram).text == "👍"


@told
async def test_a_press_has_the_time_at_which_it_came(telegram: TelegramPlatform) -> None:
    """Telegram says none. The message that has the button can be too old to be shown."""
    ada = await telegram.direct("Ada")
    old = {"chat": telegram.chat(ada).shown(), "message_id": 3, "date": 0}
    query = {"id": "q", "from": telegram.person("Ada"), "message": old, "chat_instance": "1", "data": "v"}
    telegram.server.updates.put({"callback_query": query})
    press = only_event(telegram)
    assert (press.kind, press.id, press.press_token) == ("press", "press-q", "q")
    assert (press.place, press.message_id, press.text, press.sent) == (ada, "3", "v", RECEIVED)


@played
async def test_a_file_is_fetched(telegram: TelegramPlatform, tmp_path: Path) -> None:
    ada = await telegram.direct("Ada")
    content = bytes(range(256)) * 1000
    await telegram.send_file(ada, "Ada", "a.bin", content)
    (file,) = only_event(telegram).files
    await telegram.adapter().download(file, tmp_path / "got", MOST)
    assert (tmp_path / "got").read_bytes() == content


class Watched(type(Path())):  # type: ignore[misc]
    """A path that tells on which thread it is opened and removed."""

    threads: ClassVar[list[str]] = []

    def open(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        self.threads.append(threading.current_thread().name)
        return super().open(*args, **kwargs)

    def unlink(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401
        self.threads.append(threading.current_thread().name)
        super().unlink(*args, **kwargs)


@played
async def test_files_are_written_on_a_thread_of_the_adapters_own(
    telegram: TelegramPlatform, tmp_path: Path
) -> None:
    ada = await telegram.direct("Ada")
    telegram.server.chats.says_size = False
    await telegram.send_file(ada, "Ada", "a.bin", bytes(300_000))
    (file,) = only_event(telegram).files
    target = Watched(tmp_path / "got")
    with pytest.raises(FileTooLarge):
        await telegram.adapter().download(file, target, 299_999)
    assert [name.rsplit("-", 1)[0] for name in target.threads] == ["telegram-files"] * 2


@pytest.mark.parametrize("says_size", [True, False])
@played
async def test_a_file_larger_than_allowed_is_refused(
    telegram: TelegramPlatform, tmp_path: Path, says_size: bool
) -> None:
    ada = await telegram.direct("Ada")
    telegram.server.chats.says_size = says_size
    await telegram.send_file(ada, "Ada", "a.bin", bytes(300_000))
    (file,) = only_event(telegram).files
    adapter = telegram.adapter()
    with pytest.raises(FileTooLarge):
        await adapter.download(file, tmp_path / "got", 299_999)
    assert not (tmp_path / "got").exists()
    assert telegram.server.downloads == (0 if says_size else 1)
    await adapter.download(file, tmp_path / "got", 300_000)


@played
async def test_a_file_larger_than_telegram_gives_to_bots_is_too_large(
    telegram: TelegramPlatform, tmp_path: Path
) -> None:
    ada = await telegram.direct("Ada")
    await telegram.send_file(ada, "Ada", "film.mp4", bytes(MAX_DOWNLOAD + 1))
    (file,) = only_event(telegram).files
    with pytest.raises(FileTooLarge, match=r"film\.mp4"):
        await telegram.adapter().download(file, tmp_path / "got", MOST)


@played
async def test_a_file_that_is_gone_is_refused(telegram: TelegramPlatform, tmp_path: Path) -> None:
    with pytest.raises(SendRefused):
        await telegram.adapter().download(ChatFile("gone", "a", "b"), tmp_path / "got", MOST)


@played
async def test_a_download_that_breaks_shows_no_token(telegram: TelegramPlatform, tmp_path: Path) -> None:
    ada = await telegram.direct("Ada")
    await telegram.send_file(ada, "Ada", "a.bin", b"content")
    (file,) = only_event(telegram).files
    telegram.server.chats.files_by_path.clear()
    with pytest.raises(Unreachable) as broken:
        await telegram.adapter().download(file, tmp_path / "got", MOST)
    assert TOKEN not in str(broken.value)
    assert broken.value.__cause__ is None
    assert not (tmp_path / "got").exists()
