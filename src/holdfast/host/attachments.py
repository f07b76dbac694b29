"""Files in messages: a picture, a document or a text becomes a part that every model takes.

One function for every surface: an upload over HTTP, `@file` in a terminal, a file that somebody sends in a
chat. A message may have parts `{"type": "file", "file": {"filename": …, "file_data": DATA-URL}}`, as in
OpenAI's API.
"""

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any, cast

from holdfast.core.contract import Message
from holdfast.core.errors import MessageInvalid, ToolFailed
from holdfast.core.messages import fenced, storable
from holdfast.core.pictures import MAX_PICTURE_BYTES
from holdfast.host.store_calls import StoreCalls
from holdfast.tools.documents import MAX_DOCUMENT_BYTES, document_text, is_document
from holdfast.tools.text_files import TextFile

SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
)
Part = dict[str, Any]


async def attachment(name: str, data: bytes) -> Part:
    """A file as a part of a message; raises `MessageInvalid` that names it."""
    shown = name.replace("\n", " ")[-200:] or "the file"
    if not data:
        raise MessageInvalid(f"{shown} is empty")
    if len(data) > MAX_DOCUMENT_BYTES:
        raise MessageInvalid(f"{shown} has {len(data):,} bytes; {MAX_DOCUMENT_BYTES:,} is the most")
    if (media_type := picture_type(data)) is not None:
        return _picture(shown, data, media_type)
    try:
        if is_document(shown, data):
            text = await document_text(shown, data)
        else:
            text = storable(TextFile.decode(data, shown).text)
    except ToolFailed as problem:
        raise MessageInvalid(f"a file can't be sent to a model: {problem}") from problem
    return {"type": "text", "text": f"The file {shown}:\n{fenced('file', text)}"}


def picture_type(data: bytes) -> str | None:
    """The media type of a picture, by its first bytes; None for any other file."""
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for start, kind in SIGNATURES if data.startswith(start)), None)


def _picture(shown: str, data: bytes, media_type: str) -> Part:
    if len(data) > MAX_PICTURE_BYTES:
        raise MessageInvalid(f"{shown} has {len(data):,} bytes; a picture may have {MAX_PICTURE_BYTES:,}")
    encoded = base64.b64encode(data).decode()
    return {"type": "image_url", "image_url": {"url": f"data:{media_type};base64,{encoded}"}}


async def with_attachments(message: Message, call: StoreCalls) -> Message:
    """The message with each part of the type `file` replaced by what models take."""
    content: object = message.get("content")
    if not isinstance(content, Sequence) or isinstance(content, str) or not any(map(_is_file, content)):
        return message
    parts = [await _replaced(number, part, call) for number, part in enumerate(content, 1)]
    return cast("Message", {**message, "content": parts})


def _is_file(part: object) -> bool:
    return isinstance(part, Mapping) and part.get("type") in ("file", "input_file")


async def _replaced(number: int, part: Any, call: StoreCalls) -> Any:  # noqa: ANN401 - any part
    if not _is_file(part):
        return part
    file = part.get("file") if isinstance(part.get("file"), Mapping) else part
    name, encoded = file.get("filename") or f"file {number}", file.get("file_data")
    if not isinstance(name, str) or not isinstance(encoded, str):
        raise MessageInvalid(f"part {number} of the message is a file without a `filename` and `file_data`")
    return await attachment(name, await call(_decoded, name, encoded))


def _decoded(name: str, encoded: str) -> bytes:
    try:
        return base64.b64decode(encoded.rpartition(",")[2], validate=True)
    except (binascii.Error, ValueError) as cause:
        raise MessageInvalid(f"the content of {name} is not base64") from cause
