"""What a Matrix event says, and what Markdown becomes: pure functions, without a server."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.gateway.adapters.matrix_events import (
    RoomFacts,
    current_content,
    incoming,
    is_message,
    membership,
    relation,
    since_arrival,
)
from holdfast.gateway.adapters.matrix_markup import matrix_html, measured

ME = "@bot:gw.test"
NAMES = [ME, "bot", "Hold Fast"]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
FIELDS = ("type", "content", "sender", "event_id", "state_key", "origin_server_ts", "unsigned")
PARTS = ("body", "msgtype", "m.relates_to", "m.mentions", "url", "info", "filename", "membership")
RELATES = ("rel_type", "event_id", "is_falling_back", "m.in_reply_to")


def objects(names: tuple[str, ...], **better: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Objects whose fields have any type."""
    return st.fixed_dictionaries({}, optional={name: better.get(name, JSON) | JSON for name in names})


EVENTS = objects(
    FIELDS,
    content=objects(
        PARTS, **{"m.relates_to": objects(RELATES, rel_type=st.sampled_from(["m.thread", "m.replace"]))}
    ),
    type=st.sampled_from(["m.room.message", "m.room.member"]),
)


def message(body: str, **content: object) -> dict[str, Any]:
    said = {"msgtype": "m.text", "body": body, **content}
    return {"type": "m.room.message", "event_id": "$1", "sender": "@ann:gw.test", "content": said}


def member(now: str, before: str = "", who: str = ME) -> dict[str, Any]:
    return {
        "type": "m.room.member",
        "state_key": who,
        "content": {"membership": now},
        "unsigned": {"prev_content": {"membership": before}},
    }


@given(EVENTS, EVENTS)
def test_no_event_can_break_the_receiver(event: dict[str, Any], answered: dict[str, Any]) -> None:
    is_message(event)
    membership(event, ME)
    read = incoming("!room", event, RoomFacts(), NAMES, answered)
    assert read.id == read.message_id
    assert read.sent >= 0
    f"{read.text}{read.quoted}{read.sender.name}{read.files}".encode()


@pytest.mark.parametrize(
    ("said", "text", "is_mention"),
    [
        ("bot: hello", "hello", True),
        ("@bot, hello", "hello", True),
        ("Hold Fast: hello", "hello", True),
        (f"{ME} hello", "hello", True),
        (f"hello {ME}", f"hello {ME}", True),
        (f"{ME}: hello", "hello", True),
        ("@bot:other.test hello", "@bot:other.test hello", False),
        (f"hello {ME}.", f"hello {ME}.", True),
        (f"hello {ME}.example", f"hello {ME}.example", False),
        ("bottles: hello", "bottles: hello", False),
        ("the bot said hello", "the bot said hello", False),
    ],
)
def test_a_name_at_the_beginning_is_a_mention(said: str, text: str, is_mention: bool) -> None:
    read = incoming("!room", message(said), RoomFacts(), NAMES, {})
    assert (read.text, read.is_mention) == (text, is_mention)


def test_the_mark_of_a_client_is_a_mention() -> None:
    marked = message("Hold Fast hello", **{"m.mentions": {"user_ids": [ME]}})
    read = incoming("!room", marked, RoomFacts(), NAMES, {})
    assert (read.text, read.is_mention) == ("hello", True)
    others = message("Hold Fast hello", **{"m.mentions": {"user_ids": ["@ann:gw.test"]}})
    assert not incoming("!room", others, RoomFacts(), NAMES, {}).is_mention


def test_the_quote_of_an_older_client_is_no_text() -> None:
    reply = message(f"> <{ME}> long\n> ago\n\nnow", **{"m.relates_to": {"m.in_reply_to": {"event_id": "$0"}}})
    read = incoming("!room", reply, RoomFacts(), NAMES, message("long\nago"))
    assert (read.text, read.quoted, read.is_mention) == ("now", "long\nago", False)


def test_a_caption_is_the_text_of_a_file() -> None:
    file = {"msgtype": "m.image", "url": "mxc://gw.test/1", "info": {"mimetype": "image/png", "size": 7}}
    captioned = {**message(""), "content": {**file, "body": "look", "filename": "a.png"}}
    read = incoming("!room", captioned, RoomFacts(), NAMES, {})
    assert (read.text, read.files[0].name, read.files[0].media_type) == ("look", "a.png", "image/png")
    bare = {**message(""), "content": {**file, "body": "a.png"}}
    read = incoming("!room", bare, RoomFacts(), NAMES, {})
    assert (read.text, read.files[0].name, read.files[0].size) == ("", "a.png", 7)


def test_the_newest_edit_is_what_a_message_says() -> None:
    edit = {"content": {"m.new_content": {"body": "new"}}}
    assert (
        current_content({**message("old"), "unsigned": {"m.relations": {"m.replace": edit}}})["body"] == "new"
    )
    assert relation(message("x", **{"m.relates_to": {"rel_type": "m.replace"}})).replaces


def test_only_what_follows_an_invitation_is_for_the_bot() -> None:
    before, after, later = message("before"), message("after"), message("later")
    assert since_arrival([before, after], ME) == [before, after]
    invited = [before, member("invite"), after, member("join", "invite"), later]
    assert since_arrival(invited, ME) == [after, invited[3], later]
    assert since_arrival([before, member("join"), after], ME) == [after]
    renamed = [before, member("join", "join"), after]
    assert since_arrival(renamed, ME) == renamed
    others = [before, member("join", who="@ann:gw.test"), after]
    assert since_arrival(others, ME) == others


@pytest.mark.parametrize(
    ("markdown", "html"),
    [
        ("plain\ntext & <b>", ""),
        ("**bold** _it_ ~~no~~", "<strong>bold</strong> <em>it</em> <s>no</s>"),
        ("`a < b`", "<code>a &lt; b</code>"),
        ("**one**\ntwo", "<strong>one</strong><br>\ntwo"),
        ("one\n\ntwo", "<p>one</p>\n<p>two</p>"),
        ("```py\nx = 1\n```", '<pre><code class="language-py">x = 1\n</code></pre>'),
        ("[a](https://x.test/?q=1&r=2)", '<a href="https://x.test/?q=1&amp;r=2">a</a>'),
        ("![a](https://x.test/p.png)", '<a href="https://x.test/p.png">a</a>'),
        ("![a](/p.png)", "a"),
        ("[a](/etc/passwd)", "<a>a</a>"),
        ("**x** <script>", "<strong>x</strong> &lt;script&gt;"),
    ],
)
def test_markdown_becomes_the_html_of_matrix(markdown: str, html: str) -> None:
    assert matrix_html(markdown) == html


def test_a_table_has_no_styles() -> None:
    html = matrix_html("| a | b |\n|--:|---|\n| 1 | 2 |")
    assert "<td>1</td>" in html
    assert "style" not in html


@given(st.text(st.characters()))
def test_every_text_can_be_shown_and_measured(markdown: str) -> None:
    assert measured(markdown) >= len(markdown)
