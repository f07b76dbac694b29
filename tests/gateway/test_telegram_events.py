"""Telegram: what an event says of its sender, its place, its files, and whether it is meant for the bot."""

import json
from pathlib import Path
from typing import Any

import pytest
from aiogram.types import Update, User

from holdfast.gateway.adapters.telegram_events import incoming
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

MOST = 1_000_000
RECEIVED = 1_700_000_000_000_000


def events(platform: TelegramPlatform) -> list[Incoming]:
    """All that waits for the bot, as the adapter reads it."""
    me = User.model_validate(platform.server.chats.bot)
    updates = [Update.model_validate_json(json.dumps(raw)) for raw in platform.server.updates.waiting]
    return [event for update in updates if (event := incoming(update, me, RECEIVED)) is not None]


def only_event(platform: TelegramPlatform) -> Incoming:
    (event,) = events(platform)
    return event


@told
async def test_a_message_in_a_direct_chat(platform: TelegramPlatform) -> None:
    ada = await platform.direct("Ada")
    number = await platform.say(ada, "Ada", "hello")
    event = only_event(platform)
    assert event.id == event.message_id == number
    assert event.place == ada
    assert event.sender == Sender(str(platform.person("Ada")["id"]), "Ada")
    assert event.is_direct
    assert not event.is_mention
    assert event.sent == platform.chat(ada).messages[int(number)]["date"] * 1_000_000


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
    platform: TelegramPlatform, text: str, entity: tuple[str, int, int], left: str, is_mention: bool
) -> None:
    place = await platform.group(["Ada"])
    kind, offset, length = entity
    shown: dict[str, Any] = {"type": kind, "offset": offset, "length": length}
    if kind == "text_mention":
        shown["user"] = platform.server.chats.bot
    platform.post(place, "Ada", {"text": text, "entities": [shown]})
    event = only_event(platform)
    assert (event.text, event.is_mention, event.is_direct) == (left, is_mention, False)
    assert event.chat_title == "A group of Ada"


@told
async def test_a_person_who_is_named_is_not_the_bot(platform: TelegramPlatform) -> None:
    place = await platform.group(["Ada", "Bo"])
    entity = {"type": "text_mention", "offset": 0, "length": 2, "user": platform.person("Bo")}
    platform.post(place, "Ada", {"text": "Bo hi", "entities": [entity]})
    event = only_event(platform)
    assert (event.text, event.is_mention) == ("Bo hi", False)


@told
async def test_an_answer_to_the_bot_is_meant_for_it_one_to_a_person_is_not(
    platform: TelegramPlatform,
) -> None:
    place = await platform.group(["Ada", "Bo"])
    by_bot = platform.server.chats.send_message({"chat_id": place.chat, "text": "from the bot"})
    by_bo = await platform.say(place, "Bo", "from Bo")
    await platform.say(place, "Ada", "to the bot", reply_to=str(by_bot["message_id"]))
    await platform.say(place, "Ada", "to Bo", reply_to=by_bo)
    _, to_bot, to_bo = events(platform)
    assert (to_bot.is_mention, to_bot.quoted, to_bot.reply_to) == (
        True,
        "from the bot",
        str(by_bot["message_id"]),
    )
    assert (to_bo.is_mention, to_bo.quoted, to_bo.reply_to) == (False, "from Bo", by_bo)


@told
async def test_a_part_that_a_person_quoted_is_the_quote(platform: TelegramPlatform) -> None:
    ada = await platform.direct("Ada")
    first = await platform.say(ada, "Ada", "one two three")
    platform.post(ada, "Ada", {"text": "why?", "quote": {"text": "two", "position": 4}}, reply_to=first)
    _, event = events(platform)
    assert event.quoted == "two"


@told
async def test_a_topic_of_a_forum_is_a_thread(platform: TelegramPlatform) -> None:
    forum = await platform.group(["Ada"], is_forum=True)
    topic = await platform.topic(forum, "News")
    await platform.say(topic, "Ada", "in the topic")
    await platform.say(forum, "Ada", "in general")
    in_topic, in_general = events(platform)
    assert in_topic.place == topic
    assert topic.thread
    # Telegram lets it answer the message that the bot began the topic with.
    assert (in_topic.reply_to, in_topic.is_mention) == ("", False)
    assert in_general.place == forum


@told
async def test_a_thread_of_replies_outside_of_a_forum_is_no_thread(platform: TelegramPlatform) -> None:
    place = await platform.group(["Ada"])
    platform.post(place, "Ada", {"text": "a reply", "message_thread_id": 7})
    assert only_event(platform).place == Place(place.chat)


@told
async def test_an_anonymous_administrator_speaks_as_the_chat(platform: TelegramPlatform) -> None:
    place = await platform.group(["Ada"])
    anonymous = {"id": 1087968824, "is_bot": True, "first_name": "Group", "username": "GroupAnonymousBot"}
    chat = platform.chat(place).shown()
    platform.post(place, "Ada", {"text": "hi", "from": anonymous, "sender_chat": chat})
    assert only_event(platform).sender == Sender(place.chat, "A group of Ada")


@told
async def test_another_bot_is_said_to_be_one(platform: TelegramPlatform) -> None:
    place = await platform.group(["Ada"])
    platform.post(place, "Ada", {"text": "hi", "from": {"id": 77, "is_bot": True, "first_name": "Robot"}})
    assert only_event(platform).sender == Sender("77", "Robot", is_bot=True)


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
    platform: TelegramPlatform, fields: dict[str, Any], file: ChatFile
) -> None:
    ada = await platform.direct("Ada")
    chat = platform.chat(ada)
    message = chat.add({"from": platform.person("Ada"), "caption": "look", **fields})
    platform.server.updates.put({"message": message})
    event = only_event(platform)
    assert event.files == (file,)
    assert event.text == "look"


@told
async def test_a_sticker_says_its_emoji(platform: TelegramPlatform) -> None:
    ada = await platform.direct("Ada")
    kind = {"type": "regular", "width": 1, "height": 1, "is_animated": False, "is_video": False}
    platform.post(ada, "Ada", {"sticker": {**FILE, **kind, "emoji": "👍"}})
    assert only_event(platform).text == "👍"


@told
async def test_a_press_has_the_time_at_which_it_came(platform: TelegramPlatform) -> None:
    """Telegram says none. The message that has the button can be too old to be shown."""
    ada = await platform.direct("Ada")
    old = {"chat": platform.chat(ada).shown(), "message_id": 3, "date": 0}
    query = {"id": "q", "from": platform.person("Ada"), "message": old, "chat_instance": "1", "data": "v"}
    platform.server.updates.put({"callback_query": query})
    press = only_event(platform)
    assert (press.kind, press.id, press.press_token) == ("press", "press-q", "q")
    assert (press.place, press.message_id, press.text, press.sent) == (ada, "3", "v", RECEIVED)


@played
async def test_a_file_is_fetched(platform: TelegramPlatform, tmp_path: Path) -> None:
    ada = await platform.direct("Ada")
    content = bytes(range(256)) * 1000
    await platform.send_file(ada, "Ada", "a.bin", content)
    (file,) = only_event(platform).files
    await platform.adapter().download(file, tmp_path / "got", MOST)
    assert (tmp_path / "got").read_bytes() == content


@pytest.mark.parametrize("says_size", [True, False])
@played
async def test_a_file_larger_than_allowed_is_refused(
    platform: TelegramPlatform, tmp_path: Path, says_size: bool
) -> None:
    ada = await platform.direct("Ada")
    platform.server.chats.says_size = says_size
    await platform.send_file(ada, "Ada", "a.bin", bytes(300_000))
    (file,) = only_event(platform).files
    adapter = platform.adapter()
    with pytest.raises(FileTooLarge):
        await adapter.download(file, tmp_path / "got", 299_999)
    assert not (tmp_path / "got").exists()
    assert platform.server.downloads == (0 if says_size else 1)
    await adapter.download(file, tmp_path / "got", 300_000)


@played
async def test_a_file_larger_than_telegram_gives_to_bots_is_too_large(
    platform: TelegramPlatform, tmp_path: Path
) -> None:
    ada = await platform.direct("Ada")
    await platform.send_file(ada, "Ada", "film.mp4", bytes(MAX_DOWNLOAD + 1))
    (file,) = only_event(platform).files
    with pytest.raises(FileTooLarge, match=r"film\.mp4"):
        await platform.adapter().download(file, tmp_path / "got", MOST)


@played
async def test_a_file_that_is_gone_is_refused(platform: TelegramPlatform, tmp_path: Path) -> None:
    with pytest.raises(SendRefused):
        await platform.adapter().download(ChatFile("gone", "a", "b"), tmp_path / "got", MOST)


@played
async def test_a_download_that_breaks_shows_no_token(platform: TelegramPlatform, tmp_path: Path) -> None:
    ada = await platform.direct("Ada")
    await platform.send_file(ada, "Ada", "a.bin", b"content")
    (file,) = only_event(platform).files
    platform.server.chats.files_by_path.clear()
    with pytest.raises(Unreachable) as broken:
        await platform.adapter().download(file, tmp_path / "got", MOST)
    assert TOKEN not in str(broken.value)
    assert broken.value.__cause__ is None
    assert not (tmp_path / "got").exists()
