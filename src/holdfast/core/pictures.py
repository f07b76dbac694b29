"""Checks pictures in messages: an http address, or a data URL that holds a whole file.

The file in a data URL must be of the type that the URL names. The signature, the structure up to its end and,
in a PNG, the checksums are checked. The pixels are not decoded: a model may still refuse the picture later.
The time for a check grows with the bytes, not with what the file claims: the number of its pieces is limited.
"""

import binascii
import re
import struct
import zlib
from collections.abc import Callable
from urllib.parse import urlsplit

PICTURE_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")
MAX_PICTURE_BYTES = 15_000_000
"""Bytes of one picture's file."""
MAX_URL_LENGTH = 8_192
DATA_URL = re.compile(r"data:(?P<type>[^;,]*)(?P<more>;[^,]*)?,", re.IGNORECASE)
ALIASES = {"image/jpg": "image/jpeg"}
NOT_IN_AN_ADDRESS = re.compile(r"[\x00-\x20\x7f-\x9f\ud800-\udfff\s]")

PNG = b"\x89PNG\r\n\x1a\n"
GIF_TRAILER, GIF_EXTENSION, GIF_IMAGE = 0x3B, 0x21, 0x2C
JPEG_START, JPEG_END = b"\xff\xd8", b"\xff\xd9"
JPEG_MARKER = re.compile(rb"\xff+")
"""Any number of these bytes may stand before the code of a marker."""
JPEG_SCAN = 0xDA
JPEG_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
JPEG_BARE = frozenset({0x01, *range(0xD0, 0xD8)})
"""Markers without a length."""

FREE_PIECES = 500
BYTES_PER_PIECE = 32
"""Pieces (chunks, segments, blocks) of a picture have more bytes than this on average, past the first 500."""
SLICE = 1 << 20
"""Characters that are decoded in one call. Other threads wait only for one such call."""


class _TooManyPieces(Exception):
    """A file has more pieces than any program writes."""


class _Pieces:
    """Counts the pieces of one file while it is read."""

    def __init__(self, data: bytes) -> None:
        self._left = FREE_PIECES + len(data) // BYTES_PER_PIECE

    def count(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise _TooManyPieces


def media_type(url: str) -> str | None:
    """The type that a data URL names, in the spelling that every model takes; None for any other URL."""
    found = DATA_URL.match(url)
    if found is None:
        return None
    named = found["type"].lower()
    return ALIASES.get(named, named)


def picture_url_problem(url: object) -> str | None:
    """The problem with the URL of a picture, without reading the picture; None when there is none."""
    if not isinstance(url, str) or not url:
        return "its url is not a text"
    if url[:5].lower() == "data:":
        return _data_url_problem(url)
    if len(url) > MAX_URL_LENGTH:
        return f"its url is longer than {MAX_URL_LENGTH:,} characters"
    if NOT_IN_AN_ADDRESS.search(url):
        return "its url holds blanks or control characters"
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - raises when it is none
    except ValueError:
        return "its url is not an address"
    if parts.scheme.lower() not in ("http", "https") or not parts.hostname:
        return "its url is neither http:// or https:// with a host, nor a data URL"
    return None


def picture_problem(url: object) -> str | None:
    """The problem with a picture, including the structure of its file; None when there is none."""
    problem = picture_url_problem(url)
    if problem is not None or not isinstance(url, str) or url[:5].lower() != "data:":
        return problem
    kind, encoded = media_type(url), url[url.index(",") + 1 :]
    if len(encoded) > (MAX_PICTURE_BYTES + 2) // 3 * 4:
        return f"it is larger than {MAX_PICTURE_BYTES:,} bytes"
    try:
        data = _decoded(encoded)
    except ValueError:
        return "its data is not valid base64"
    name = str(kind).removeprefix("image/").upper()
    try:
        whole = STRUCTURE_CHECKS[str(kind)](data, _Pieces(data))
    except (IndexError, struct.error):
        whole = False
    except _TooManyPieces:
        return f"its {name} file is cut into too many pieces"
    return None if whole else f"its data is not a whole {name} file"


def _decoded(encoded: str) -> bytes:
    """Decode base64; raises `ValueError` when the text is not base64."""
    padding = encoded.find("=")
    if 0 <= padding < len(encoded) - 2:
        raise ValueError("more follows the padding")
    slices = (encoded[at : at + SLICE].encode("ascii") for at in range(0, len(encoded), SLICE))
    return b"".join(binascii.a2b_base64(each, strict_mode=True) for each in slices)


def _data_url_problem(url: str) -> str | None:
    found = DATA_URL.match(url)
    if found is None:
        return "its data URL has no comma before the data"
    kind = media_type(url)
    if kind not in PICTURE_TYPES:
        return f"its type is {str(kind)[:60] or 'not named'!r}; models take {', '.join(PICTURE_TYPES)}"
    if (found["more"] or "").lower() != ";base64":
        return f"its data URL should begin with data:{kind};base64,"
    return None


def _whole_png(data: bytes, pieces: _Pieces) -> bool:
    if not data.startswith(PNG):
        return False
    view = memoryview(data)
    offset, pixels, first = len(PNG), False, True
    while True:
        pieces.count()
        length, kind = struct.unpack_from(">I4s", data, offset)
        body = view[offset + 8 : offset + 8 + length]
        (checksum,) = struct.unpack_from(">I", data, offset + 8 + length)
        if len(body) != length or zlib.crc32(body, zlib.crc32(kind)) != checksum:
            return False
        if first and (kind != b"IHDR" or length != 13 or 0 in struct.unpack_from(">II", body)):  # noqa: PLR2004
            return False
        first, pixels = False, pixels or (kind == b"IDAT" and length > 0)
        if kind == b"IEND":
            return pixels
        offset += 12 + length


def _whole_jpeg(data: bytes, pieces: _Pieces) -> bool:
    if not data.startswith(JPEG_START):
        return False
    offset, framed = len(JPEG_START), False
    while (found := JPEG_MARKER.match(data, offset)) is not None:
        pieces.count()
        marker, offset = data[found.end()], found.end() + 1
        if marker in JPEG_BARE:
            continue
        (length,) = struct.unpack_from(">H", data, offset)
        if marker in JPEG_FRAMES:
            # The height may come later in the file, the width may not.
            framed = struct.unpack_from(">H", data, offset + 5)[0] > 0
        offset += length
        if marker == JPEG_SCAN:
            return framed and data.find(JPEG_END, offset) > offset
    return False


def _whole_gif(data: bytes, pieces: _Pieces) -> bool:
    if data[:6] not in (b"GIF87a", b"GIF89a"):
        return False
    width, height, flags = struct.unpack_from("<HHB", data, 6)
    offset, pictures = 13 + _colours(flags), 0
    while (block := data[offset]) != GIF_TRAILER:
        if block == GIF_EXTENSION:
            offset = _after_blocks(data, offset + 2, pieces)
        elif block == GIF_IMAGE:
            offset = _after_blocks(data, offset + 11 + _colours(data[offset + 9]), pieces)
            pictures += 1
        else:
            return False
    return bool(width and height and pictures)


def _colours(flags: int) -> int:
    """The bytes of a colour table."""
    return 3 << ((flags & 7) + 1) if flags & 0x80 else 0


def _after_blocks(data: bytes, offset: int, pieces: _Pieces) -> int:
    pieces.count()
    while size := data[offset]:
        pieces.count()
        offset += 1 + size
    return offset + 1


def _whole_webp(data: bytes, pieces: _Pieces) -> bool:
    if data[:4] != b"RIFF" or data[8:12] != b"WEBP":
        return False
    end = 8 + struct.unpack_from("<I", data, 4)[0]
    offset, pixels = 12, False
    while offset < end:
        pieces.count()
        kind, length = struct.unpack_from("<4sI", data, offset)
        pixels = pixels or (kind in (b"VP8 ", b"VP8L", b"ANMF") and length > 0)
        offset += 8 + length + length % 2
    return pixels and offset <= end <= len(data)


STRUCTURE_CHECKS: dict[str, Callable[[bytes, _Pieces], bool]] = {
    "image/png": _whole_png,
    "image/jpeg": _whole_jpeg,
    "image/gif": _whole_gif,
    "image/webp": _whole_webp,
}
