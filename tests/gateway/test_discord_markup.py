"""Markdown as Discord shows it; code is never changed; nothing rings."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.gateway.adapters.discord_markup import (
    MARK_SIZE,
    mark,
    nonce,
    size,
    to_discord,
    without_mark,
)


@pytest.mark.parametrize(
    ("markdown", "shown"),
    [
        ("**bold** *it* ~~no~~ [a](https://b.c)", "**bold** *it* ~~no~~ [a](https://b.c)"),
        ("# One\n### Three\n#### Four\n##### **Five** #", "# One\n### Three\n**Four**\n**Five**"),
        ("#### About C# ##\n##### C#\n#### #\n#### ## ##", "**About C#**\n**C#**\n**#**\n**##**"),
        ("a || b || c", "a \\|\\| b \\|\\| c"),
        ("`a || b`", "`a || b`"),
        ("__bold__ and snake__case__name", "**bold** and snake__case__name"),
        ("![a cat](https://cats.org/1.png)", "[a cat](https://cats.org/1.png)"),
        ("above\n\n---\n\nbelow", "above\n\n────────────\n\nbelow"),
        (
            "@everyone, @here, <@12>, <@!12>, <@&3>, <#4>",
            "@\u200beveryone, @\u200bhere, <@\u200b12>, <@\u200b!12>, <@\u200b&3>, <#\u200b4>",
        ),
        ("mail me@example.org", "mail me@example.org"),
        (
            "```python\n@everyone || x\n#### no\n```\n@here",
            "```python\n@everyone || x\n#### no\n```\n@\u200bhere",
        ),
        ("~~~sh\n| a |\n|---|\n~~~\nx", "```sh\n| a |\n|---|\n```\nx"),
        ("````md\n```\n@here\n```\n````", "```md\n``\u200b`\n@here\n``\u200b`\n```"),
        ("- a:\n    ```\n    x || y\n    ```\n- b", "- a:\n    ```\n    x || y\n    ```\n- b"),
        ("```\nnever closed || @here", "```\nnever closed || @here"),
    ],
)
def test_markdown_becomes_what_discord_shows(markdown: str, shown: str) -> None:
    assert to_discord(markdown) == shown


@pytest.mark.parametrize(
    "text",
    [f"#### a{' ' * 50_000}b", f"a|b\n|-{' ' * 50_000}x", f"a|b\n|{' ' * 50_000}x", f"#### {'# ' * 50_000}b"],
    ids=["heading", "rule of a table", "start of a rule", "marks in a heading"],
)
def test_a_line_of_many_blanks_is_converted_in_no_time(text: str) -> None:
    """With a pattern that tries every way to share out the blanks, this takes hours."""
    assert to_discord(text).endswith(text[-1] if "|" in text else f"{text[-1]}**")


def test_a_table_becomes_a_code_block_with_straight_columns() -> None:
    table = "Before\n\n| Name | **Size** |\n|:--|--:|\n| 日本 | 12 |\n| a \\| b |\n\nAfter"
    assert to_discord(table).split("\n") == [
        "Before",
        "",
        "```",
        "Name  │ Size",
        "──────┼─────",
        "日本  │ 12",
        "a | b │",
        "```",
        "",
        "After",
    ]


@given(st.text())
def test_nothing_in_prose_rings(text: str) -> None:
    shown = to_discord(text.replace("`", "").replace("~", "").replace("|", "") + " @everyone <@1>")
    assert "@everyone" not in shown
    assert "<@1>" not in shown


@given(st.text(), st.text())
def test_a_mark_is_known_by_its_key_and_leaves_the_text_alone(text: str, key: str) -> None:
    assert size(mark(key)) == MARK_SIZE
    assert without_mark(text + mark(key)) == text
    assert mark(key).strip() == mark(key)[1:]
    assert len(nonce(key)) == 25
    assert mark(key) != mark(key + "x")
