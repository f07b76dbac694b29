"""HTML of any kind becomes text, in bounded time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.clock import SystemClock
from holdfast.tools.html_text import html_to_text


def text(html: str) -> str:
    return html_to_text(html, "https://example.com/a/b", SystemClock())[1]


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ("plain", "plain"),
        ("<p>a</p><p>b</p>", "a\n\nb"),
        ("a<br>b", "a\nb"),
        ("a  \n\t b", "a b"),
        ("<h2>x</h2>y", "## x\n\ny"),
        ("<ul><li>a<ul><li>b</ul></ul>", "- a\n\n  - b"),
        ("<a href='c'>d</a>", "[d](https://example.com/a/c)"),
        ("<a href='#x'>here</a>", "here"),
        ("<a href='mailto:x'>mail</a>", "mail"),
        ("<a href='http://[bad'>bad</a>", "bad"),
        ("<a href='c'></a>x", "x"),
        ("<img alt='a  cat' src=x>", "[image: a cat]"),
        ("<pre>a\n  b</pre>", "a\n  b"),
        ("&lt;b&gt; &amp;nbsp; &#228;", "<b> &nbsp; ä"),
        ("<script>if (a < b) {}</script>x", "x"),
        ("<svg><svg></svg>no</svg>yes", "yes"),
        ("<svg><title>no</title></svg>yes", "yes"),
        ("<style>never closed", ""),
        ("a<!-- <p>no --> b", "a b"),
        ("</p></div>stray", "stray"),
        ("<p <p <p>x", "x"),
    ],
)
def test_html_becomes_text(html: str, expected: str) -> None:
    assert text(html) == expected


@given(st.text(alphabet="<>/!-ab p=\"'&;#\n", max_size=200))
def test_anything_becomes_text(html: str) -> None:
    assert isinstance(text(html), str)


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "part", ["<!--", "<a ", "<svg>", "<p>", "</x>", "<![CDATA[", "&#", "<a href=x>", "<ul>", "<"]
)
def test_a_hostile_page_is_read_in_bounded_time(part: str) -> None:
    assert isinstance(text(part * (100_000 // len(part)) + "</svg>" * 1000), str)


def test_what_was_not_read_is_said() -> None:
    assert text("<p>kept<!--" + "x" * 100_000).startswith("kept\n\n[the last ")
