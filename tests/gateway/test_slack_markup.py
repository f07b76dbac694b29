"""Markdown as Slack shows it, and Slack's messages as plain text."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.gateway.adapters.slack_markup import emoji_name, escaped, mentioned, to_mrkdwn, to_plain
from tests.gateway.slack_platform import plain

OWN_FORMS = re.compile(r"<(?:@[UW][A-Z0-9]+|(?:https?|mailto):[^<>]*)>", re.IGNORECASE)


@pytest.mark.parametrize(
    ("markdown", "mrkdwn"),
    [
        ("plain", "plain"),
        ("**bold** and *slanted* and ~~gone~~", "*bold* and _slanted_ and ~gone~"),
        ("***both***", "_*both*_"),
        ("un**believ**able", "un\u200b*believ*\u200bable"),
        ("`a < b`", "`a &lt; b`"),
        ("a < b & c > d", "a &lt; b &amp; c &gt; d"),
        ("# A **big** title\n\ntext", "*A big title*\n\ntext"),
        ("[here](https://a.test/?x=1&y=2)", "<https://a.test/?x=1&amp;y=2|here>"),
        ("<https://a.test>", "<https://a.test>"),
        ("<ann@a.test>", "<mailto:ann@a.test>"),
        ("[**bold** | x](https://a.test/a|b)", "<https://a.test/a%7Cb|*bold* ¦ x>"),
        ("[run](javascript:alert(1))", "[run](javascript:alert(1))"),
        ("[a file](notes.txt)", "a file"),
        ("![a cat](https://a.test/cat.png)", "<https://a.test/cat.png|a cat>"),
        ("<@U123ABC>, look", "<@U123ABC>, look"),
        ("<!channel> <!subteam^S1> <#C1>", "&lt;!channel&gt; &lt;!subteam^S1&gt; &lt;#C1&gt;"),
        ("<b>x</b>", "&lt;b&gt;x&lt;/b&gt;"),
        (
            "- one\n- two\n  - deep\n    1. deeper\n- three",
            "• one\n• two\n    ◦ deep\n        1. deeper\n• three",
        ),
        ("3. three\n4. four", "3. three\n4. four"),
        ("> said\n> twice\n\nanswer", "> said\n> twice\n\nanswer"),
        ("```python\nif a < b:\n    pass\n```", "```\nif a &lt; b:\n    pass\n```"),
        ("    indented", "```\nindented\n```"),
        ("````\n```\ninner\n````", "```\n`\u200b`\u200b`\ninner\n```"),
        ("one\ntwo  \nthree", "one\ntwo\nthree"),
        ("a\n\n---\n\nb", "a\n\n———\n\nb"),
        ("", ""),
    ],
)
def test_markdown_as_mrkdwn(markdown: str, mrkdwn: str) -> None:
    assert to_mrkdwn(markdown) == mrkdwn


def test_a_table_is_preformatted_and_aligned() -> None:
    table = "| Name | Size |\n|---|---:|\n| **a** & b | 1 |\n| `long name` | 1,000 |\n"
    assert to_mrkdwn(f"Look:\n\n{table}\nDone.") == (
        "Look:\n\n"
        "```\n"
        "Name      | Size\n"
        "----------|------\n"
        "a &amp; b     | 1\n"
        "long name | 1,000\n"
        "```\n\n"
        "Done."
    )


@given(st.text(alphabet=st.sampled_from("ab <>&|!@#U1[]()*_~`-\n:/.?"), max_size=80))
def test_no_text_becomes_a_command_of_slack(text: str) -> None:
    """What is left of `<` and `>` are links and mentions of single persons."""
    left = OWN_FORMS.sub("", to_mrkdwn(text))
    lines = [line.lstrip("> ") for line in left.split("\n")]
    assert not any("<" in line for line in lines)
    assert not re.search(r"&(?!amp;|lt;|gt;)", left)


@given(st.text(max_size=60))
def test_what_a_person_types_arrives_as_typed(text: str) -> None:
    assert to_plain(escaped(text), str) == text


@given(st.lists(st.from_regex(r"[a-z]{1,8}", fullmatch=True), min_size=1, max_size=6))
def test_words_are_neither_lost_nor_moved(words: list[str]) -> None:
    marks = ["{}", "**{}**", "*{}*", "`{}`", "~~{}~~"]
    marked = [marks[number % len(marks)].format(word) for number, word in enumerate(words)]
    assert plain(to_mrkdwn(" ".join(marked))) == " ".join(words)
    assert plain(to_mrkdwn("\n".join(f"- {word}" for word in marked))) == "\n".join(
        f"• {word}" for word in words
    )


@pytest.mark.parametrize(
    ("mrkdwn", "text"),
    [
        ("<@U1>", "@ann"),
        ("<@U2|bea>", "@bea"),
        ("<#C1|general> <#C2>", "#general #C2"),
        ("<!here> <!subteam^S1|@team> <!subteam^S2>", "@here @team @subteam"),
        ("<!date^1392734382^{date}|Feb 18, 2014>", "Feb 18, 2014"),
        ("<https://a.test|a.test>", "https://a.test"),
        ("<mailto:a@b.test|a@b.test>", "mailto:a@b.test"),
        ("<https://a.test/x|this>", "this (https://a.test/x)"),
        ("1 &lt; 2 &amp;amp; 3", "1 < 2 &amp; 3"),
    ],
)
def test_mrkdwn_as_plain_text(mrkdwn: str, text: str) -> None:
    assert to_plain(mrkdwn, {"U1": "ann"}.__getitem__) == text


def test_people_who_are_named_are_found() -> None:
    assert mentioned("<@U1> and <@W2|bea>, not &lt;@U3&gt; or <#C1>") == ["U1", "W2"]


@pytest.mark.parametrize(
    ("emoji", "name"),
    [
        ("👀", "eyes"),
        ("✅", "white_check_mark"),
        ("❤️", "heart"),
        ("👍", "+1"),
        (":tada:", "tada"),
        ("🐙", "octopus"),
    ],
)
def test_an_emoji_by_its_name_in_slack(emoji: str, name: str) -> None:
    assert emoji_name(emoji) == name
