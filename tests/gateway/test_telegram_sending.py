"""Telegram: what the bot sends, edits and shows, and what comes of each way in which that can fail."""

from contextlib import aclosing
from pathlib import Path

import pytest

from holdfast.gateway.contract import (
    Button,
    ChatPlatformError,
    Command,
    FileTooLarge,
    NotTaken,
    Outgoing,
    Place,
    Route,
    SendRefused,
    SlowDown,
    Unreachable,
)
from holdfast.testing.chat_platform import ChatPlatform, Fault, SeenMessage
from tests.gateway.telegram_chats import ApiError
from tests.gateway.telegram_platform import TelegramPlatform
from tests.gateway.telegram_server import RateLimit
from tests.gateway.telegram_story import played

KEY = "a-key"
PNG = b"\x89PNG\r\n\x1a\n and so on"


async def only_message(platform: TelegramPlatform, place: Place) -> SeenMessage:
    (message,) = await platform.messages(place)
    return message


def test_it_is_a_platform_for_the_suite_of_all_adapters() -> None:
    platform: ChatPlatform = TelegramPlatform()
    assert platform.adapter().traits.repeat == "placeholder"


@played
async def test_markdown_arrives_as_text_with_telegrams_marks(platform: TelegramPlatform) -> None:
    ada = await platform.direct("Ada")
    number = await platform.adapter().send(Route(ada), Outgoing("**a** < `b`"), KEY)
    seen = await only_message(platform, ada)
    assert (seen.id, seen.text, seen.by_bot) == (number, "a < b", True)
    assert platform.chat(ada).sources[int(number)] == "<b>a</b> &lt; <code>b</code>"
    assert platform.server.calls[-1][1]["link_preview_options"] == {"is_disabled": True}


@played
async def test_a_route_has_a_topic_and_a_message_that_is_answered(platform: TelegramPlatform) -> None:
    forum = await platform.group(["Ada"], is_forum=True)
    topic = await platform.topic(forum, "News")
    asked = await platform.say(topic, "Ada", "what?")
    await platform.adapter().send(Route(topic, asked), Outgoing("that"), KEY)
    answer = (await platform.messages(topic))[-1]
    assert (answer.text, answer.thread, answer.reply_to) == ("that", topic.thread, asked)


@played
async def test_an_answer_to_a_message_that_is_gone_is_sent_all_the_same(platform: TelegramPlatform) -> None:
    ada = await platform.direct("Ada")
    asked = await platform.say(ada, "Ada", "what?")
    del platform.chat(ada).messages[int(asked)]
    await platform.adapter().send(Route(ada, asked), Outgoing("that"), KEY)
    assert (await only_message(platform, ada)).reply_to == ""


@pytest.mark.parametrize("is_silent", [True, False])
@played
async def test_a_silent_message_notifies_nobody(platform: TelegramPlatform, is_silent: bool) -> None:
    ada = await platform.direct("Ada")
    await platform.adapter().send(Route(ada), Outgoing("psst", is_silent=is_silent), KEY)
    _, parameters = platform.server.calls[-1]
    assert ("disable_notification" in parameters) is is_silent


@played
async def test_a_placeholder_becomes_the_answer_and_repeating_that_is_a_success(
    platform: TelegramPlatform,
) -> None:
    ada = await platform.direct("Ada")
    adapter = platform.adapter()
    number = await adapter.send(Route(ada), Outgoing("…"), KEY)
    for _ in range(2):
        await adapter.edit(Route(ada), number, Outgoing("the **answer**", (Button("Yes", "y"),)))
    seen = await only_message(platform, ada)
    assert (seen.id, seen.text, seen.buttons) == (number, "the answer", ("y",))
    await adapter.edit(Route(ada), number, Outgoing("the **answer**"))
    assert (await only_message(platform, ada)).buttons == ()


@played
async def test_a_placeholder_becomes_a_file(platform: TelegramPlatform, tmp_path: Path) -> None:
    ada = await platform.direct("Ada")
    adapter = platform.adapter()
    (tmp_path / "a.txt").write_bytes(b"content")
    number = await adapter.send(Route(ada), Outgoing("…"), KEY)
    await adapter.edit(Route(ada), number, Outgoing("*here*", file=tmp_path / "a.txt"))
    seen = await only_message(platform, ada)
    assert (seen.id, seen.text, seen.file) == (number, "here", b"content")


@played
async def test_a_message_that_is_gone_or_not_the_bots_can_not_be_edited(
    platform: TelegramPlatform,
) -> None:
    ada = await platform.direct("Ada")
    adapter = platform.adapter()
    hers = await platform.say(ada, "Ada", "mine")
    for number in (hers, "99"):
        with pytest.raises(SendRefused):
            await adapter.edit(Route(ada), number, Outgoing("other"))


@played
async def test_a_message_is_deleted_once(platform: TelegramPlatform) -> None:
    ada = await platform.direct("Ada")
    adapter = platform.adapter()
    number = await adapter.send(Route(ada), Outgoing("wrong"), KEY)
    for _ in range(2):
        await adapter.delete(Route(ada), number)
    assert await platform.messages(ada) == []


@played
async def test_a_reaction_is_shown_and_may_be_repeated(platform: TelegramPlatform) -> None:
    ada = await platform.direct("Ada")
    adapter = platform.adapter()
    number = await platform.say(ada, "Ada", "hello")
    for _ in range(2):
        await adapter.react(Route(ada), number, "👀")
    assert platform.chat(ada).reactions[int(number)] == ["👀"]
    with pytest.raises(SendRefused):
        await adapter.react(Route(ada), number, "🦤")


@played
async def test_typing_is_shown_in_its_topic_until_the_answer(platform: TelegramPlatform) -> None:
    forum = await platform.group(["Ada"], is_forum=True)
    topic = await platform.topic(forum, "News")
    adapter = platform.adapter()
    await adapter.show_typing(Route(topic))
    assert platform.is_typing(topic)
    assert not platform.is_typing(forum)
    await adapter.stop_typing(Route(topic))
    await adapter.send(Route(topic), Outgoing("done"), KEY)
    assert not platform.is_typing(topic)


@played
async def test_a_press_comes_with_the_value_and_is_confirmed(platform: TelegramPlatform) -> None:
    place = await platform.group(["Ada"])
    adapter = platform.adapter()
    value = "v" * 64
    number = await adapter.send(Route(place), Outgoing("Shall I?", (Button("Yes", value),)), KEY)
    await platform.press(place, "Ada", number, value)
    async with aclosing(adapter.receive({"": "0"})) as batches:
        (press,) = (await anext(batches)).events
    assert (press.kind, press.text, press.message_id, press.place) == ("press", value, number, place)
    assert press.sender.name == "Ada"
    await adapter.confirm_press(press, "😀" * 150)
    assert platform.server.chats.notes[press.press_token] == "😀" * 99 + "…"
    platform.server.chats.open_presses.clear()
    await adapter.confirm_press(press, "too late")


@pytest.mark.parametrize(
    ("labels", "rows"), [(["Yes", "No"], [2]), (["Yes, always and everywhere", "No, not now"], [1, 1])]
)
@played
async def test_short_buttons_stand_side_by_side(
    platform: TelegramPlatform, labels: list[str], rows: list[int]
) -> None:
    ada = await platform.direct("Ada")
    buttons = tuple(Button(label, str(number)) for number, label in enumerate(labels))
    number = await platform.adapter().send(Route(ada), Outgoing("?", buttons), KEY)
    markup = platform.chat(ada).messages[int(number)]["reply_markup"]
    assert [len(row) for row in markup["inline_keyboard"]] == rows


@pytest.mark.parametrize(
    ("name", "content", "method"),
    [
        ("a.txt", b"text", "sendDocument"),
        ("a.PNG", PNG, "sendPhoto"),
        ("a.png", b"no picture", "sendDocument"),
        ("a.ogg", b"OggS", "sendVoice"),
    ],
)
@played
async def test_a_file_is_sent_as_what_it_is(
    platform: TelegramPlatform, tmp_path: Path, name: str, content: bytes, method: str
) -> None:
    ada = await platform.direct("Ada")
    path = tmp_path / name
    path.write_bytes(content)
    await platform.adapter().send(Route(ada), Outgoing("*see*", file=path), KEY)
    seen = await only_message(platform, ada)
    assert (seen.file, seen.text) == (content, "see")
    assert platform.server.calls[-1][0] == method


@played
async def test_a_file_that_telegram_would_not_take_is_not_sent(
    platform: TelegramPlatform, tmp_path: Path
) -> None:
    ada = await platform.direct("Ada")
    adapter = platform.adapter()
    path = tmp_path / "a.bin"
    with path.open("wb") as file:
        file.truncate(adapter.traits.max_upload + 1)
    with pytest.raises(FileTooLarge):
        await adapter.send(Route(ada), Outgoing("", file=path), KEY)
    with pytest.raises(SendRefused, match="can't be read"):
        await adapter.send(Route(ada), Outgoing("", file=tmp_path / "none.png"), KEY)
    path.write_bytes(b"small")
    with pytest.raises(SendRefused, match="caption"):
        await adapter.send(Route(ada), Outgoing("x" * 1025, file=path), KEY)
    platform.server.answer_next("sendDocument", ApiError(413, "Request Entity Too Large"))
    with pytest.raises(FileTooLarge):
        await adapter.send(Route(ada), Outgoing("", file=path), KEY)
    assert await platform.messages(ada) == []


@played
async def test_commands_are_listed(platform: TelegramPlatform) -> None:
    await platform.adapter().set_commands([Command("new", "Begin anew"), Command("long", "x" * 300)])
    first, second = platform.server.chats.commands
    assert first == {"command": "new", "description": "Begin anew"}
    assert len(second["description"]) == 256


@pytest.mark.parametrize(("fault", "error", "is_taken"), [
    ("slow down", SlowDown, False),
    ("drop before", Unreachable, False),
    ("drop after", Unreachable, True),
    ("refuse", SendRefused, False),
])  # fmt: skip
@played
async def test_a_failed_call_says_whether_it_may_have_been_taken(
    platform: TelegramPlatform, fault: Fault, error: type[ChatPlatformError], is_taken: bool
) -> None:
    ada = await platform.direct("Ada")
    adapter = platform.adapter()
    number = await adapter.send(Route(ada), Outgoing("first"), KEY)
    await platform.fail(fault, 2)
    with pytest.raises(error):
        await adapter.send(Route(ada), Outgoing("second"), KEY)
    with pytest.raises(error):
        await adapter.edit(Route(ada), number, Outgoing("edited"))
    expected = ["edited", "second"] if is_taken else ["first"]
    assert [seen.text for seen in await platform.messages(ada)] == expected
    await adapter.edit(Route(ada), number, Outgoing("edited"))
    assert (await platform.messages(ada))[0].text == "edited"


@played
async def test_a_server_that_is_down_has_taken_nothing(platform: TelegramPlatform) -> None:
    ada = await platform.direct("Ada")
    adapter = platform.adapter()
    await platform.server.close()
    with pytest.raises(NotTaken):
        await adapter.send(Route(ada), Outgoing("hello"), KEY)
    await platform.server.start()
    await adapter.send(Route(ada), Outgoing("hello"), KEY)
    assert (await only_message(platform, ada)).text == "hello"


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (ApiError(500, "Internal Server Error"), Unreachable),
        (ApiError(502, "Bad Gateway", is_json=False), Unreachable),
        (ApiError(400, "Bad Request: chat not found"), SendRefused),
        (ApiError(403, "Forbidden: user is deactivated"), SendRefused),
        (ApiError(400, "Bad Request: group chat was upgraded", {"migrate_to_chat_id": -100}), SendRefused),
    ],
)
@played
async def test_an_answer_is_refused_for_good_or_of_unknown_outcome(
    platform: TelegramPlatform, answer: ApiError, error: type[ChatPlatformError]
) -> None:
    ada = await platform.direct("Ada")
    platform.server.answer_next("sendMessage", answer)
    with pytest.raises(error):
        await platform.adapter().send(Route(ada), Outgoing("hello"), KEY)


@played
async def test_a_chat_without_the_bot_refuses(platform: TelegramPlatform) -> None:
    place = await platform.group(["Ada"])
    adapter = platform.adapter()
    platform.chat(place).has_bot = False
    with pytest.raises(SendRefused, match="kicked"):
        await adapter.send(Route(place), Outgoing("hello"), KEY)
    with pytest.raises(SendRefused, match="chat not found"):
        await adapter.send(Route(Place("5")), Outgoing("hello"), KEY)


@pytest.mark.parametrize(
    "rate",
    [RateLimit(chat_seconds=3600.0), RateLimit(account_per_second=2), RateLimit(group_per_minute=1)],
    ids=["chat", "account", "group"],
)
@played
async def test_telegrams_pace_is_told_with_its_seconds(platform: TelegramPlatform, rate: RateLimit) -> None:
    group, ada = await platform.group(["Ada"]), await platform.direct("Ada")
    adapter = platform.adapter()
    platform.server.rate = rate
    await adapter.send(Route(group), Outgoing("one"), KEY)
    await adapter.send(Route(ada), Outgoing("another chat"), KEY)
    with pytest.raises(SlowDown) as slow:
        await adapter.send(Route(group), Outgoing("two"), KEY)
    assert slow.value.seconds >= 1
    assert not slow.value.whole_account
    assert rate.refused == 1
    assert (await only_message(platform, group)).text == "one"


@played
async def test_markup_that_telegram_can_not_read_is_sent_as_text(platform: TelegramPlatform) -> None:
    ada = await platform.direct("Ada")
    adapter = platform.adapter()
    refused = ApiError(400, "Bad Request: can't parse entities: unsupported start tag")
    platform.server.answer_next("sendMessage", refused)
    number = await adapter.send(Route(ada), Outgoing("**a** < b"), KEY)
    assert (await only_message(platform, ada)).text == "a < b"
    platform.server.answer_next("editMessageText", refused)
    await adapter.edit(Route(ada), number, Outgoing("**c**"))
    assert (await only_message(platform, ada)).text == "c"


@pytest.mark.parametrize("text", ["x" * 4096, "😀" * 2048, "**" + "x" * 4096 + "**", "&lt;" * 4096])
@played
async def test_what_measures_as_much_as_allowed_is_taken_and_more_is_not(
    platform: TelegramPlatform, text: str
) -> None:
    ada = await platform.direct("Ada")
    adapter = platform.adapter()
    assert adapter.measure(text) == adapter.traits.max_size
    await adapter.send(Route(ada), Outgoing(text), KEY)
    assert adapter.measure(text + "y") == adapter.traits.max_size + 1
    with pytest.raises(SendRefused, match="too long"):
        await adapter.send(Route(ada), Outgoing(text + "y"), KEY)


@played
async def test_there_is_no_looking_back(platform: TelegramPlatform) -> None:
    ada = await platform.direct("Ada")
    adapter = platform.adapter()
    number = await adapter.send(Route(ada), Outgoing("hello"), KEY)
    assert await adapter.find_sent(Route(ada), KEY) is None
    assert await adapter.history(ada, number, 10) == ()
    assert not adapter.traits.has_history


@played
async def test_an_adapter_is_closed_as_often_as_one_likes(platform: TelegramPlatform) -> None:
    adapter = platform.adapter()
    await adapter.close()
    await adapter.connect()
    for _ in range(2):
        await adapter.close()
