"""What a message may hold: all else is refused by name, and what is stored all the same can be sent."""

import struct
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.content import (
    MAX_MESSAGE_BYTES,
    MAX_PARTS,
    check_content,
    check_fits,
    check_message,
    part_problem,
    sendable_part,
)
from holdfast.core.errors import InvalidInput, MessageInvalid, MessageTooLong
from holdfast.core.pictures import MAX_PICTURE_BYTES, SLICE, picture_problem
from tests.core.picture_files import WHOLE, data_url, picture, png

pytestmark = pytest.mark.clause("I8")

TEXT = {"type": "text", "text": "look"}


@pytest.mark.parametrize("kind", WHOLE)
def test_a_whole_picture_of_each_type_is_taken(kind: str) -> None:
    check_content([TEXT, picture(data_url(WHOLE[kind], kind))])


@pytest.mark.parametrize("kind", WHOLE)
def test_a_picture_that_was_cut_off_anywhere_is_refused(kind: str) -> None:
    whole = WHOLE[kind]
    for length in range(len(whole)):
        assert picture_problem(data_url(whole[:length], kind)) is not None, length


@pytest.mark.parametrize("kind", WHOLE)
def test_a_picture_of_another_type_than_it_says_is_refused(kind: str) -> None:
    for other, data in WHOLE.items():
        if other != kind:
            assert picture_problem(data_url(data, kind)) is not None, other


def test_a_png_with_one_wrong_byte_is_refused() -> None:
    whole = png()
    for place in range(len(whole)):
        broken = bytearray(whole)
        broken[place] ^= 0x55
        assert picture_problem(data_url(bytes(broken))) is not None, place


@given(st.binary(max_size=200), st.sampled_from(sorted(WHOLE)))
def test_any_bytes_are_judged_without_an_error(data: bytes, kind: str) -> None:
    picture_problem(data_url(data, kind))
    picture_problem(data_url(WHOLE[kind][:12] + data, kind))


def pieces(kind: str, count: int) -> bytes:
    """A file that is whole, but for so many more pieces than it needs, the smallest there are."""
    whole = WHOLE[kind]
    if kind == "image/jpeg":
        return whole[:2] + b"\xff\x01" * count + whole[2:]
    if kind == "image/gif":
        return whole[:-2] + b"\x01\x00" * count + whole[-2:]
    if kind == "image/webp":
        more = whole[12:] + b"EXIF\0\0\0\0" * count
        return whole[:4] + struct.pack("<I", 4 + len(more)) + whole[8:12] + more
    empty = b"tEXt"
    return whole[:33] + (bytes(4) + empty + struct.pack(">I", zlib.crc32(empty))) * count + whole[33:]


@pytest.mark.parametrize("kind", WHOLE)
def test_a_file_of_very_many_pieces_is_refused_before_they_are_read(kind: str) -> None:
    assert picture_problem(data_url(pieces(kind, 300), kind)) is None
    said = picture_problem(data_url(pieces(kind, 10_000), kind))
    assert said is not None
    assert "too many pieces" in said


def test_a_marker_of_a_jpeg_may_be_filled_up_at_any_length() -> None:
    whole = WHOLE["image/jpeg"]
    filled = whole[:2] + b"\xff" * 100_000 + whole[2:]
    assert picture_problem(data_url(filled, "image/jpeg")) is None
    assert picture_problem(data_url(whole[:2] + b"\xff" * 100_000, "image/jpeg")) is not None


@pytest.mark.parametrize("size", [SLICE // 4 * 3 - 1, SLICE // 4 * 3, SLICE // 4 * 3 + 1, SLICE * 2])
def test_a_picture_of_any_size_is_decoded_to_its_end(size: int) -> None:
    whole = WHOLE["image/jpeg"]
    filled = whole[:2] + b"\xff" * (size - len(whole)) + whole[2:]
    url = data_url(filled, "image/jpeg")
    assert picture_problem(url) is None
    for wrong in (url[:-1], url + "=", url + "A", url[:-9] + "=" + url[-8:], url[:SLICE] + "=" + url[SLICE:]):
        said = picture_problem(wrong)
        assert said is not None
        assert "base64" in said


def test_parts_that_are_too_large_together_are_refused_before_one_is_looked_into() -> None:
    text = {"type": "text", "text": "x" * MAX_MESSAGE_BYTES}
    with pytest.raises(MessageInvalid, match="larger than"):
        check_content([text, picture("data:image/png;base64,AAAA")])


@pytest.mark.parametrize(
    "url",
    [
        "https://example.com/a.png",
        "http://10.0.0.1:8080/a?b=c",
        "HTTPS://EXAMPLE.COM/",
        "https://exämple.de/ü.png",
    ],
)
def test_an_address_of_the_web_is_taken(url: str) -> None:
    check_content([picture(url)])


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("ftp://example.com/a.png", "neither http"),
        ("file:///etc/passwd", "neither http"),
        ("a.png", "neither http"),
        ("https://", "neither http"),
        ("https://a b/", "blanks"),
        ("https://a/\ud800", "blanks"),
        ("https://[broken/", "not an address"),
        ("https://a:port/", "not an address"),
        ("https://a/" + "x" * 9000, "longer than"),
        ("data:image/png;base64", "no comma"),
        ("data:image/svg+xml;base64,AAAA", "models take image/png, image/jpeg"),
        ("data:;base64,AAAA", "models take"),
        ("data:image/png,AAAA", "data:image/png;base64,"),
        ("data:image/png;base64,AA AA", "base64"),
        ("data:image/png;base64,AAA", "base64"),
        ("data:image/png;base64,ÄÖÜ", "base64"),
        ("data:image/png;base64,", "not a whole PNG"),
        ("data:image/png;base64," + "A" * (MAX_PICTURE_BYTES // 3 * 4 + 8), "larger than"),
    ],
)
def test_an_address_that_is_none_is_refused_with_its_reason(url: str, said: str) -> None:
    with pytest.raises(MessageInvalid, match="part 2") as refused:
        check_content([TEXT, picture(url)])
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("part", "said"),
    [
        ({"type": "zzz"}, "no part of type 'zzz'"),
        ({"type": "input_audio", "input_audio": {}}, "no part of type 'input_audio'"),
        ({"type": None}, "no part of type None"),
        ({}, "no part of type None"),
        ("text", "it is 'text'"),
        (None, "it is None"),
        ({"type": "text"}, "has a text"),
        ({"type": "text", "text": 7}, "has a text"),
        ({"type": "text", "text": "x", "foo": 1}, "field 'foo'"),
        ({"type": "image_url"}, "has an image_url"),
        ({"type": "image_url", "image_url": "https://a/b.png"}, "has an image_url"),
        ({"type": "image_url", "image_url": {"url": 7}}, "not a text"),
        ({"type": "image_url", "image_url": {"url": "https://a/", "detail": "most"}}, "detail"),
        ({"type": "image_url", "image_url": {"url": "https://a/", "width": 1}}, "field 'width'"),
        ({"type": "image_url", "image_url": {"url": "https://a/"}, "text": "x"}, "field 'text'"),
    ],
)
def test_a_part_that_no_model_takes_is_refused_by_its_place_and_reason(part: object, said: str) -> None:
    with pytest.raises(MessageInvalid, match="part 3 of the message") as refused:
        check_content([TEXT, TEXT, part])
    assert said in str(refused.value)
    assert "not stored" in str(refused.value)


@pytest.mark.parametrize(
    "content", ["", "  \n", None, [], [{"type": "text", "text": " "}], 7, {"text": "x"}, b"x"]
)
def test_what_says_nothing_or_is_no_content_is_refused(content: object) -> None:
    with pytest.raises(InvalidInput):
        check_message({"role": "user", "content": content})


@pytest.mark.parametrize("message", [None, "x", {}, {"content": "x"}, {"role": 7, "content": "x"}])
def test_what_is_no_message_is_refused(message: object) -> None:
    with pytest.raises(MessageInvalid):
        check_message(message)


def test_sizes_have_a_limit_that_is_said() -> None:
    with pytest.raises(MessageInvalid, match=f"at most {MAX_PARTS} parts"):
        check_content([TEXT] * (MAX_PARTS + 1))
    with pytest.raises(MessageInvalid, match="20,000,000 bytes"):
        check_content("ü" * (MAX_MESSAGE_BYTES // 2 + 1))
    half = {"type": "text", "text": "x" * (MAX_MESSAGE_BYTES // 2 + 1)}
    with pytest.raises(MessageInvalid, match="20,000,000 bytes together"):
        check_content([half, half])


def test_a_message_that_the_window_can_not_hold_is_refused_before_it_is_stored() -> None:
    check_fits({"role": "user", "content": "x" * 4_000}, "small", 1_000)
    for content in ("x" * 7_000, [{"type": "text", "text": "x" * 3_500}] * 2):
        with pytest.raises(MessageTooLong, match="1,000"):
            check_fits({"role": "user", "content": content}, "small", 1_000)


@given(
    st.dictionaries(
        st.sampled_from(["type", "text", "image_url", "foo"]),
        st.one_of(
            st.none(),
            st.integers(),
            st.sampled_from(["text", "image_url", "zzz", "https://a/b.png"]),
            st.dictionaries(
                st.sampled_from(["url", "detail", "x"]), st.sampled_from(["https://a/", "low", 7])
            ),
        ),
    )
)
def test_any_stored_part_becomes_one_that_a_model_can_be_sent(part: dict[str, Any]) -> None:
    sent = sendable_part(part)
    assert part_problem(sent) is None
    if part_problem(part) is None:
        assert sent is part


def test_what_takes_the_place_of_a_part_says_what_was_there() -> None:
    assert "picture" in sendable_part(picture("ftp://x/y"))["text"]
    assert "'zzz'" in sendable_part({"type": "zzz"})["text"]
    kept = sendable_part({"type": "text", "text": "words", "cache_control": {}})
    assert kept == {"type": "text", "text": "words"}


@pytest.mark.parametrize("letter", ["\u6c34", "\u3042", "\u30ab", "\ud55c"])
def test_a_text_in_east_asian_characters_counts_for_more_than_one_in_an_alphabet(letter: str) -> None:
    check_fits({"role": "user", "content": letter * 79_000}, "m", 32_000)
    check_fits({"role": "user", "content": "\u0436" * 100_000}, "m", 32_000)
    with pytest.raises(MessageTooLong):
        check_fits({"role": "user", "content": [{"type": "text", "text": letter * 100_000}]}, "m", 32_000)
