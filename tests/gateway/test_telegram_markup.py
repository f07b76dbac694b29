"""Markdown as Telegram's HTML: only its tags, nothing of the text lost, measured in its unit."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from holdfast.gateway.adapters.telegram_markup import telegram_text, utf16_cut, utf16_size
from tests.gateway.telegram_html import BadHtml, text_of

SIGNS = st.sampled_from("*_~`#>-[]()!<|&\\\"' \nx漢😀\ud83d")
WORDS = st.sampled_from(
    ["**", "~~", "```\n", "1. ", "](", "&amp;", "<b>", "http://a.b/c", "\n|-|-|\n", "\n- "]
)
MARKDOWN = st.lists(SIGNS | WORDS | st.text(max_size=8), max_size=40).map("".join)


def letters(text: str) -> str:
    return "".join(each for each in text if each.isalnum())


def spoken(markdown: str) -> list[str]:
    """Each piece of text in the Markdown, by the parser's own tokens."""
    whole = markdown.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": 100}).enable(["table", "strikethrough"])
    pieces = []
    for token in parser.parse(whole):
        if token.type in ("fence", "code_block"):
            pieces.append(token.content)
        pieces += [inner.content for inner in token.children or []]
    return [piece for piece in map(letters, pieces) if piece]


@given(MARKDOWN)
@example("**bold `code` bold**")
@example('[**b** `c`](http://a.b/?x=1&y="2")')
@example("> a\n> > b\n> > - c")
@example("# **x** `y`")
@example("![](http://a.b)[](http://c.d)")
@example('```a"><b\nx\n```')
def test_what_is_sent_has_only_tags_of_telegram_and_all_of_the_text(markdown: str) -> None:
    sent = telegram_text(markdown)
    assert text_of(sent.html.encode().decode()) == sent.text
    left = letters(sent.text)
    for piece in spoken(markdown):
        found = left.find(piece)
        assert found >= 0, f"{piece!r} is missing in {sent.text!r}"
        left = left[found + len(piece) :]


@given(st.text(), st.integers(1, 20))
def test_a_cut_text_fits(text: str, most: int) -> None:
    cut = utf16_cut(text, most)
    assert utf16_size(cut) <= most
    assert cut == text or text.startswith(cut[:-1])


@pytest.mark.parametrize(
    ("markdown", "html"),
    [
        ("**a** *b* ~~c~~ `d`", "<b>a</b> <i>b</i> <s>c</s> <code>d</code>"),
        ("a < b & c > d", "a &lt; b &amp; c &gt; d"),
        ("<script>x</script>", "&lt;script&gt;x&lt;/script&gt;"),
        ("# Title\n\ntext", "<b>Title</b>\n\ntext"),
        ("**a `b` c**", "<b>a </b><code>b</code><b> c</b>"),
        ("```py\nx < 1\n```", '<pre><code class="language-py">x &lt; 1</code></pre>'),
        ("```\nx\n```", "<pre>x</pre>"),
        ("- a\n- b\n  - c", "• a\n• b\n   • c"),
        ("3. a\n4. b", "3. a\n4. b"),
        ("> a\n>\n> > b", "<blockquote>a\n\nb</blockquote>"),
        ("[a](https://b.c/?d=1&e=2)", '<a href="https://b.c/?d=1&amp;e=2">a</a>'),
        ("[`a`](https://b.c)", '<a href="https://b.c">a</a>'),
        ("[a](src/a%20b.py)", "a (src/a b.py)"),
        ("<me@b.c>", "me@b.c"),
        ("![a](https://b.c/d.png)", '<a href="https://b.c/d.png">a</a>'),
        ("a\nb  \nc", "a\nb\nc"),
        ("---", "———"),
        ("[]()", "[]()"),
        (
            "| a | long |\n|---|---:|\n| **漢** | 1 |",
            "<pre>a  | long\n---+-----\n漢 |    1</pre>",
        ),
    ],
)
def test_markdown_becomes_html(markdown: str, html: str) -> None:
    assert telegram_text(markdown).html == html


@pytest.mark.parametrize(
    ("markdown", "size"),
    [
        ("abc", 3),
        ("**abc**", 3),
        ("😀", 2),
        ("a &lt; b", 5),
        ("[x](https://long.example/address)", 1),
        ("漢字", 2),
    ],
)
def test_a_text_is_measured_in_utf_16_after_its_marks_are_taken_out(markdown: str, size: int) -> None:
    assert telegram_text(markdown).size == size


@pytest.mark.parametrize(
    "html", ["<p>x</p>", "<b>x", "x</b>", "<b><code>x</code></b>", "a & b", "<b class='x'>y</b>", "&nbsp;"]
)
def test_the_reader_of_these_tests_refuses_what_telegram_refuses(html: str) -> None:
    with pytest.raises(BadHtml):
        text_of(html)
