"""A text is cut into parts that fit, and nothing of it is lost or doubled."""

import html
import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.gateway.markdown_blocks import OPENER
from holdfast.gateway.splitter import split

FENCED = re.compile(r"```(\w*)\n(.*?)\n```", re.DOTALL)


def utf16(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def escaped(text: str) -> int:
    """As MarkdownV2 of Telegram counts it: each special character has a backslash."""
    return len(re.sub(r"([_*\[\]()~`>#+\-=|{}.!\\])", r"\\\1", text))


def as_html(text: str) -> int:
    """As a platform counts that wants HTML: marks become tags, and the size is in bytes."""
    shown = html.escape(text)
    shown = re.sub(r"```(\w*)\n(.*?)\n```", r'<pre><code class="\1">\2</code></pre>', shown, flags=re.DOTALL)
    shown = re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", shown)
    return len(shown.encode("utf-8", "surrogatepass"))


MEASURES = [len, utf16, escaped, as_html]


def open_fence(text: str) -> str:
    """The marks of the fence that is open at the end of a text."""
    marks = ""
    for line in text.split("\n"):
        opener = OPENER.fullmatch(line)
        if not marks:
            marks = opener[2] if opener else ""
        elif re.fullmatch(rf"[ \t]*{re.escape(marks[0])}{{{len(marks)},}}[ \t]*", line):
            marks = ""
    return marks


def content(text: str) -> str:
    """What is said, without fences, spaces and the backslashes that keep a line from opening a fence."""
    marks, kept = "", []
    for line in text.split("\n"):
        opener = OPENER.fullmatch(line)
        if not marks and opener:
            marks = opener[2]
        elif marks and re.fullmatch(rf"[ \t]*{re.escape(marks[0])}{{{len(marks)},}}[ \t]*", line):
            marks = ""
        else:
            kept.append(re.sub(r"^([ \t]*)\\(?=```|~~~)", r"\1", line))
    return "".join("".join(kept).split())


words = st.text(st.sampled_from("abcé😀ßñ<&>*_.!"), min_size=1, max_size=12)
sentences = st.lists(words, min_size=1, max_size=15).map(" ".join)
paragraphs = st.lists(sentences, min_size=1, max_size=4).map("\n".join)
lists = st.lists(sentences, min_size=1, max_size=6).map(lambda each: "\n".join(f"- {item}" for item in each))
fences = st.tuples(st.sampled_from(["", "python", "js"]), st.lists(sentences, max_size=8)).map(
    lambda each: "\n".join([f"```{each[0]}", *each[1], "```"])
)
documents = st.lists(st.one_of(paragraphs, lists, fences), max_size=8).map("\n\n".join)
anything = st.text(st.sampled_from("ab `~|-:#\n\\>1."), max_size=300)
measures = st.sampled_from(MEASURES)


@given(documents, measures, st.integers(40, 400))
def test_every_part_of_a_document_fits_and_its_words_are_the_words_of_the_document(
    text: str, measure: Callable[[str], int], most: int
) -> None:
    parts = split(text, measure, most)
    assert all(measure(part) <= most for part in parts)
    assert all(not open_fence(part) for part in parts)
    assert "".join(map(content, parts)) == content(text)


@given(documents, measures)
def test_words_that_fit_are_not_cut(text: str, measure: Callable[[str], int]) -> None:
    parts = split(text, measure, 400)
    said = [word for part in parts for word in re.sub(r"```\w*", "", part).split()]
    assert said == re.sub(r"```\w*", "", text).split()


@given(anything, measures, st.integers(20, 60))
def test_any_text_at_all_fits_with_closed_fences_and_loses_nothing(
    text: str, measure: Callable[[str], int], most: int
) -> None:
    parts = split(text, measure, most)
    assert all(measure(part) <= most for part in parts)
    assert all(not open_fence(part) for part in parts)
    if "|" not in text:  # the headers of tables are repeated
        assert "".join(map(content, parts)) == content(text)


@given(st.text(max_size=200), st.integers(20, 60))
def test_any_characters_pass(text: str, most: int) -> None:
    parts = split(text, utf16, most)
    assert all(utf16(part) <= most for part in parts)
    assert "".join(map(content, parts)) == content(text.replace("\r", "\n"))


@given(documents)
def test_a_text_that_fits_stays_as_it_is(text: str) -> None:
    assert split(text, len, 1_000_000) == ([text.strip("\n").rstrip()] if text.strip() else [])


def test_a_fence_is_closed_and_opened_again_with_its_language() -> None:
    lines = [f"print({number})" for number in range(100)]
    text = "Look:\n\n```python\n" + "\n".join(lines) + "\n```\n\nThat is all."
    parts = split(text, len, 200)
    assert len(parts) > 5
    found = [FENCED.search(part) for part in parts]
    assert all(each is None or each[1] == "python" for each in found)
    assert [line for each in found if each for line in each[2].split("\n")] == lines
    assert parts[0].startswith("Look:\n\n```python\nprint(0)")
    assert parts[-1].endswith("```\n\nThat is all.")


def test_blank_lines_and_indentation_of_code_are_kept() -> None:
    code = "\n".join(f"def f{number}():\n\n    return {number}\n" for number in range(30))
    parts = split(f"```python\n{code}\n```", len, 120)
    bodies = [part.removeprefix("```python\n").removesuffix("\n```") for part in parts]
    assert "\n".join(bodies) == code


def test_a_fence_that_was_never_closed_is_closed() -> None:
    assert split("```\ncode", len, 100) == ["```\ncode\n```"]


def test_a_line_of_code_that_is_cut_does_not_close_its_fence() -> None:
    text = "````\n" + "x" * 10 + " ````" * 8 + "\n````"
    for part in split(text, len, 24):
        assert not open_fence(part)


def test_a_table_has_its_header_in_every_part() -> None:
    head = "| name | size |\n|---|---:|"
    rows = [f"| file{number} | {number} |" for number in range(40)]
    parts = split("Files:\n\n" + "\n".join([head, *rows]) + "\n\nDone.", len, 150)
    assert all(head in part for part in parts)
    assert [line for part in parts for line in part.split("\n") if line.startswith("| file")] == rows


cells = st.text(st.sampled_from("abc <&*é😀"), max_size=10)
tables = st.lists(st.tuples(cells, cells), min_size=1, max_size=30)


@given(tables, st.lists(sentences, max_size=3), measures, st.integers(120, 300))
def test_no_row_of_a_table_is_lost_doubled_or_without_its_header(
    rows: list[tuple[str, str]], before: list[str], measure: Callable[[str], int], most: int
) -> None:
    head = "| left | right |\n|---|---|"
    lines = [f"| {number}:{left} | {right} |" for number, (left, right) in enumerate(rows)]
    parts = split("\n\n".join([*before, "\n".join([head, *lines])]), measure, most)
    assert all(measure(part) <= most for part in parts)
    assert [line for part in parts for line in part.split("\n") if re.match(r"\| \d+:", line)] == lines
    assert all(head in part for part in parts if re.search(r"^\| \d+:", part, re.MULTILINE))


def test_a_row_that_is_too_large_is_cut_as_text() -> None:
    text = "| a | b |\n|---|---|\n| " + "word " * 100 + "| x |\n| y | z |"
    parts = split(text, len, 100)
    assert all(len(part) <= 100 for part in parts)
    assert "".join(map(content, parts)) == content(text)


def test_cuts_are_between_paragraphs_then_items_then_sentences_then_words() -> None:
    assert split("one two\nthree\n\nfour five six", len, 20) == ["one two\nthree", "four five six"]
    assert split("- one two\n  more\n- three four five", len, 22) == [
        "- one two\n  more",
        "- three four five",
    ]
    assert split("One two three. Four five six seven.", len, 25) == ["One two three.", "Four five six seven."]
    assert split("one two three four five", len, 12) == ["one two", "three four", "five"]


def test_a_heading_stays_with_its_paragraph() -> None:
    text = "first paragraph here\n\n# Heading\n\n" + "second paragraph " * 4
    assert split(text, len, 60)[1].startswith("# Heading\n\nsecond")


def test_a_minus_in_a_sentence_does_not_become_an_item_of_a_list() -> None:
    assert split("seven eight - nine", len, 12) == ["seven", "eight - nine"]


def test_a_sign_of_several_characters_is_not_cut() -> None:
    family = "👩\u200d👩\u200d👧"
    parts = split(family * 20, len, 24)
    assert "".join(parts) == family * 20
    assert all(part.startswith("👩") and part.endswith("👧") for part in parts)


def test_a_text_of_spaces_has_no_parts_and_a_limit_can_be_too_small() -> None:
    assert split(" \n\n ", len, 10) == []
    with pytest.raises(ValueError, match="not one character"):
        split("abc", lambda text: len(text) + 10, 10)


PATHOLOGICAL = {
    "one word": "x" * 100_000,
    "words": "word " * 20_000,
    "spaces": " " * 100_000 + "x",
    "blank lines": "x" + "\n" * 100_000 + "y",
    "backticks": "x" + "`" * 100_000,
    "fences": "```\n" * 10_000,
    "a long fence": "```python\n" + "x = 1\n" * 10_000 + "```",
    "a language of many letters": "```" + "x" * 100_000 + "\ncode\n```",
    "an open fence in each line": "```a\n~~~b\n" * 5_000,
    "a table": "| a | b |\n|---|---|\n" + "| c | d |\n" * 10_000,
    "headers of tables": "| a | b |\n|---|---|\n" * 5_000,
    "a row of spaces": "|\n" + " " * 50_000 + "|" + " " * 50_000,
    "full stops": "." * 100_000,
    "backslashes": "\\" * 100_000,
    "combining marks": "e" + "\u0301" * 100_000,
}


@pytest.mark.parametrize("most", [20, 4096])
@pytest.mark.parametrize("name", PATHOLOGICAL)
def test_the_work_grows_no_faster_than_the_text(name: str, most: int) -> None:
    """Counted in characters that are measured, since time says more about the machine."""
    text = PATHOLOGICAL[name]
    measured = 0

    def measure(part: str) -> int:
        nonlocal measured
        measured += len(part) + 1
        return len(part)

    parts = split(text, measure, most)
    assert all(len(part) <= most for part in parts)
    assert measured <= 40 * len(text) + 20 * most
