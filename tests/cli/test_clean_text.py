"""Nothing that a model or a tool says can command the terminal."""

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.clean_text import CleanStream, clean, one_line

NASTY = st.text(
    alphabet=st.one_of(st.sampled_from("\x1b[]m;0JH\r\n\t\x07\\\x9b\x08\u202e"), st.characters()), max_size=60
)


def harmless(text: str) -> bool:
    return all(each == "\n" or unicodedata.category(each) not in ("Cc", "Cs") for each in text)


@given(NASTY)
def test_no_control_character_is_left(text: str) -> None:
    assert harmless(clean(text))
    assert clean(clean(text)) == clean(text)


@given(st.lists(NASTY, max_size=6))
def test_pieces_are_as_clean_as_the_whole(pieces: list[str]) -> None:
    stream = CleanStream()
    assert harmless("".join([*map(stream.feed, pieces), stream.close()]))


@given(st.text(max_size=40), st.integers(0, 40))
def test_plain_text_comes_through_whole_however_it_is_cut(text: str, cut: int) -> None:
    stream = CleanStream()
    shown = stream.feed(text[:cut]) + stream.feed(text[cut:]) + stream.close()
    assert shown == clean(text) or "\x1b" in text


def test_a_sequence_that_comes_in_two_pieces_goes_whole() -> None:
    stream = CleanStream()
    assert stream.feed("a\x1b[3") + stream.feed("1mred\x1b]0;ti") + stream.feed("tle\x07b") == "aredb"


@given(NASTY, st.integers(1, 30))
def test_a_line_fits_its_width(text: str, width: int) -> None:
    from rich.cells import cell_len

    shown = one_line(text, width)
    assert "\n" not in shown
    assert cell_len(shown) <= width
