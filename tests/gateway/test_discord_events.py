"""Discord's JSON as events: what people send in unusual ways, and what is nobody's word."""

from typing import Any

import pytest

from holdfast.gateway.adapters.discord_events import (
    Channel,
    read_channel,
    read_interaction,
    read_message,
)
from holdfast.gateway.contract import Place

pytestmark = pytest.mark.slow  # the real library takes seconds to load

ME = "99"
CHANNEL = Channel(Place("5"), "talk")


def message(**more: object) -> dict[str, Any]:
    author = {"id": "7", "username": "ann"}
    return {"id": "1000", "channel_id": "5", "type": 0, "author": author, "content": "hello", **more}


def test_what_discord_itself_says_is_no_message() -> None:
    a_person_joined = 7
    assert read_message(message(type=a_person_joined), CHANNEL, ME) is None


def test_a_webhook_is_a_bot() -> None:
    event = read_message(message(webhook_id="3"), CHANNEL, ME)
    assert event is not None
    assert event.sender.is_bot


def test_a_forwarded_message_is_quoted_and_not_answered() -> None:
    forwarded = message(
        content="",
        message_reference={"type": 1, "message_id": "4", "channel_id": "6"},
        message_snapshots=[{"message": {"content": "from elsewhere"}}],
    )
    event = read_message(forwarded, CHANNEL, ME)
    assert event is not None
    assert (event.text, event.quoted, event.reply_to) == ("", "from elsewhere", "")


def test_a_voice_message_says_so() -> None:
    sound = {"id": "8", "filename": "voice-message.ogg", "content_type": "audio/ogg", "size": 10}
    event = read_message(message(content="", flags=1 << 13, attachments=[sound]), CHANNEL, ME)
    assert event is not None
    assert [(file.is_voice, file.media_type) for file in event.files] == [(True, "audio/ogg")]


def test_a_reply_to_a_message_that_was_deleted_is_still_read() -> None:
    reply = message(type=19, message_reference={"message_id": "4"}, referenced_message=None)
    event = read_message(reply, CHANNEL, ME)
    assert event is not None
    assert (event.reply_to, event.quoted, event.is_mention) == ("4", "", False)


def test_what_cannot_be_read_is_left_out() -> None:
    assert read_message({"id": "1", "type": 0}, CHANNEL, ME) is None
    assert read_interaction({"id": "1", "type": 3}, CHANNEL) is None
    assert read_interaction({"id": "1", "type": 4}, CHANNEL) is None


def test_each_kind_of_channel_is_a_place() -> None:
    direct = read_channel({"id": "5", "type": 1})
    forum_post = read_channel({"id": "6", "type": 11, "parent_id": "5", "name": "idea"})
    assert (direct.place, direct.is_direct) == (Place("5"), True)
    assert (forum_post.place, forum_post.title, forum_post.is_direct) == (Place("5", "6"), "idea", False)
