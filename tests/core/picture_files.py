"""Small whole pictures of every type that models take, written by hand."""

import base64
import struct
import zlib


def png(width: int = 2, height: int = 2) -> bytes:
    rows = (b"\0" + b"\x40\x80\xc0" * width) * height
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b"")]
    body = b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + body


def jpeg() -> bytes:
    app = b"\xff\xe0" + struct.pack(">H", 16) + b"JFIF\0\1\1\0\0\1\0\1\0\0"
    frame = b"\xff\xc0" + struct.pack(">HBHHB", 11, 8, 1, 1, 1) + b"\1\x11\0"
    scan = b"\xff\xda" + struct.pack(">H", 8) + b"\1\1\0\0\x3f\0" + b"\x12\x34\xff\0\x56"
    return b"\xff\xd8" + app + frame + scan + b"\xff\xd9"


def gif() -> bytes:
    screen = b"GIF89a" + struct.pack("<HHBBB", 1, 1, 0x80, 0, 0) + b"\0\0\0\xff\xff\xff"
    control = b"\x21\xf9\x04\1\0\0\0\0"
    image = b"\x2c" + struct.pack("<HHHHB", 0, 0, 1, 1, 0) + b"\x02\x02\x4c\x01\0"
    return screen + control + image + b"\x3b"


def webp() -> bytes:
    pixels = b"VP8L" + struct.pack("<I", 5) + b"\x2f\0\0\0\0" + b"\0"
    return b"RIFF" + struct.pack("<I", 4 + len(pixels)) + b"WEBP" + pixels


WHOLE = {"image/png": png(), "image/jpeg": jpeg(), "image/gif": gif(), "image/webp": webp()}


def data_url(data: bytes, kind: str = "image/png") -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def picture(url: str | None = None) -> dict[str, object]:
    """A part of a message: a whole PNG unless another address is given."""
    return {"type": "image_url", "image_url": {"url": url or data_url(png())}}
