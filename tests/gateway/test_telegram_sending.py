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

pytestmark = pytest.mark.slow  # the real library takes seconds to load

KEY = "a-key"
PNG = b"\x89PNG\r\n\x1a\n and so on"


async def only_message(telegram: TelegramPlatform, place: Place) -> SeenMessage:
    (message,) = await telegram.messages(place)
    return message


def test_it_is_a_platform_for_the_suite_of_all_adapters() -> None:
    telegram: ChatPlatform = TelegramPlatform()
    assert telegram.adapter().traits.repeat == "placeholder"


@played
async def test_markdown_arrives_as_text_with_telegrams_marks(telegram: TelegramPlatform) -> None:
    ada = await telegram.direct("Ada")
    number = await telegram.adapter().send(Route(ada), Outgoing("**a** < `b`"), KEY)
    seen = await only_message(telegram, ada)
    assert (seen.id, seen.text, seen.by_bot) == (number, "a < b", True)
    assert telegram.chat(ada).sources[int(number)] == "<b>a</b> &lt; <code>b</code>"
    assert telegram.server.calls[-1][1]["link_preview_options"] == {"is_disabled": True}


@played
async def test_a_route_has_a_topic_and_a_message_that_is_answered(telegram: TelegramPlatform) -> None:
    forum = await telegram.group(["Ada"], is_forum=True)
    topic = await telegram.topic(forum, "News")
    asked = await telegram.say(topic, "Ada", "what?")
    await telegram.adapter().send(Route(topic, asked), Outgoing("that"), KEY)
    answer = (await telegram.messages(topic))[-1]
    assert (answer.text, answer.thread, answer.reply_to) == ("that", topic.thread, asked)


@played
async def test_an_answer_to_a_message_that_is_gone_is_sent_all_the_same(telegram: TelegramPlatform) -> None:
    ada = await telegram.direct("Ada")
    asked = await telegram.say(ada, "Ada", "what?")
    del telegram.chat(ada).messages[int(asked)]
    await telegram.adapter().send(Route(ada, asked), Outgoing("that"), KEY)
    assert (await only_message(telegram, ada)).reply_to == ""


@pytest.mark.parametrize("is_silent", [True, False])
@played
async def test_a_silent_message_notifies_nobody(telegram: TelegramPlatform, is_silent: bool) -> None:
    ada = await telegram.direct("Ada")
    await telegram.adapter().send(Route(ada), Outgoing("psst", is_silent=is_silent), KEY)
    _, parameters = telegram.server.calls[-1]
    assert ("disable_notification" in parameters) is is_silent


@played
async def test_a_placeholder_becomes_the_answer_and_repeating_that_is_a_success(
    telegram: TelegramPlatform,
) -> None:
    ada = await telegram.direct("Ada")
    adapter = telegram.adapter()
    number = await adapter.send(Route(ada), Outgoing("…"), KEY)
    for _ in range(2):
        await adapter.edit(Route(ada), number, Outgoing("the **answer**", (Button("Yes", "y"),)))
    seen = await only_message(telegram, ada)
    assert (seen.id, seen.text, seen.buttons) == (number, "the answer", ("y",))
    await adapter.edit(Route(ada), number, Outgoing("the **answer**"))
    assert (await only_message(telegram, ada)).buttons == ()


@played
async def test_a_placeholder_becomes_a_file(telegram: TelegramPlatform, tmp_path: Path) -> None:
    ada = await telegram.direct("Ada")
    adapter = telegram.adapter()
    (tmp_path / "a.txt").write_bytes(b"content")
    number = await adapter.send(Route(ada), Outgoing("…"), KEY)
    await adapter.edit(Route(ada), number, Outgoing("*here*", file=tmp_path / "a.txt"))
    seen = await only_message(telegram, ada)
    assert (seen.id, seen.text, seen.file) == (number, "here", b"content")


@played
async def test_a_message_that_is_gone_or_not_the_bots_can_not_be_edited(
    telegram: TelegramPlatform,
) -> None:
    ada = await telegram.direct("Ada")
    adapter = telegram.adapter()
    hers = await telegram.say(ada, "Ada", "mine")
    for number in (hers, "99"):
        with pytest.raises(SendRefused):
            await adapter.edit(Route(ada), number, Outgoing("other"))


@played
async def test_a_message_is_deleted_once(telegram: TelegramPlatform) -> None:
    ada = await telegram.direct("Ada")
    adapter = telegram.adapter()
    number = await adapter.send(Route(ada), Outgoing("wrong"), KEY)
    for _ in range(2):
        await adapter.delete(Route(ada), number)
    assert await telegram.messages(ada) == []


@played
async def test_a_reaction_is_shown_and_may_be_repeated(telegram: TelegramPlatform) -> None:
    ada = await telegram.direct("Ada")
    adapter = telegram.adapter()
    number = await telegram.say(ada, "Ada", "hello")
    for _ in range(2):
        await adapter.react(Route(ada), number, "👀")
    assert telegram.chat(ada).reactions[int(number)] == ["👀"]
    with pytest.raises(SendRefused):
        await adapter.react(Route(ada), number, "🦤")


@played
async def test_typing_is_shown_in_its_topic_until_the_answer(telegram: TelegramPlatform) -> None:
    forum = await telegram.group(["Ada"], is_forum=True)
    topic = await telegram.topic(forum, "News")
    adapter = telegram.adapter()
    await adapter.show_typing(Route(topic))
    assert telegram.is_typing(topic)
    assert not telegram.is_typing(forum)
    await adapter.stop_typing(Route(topic))
    await adapter.send(Route(topic), Outgoing("done"), KEY)
    assert not telegram.is_typing(topic)


@played
async def test_a_press_comes_with_the_value_and_is_confirmed(telegram: TelegramPlatform) -> None:
    place = await telegram.group(["Ada"])
    adapter = telegram.adapter()
    value = "v" * 64
    number = await adapter.send(Route(place), Outgoing("Shall I?", (Button("Yes", value),)), KEY)
    await telegram.press(place, "Ada", number, value)
    async with aclosing(adapter.receive({"": "0"})) as batches:
        (press,) = (await anext(batches)).events
    assert (press.kind, press.text, press.message_id, press.place) == ("press", value, number, place)
    assert press.sender.name == "Ada"
    await adapter.confirm_press(press, "😀" * 150)
    assert telegram.server.chats.notes[press.press_token] == "😀" * 99 + "…"
    telegram.server.chats.open_presses.clear()
    await adapter.confirm_press(press, "too late")


@pytest.mark.parametrize(
    ("labels", "rows"), [(["Yes", "No"], [2]), (["Yes, always and everywhere", "No, not now"], [1, 1])]
)
@played
async def test_short_buttons_stand_side_by_side(
    telegram: TelegramPlatform, labels: list[str], rows: list[int]
) -> None:
    ada = await telegram.direct("Ada")
    buttons = tuple(Button(label, str(number)) for number, label in enumerate(labels))
    number = await telegram.adapter().send(Route(ada), Outgoing("?", buttons), KEY)
    markup = telegram.chat(ada).messages[int(number)]["reply_markup"]
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
    telegram: TelegramPlatform, tmp_path: Path, name: str, content: bytes, method: str
) -> None:
    ada = await telegram.direct("Ada")
    path = tmp_path / name
    path.write_bytes(content)
    await telegram.adapter().send(Route(ada), Outgoing("*see*", file=path), KEY)
    seen = await only_message(telegram, ada)
    assert (seen.file, seen.text) == (content, "see")
    assert telegram.server.calls[-1][0] == method


@played
async def test_a_file_that_telegram_would_not_take_is_not_sent(
    telegram: TelegramPlatform, tmp_path: Path
) -> None:
    ada = await telegram.direct("Ada")
    adapter = telegram.adapter()
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
    telegram.server.answer_next("sendDocument", ApiError(413, "Request Entity Too Large"))
    with pytest.raises(FileTooLarge):
        await adapter.send(Route(ada), Outgoing("", file=path), KEY)
    assert await telegram.messages(ada) == []


@played
async def test_commands_are_listed(telegram: TelegramPlatform) -> None:
    await telegram.adapter().set_commands([Command("new", "Begin anew"), Command("long", "x" * 300)])
    first, second = telegram.server.chats.commands
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
    telegram: TelegramPlatform, fault: Fault, error: type[ChatPlatformError], is_taken: bool
) -> None:
    ada = await telegram.direct("Ada")
    adapter = telegram.adapter()
    number = await adapter.send(Route(ada), Outgoing("first"), KEY)
    await telegram.fail(fault, 2)
    with pytest.raises(error):
        await adapter.send(Route(ada), Outgoing("second"), KEY)
    with pytest.raises(error):
        await adapter.edit(Route(ada), number, Outgoing("edited"))
    expected = ["edited", "second"] if is_taken else ["first"]
    assert [seen.text for seen in await telegram.messages(ada)] == expected
    await adapter.edit(Route(ada), number, Outgoing("edited"))
    assert (await telegram.messages(ada))[0].text == "edited"


@played
async def test_a_server_that_is_down_has_taken_nothing(telegram: TelegramPlatform) -> None:
    ada = await telegram.direct("Ada")
    adapter = telegram.adapter()
    await telegram.server.close()
    with pytest.raises(NotTaken):
        await adapter.send(Route(ada), Outgoing("hello"), KEY)
    await telegram.server.start()
    await adapter.send(Route(ada), Outgoing("hello"), KEY)
    assert (await only_message(telegram, ada)).text == "hello"


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
    telegram: TelegramPlatform, answer: ApiError, error: type[ChatPlatformError]
) -> None:
    ada = await telegram.direct("Ada")
    telegram.server.answer_next("sendMessage", answer)
    with pytest.raises(error):
        await telegram.adapter().send(Route(ada), Outgoing("hello"), KEY)


@played
async def test_a_chat_without_the_bot_refuses(telegram: TelegramPlatform) -> None:
    place = await telegram.group(["Ada"])
    adapter = telegram.adapter()
    telegram.chat(place).has_bot = False
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
async def test_telegrams_pace_is_told_with_its_seconds(telegram: TelegramPlatform, rate: RateLimit) -> None:
    group, ada = await telegram.group(["Ada"]), await telegram.direct("Ada")
    adapter = telegram.adapter()
    telegram.server.rate = rate
    await adapter.send(Route(group), Outgoing("one"), KEY)
    await adapter.send(Route(ada), Outgoing("another chat"), KEY)
    with pytest.raises(SlowDown) as slow:
        await adapter.send(Route(group), Outgoing("two"), KEY)
    assert slow.value.seconds >= 1
    assert not slow.value.whole_account
    assert rate.refused == 1
    assert (await only_message(telegram, group)).text == "one"


@played
async def test_markup_that_telegram_can_not_read_is_sent_as_text(telegram: TelegramPlatform) -> None:
    ada = await telegram.direct("Ada")
    adapter = telegram.adapter()
    refused = ApiError(400, "Bad Request: can't parse entities: unsupported start tag")
    telegram.server.answer_next("sendMessage", refused)
    number = await adapter.send(Route(ada), Outgoing("**a** < b"), KEY)
    assert (await only_message(telegram, ada)).text == "a < b"
    telegram.server.answer_next("editMessageText", refused)
    await adapter.edit(Route(ada), number, Outgoing("**c**"))
    assert (await only_message(telegram, ada)).text == "c"


@pytest.mark.parametrize("text", ["x" * 4096, "😀" * 2048, "**" + "x" * 4096 + "**", "&lt;" * 4096])
@played
async def test_what_measures_as_much_as_allowed_is_taken_and_more_is_not(
    telegram: TelegramPlatform, text: str
) -> None:
    ada = await telegram.direct("Ada")
    adapter = telegram.adapter()
    assert adapter.measure(text) == adapter.traits.max_size
    await adapter.send(Route(ada), Outgoing(text), KEY)
    assert adapter.measure(text + "y") == adapter.traits.max_size + 1
    with pytest.raises(SendRefused, match="too long"):
        await adapter.send(Route(ada), Outgoing(text + "y"), KEY)


@played
async def test_there_is_no_looking_back(telegram: TelegramPlatform) -> None:
    ada = await telegram.direct("Ada")
    adapter = telegram.adapter()
    number = await adapter.send(Route(ada), Outgoing("hello"), KEY)
    assert await adapter.find_sent(Route(ada), KEY) is None
    assert await adapter.history(ada, number, 10) == ()
    assert not adapter.traits.has_history


@played
async def test_an_adapter_is_closed_as_often_as_one_likes(telegram: TelegramPlatform) -> None:
    adapter = telegram.adapter()
    await adapter.close()
    await adapter.connect()
    for _ in range(2):
        await adapter.close()
