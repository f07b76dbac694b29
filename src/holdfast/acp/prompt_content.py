"""Makes a message of what an editor sends: text, links to files, files that it encloses, pictures."""

import base64
import binascii
from collections.abc import Sequence
from typing import Any, cast
from urllib.parse import unquote, urlsplit

from acp import schema
from acp.helpers import ContentBlock

from holdfast.core.contract import Message
from holdfast.core.errors import MessageInvalid
from holdfast.core.messages import storable
from holdfast.host.attachments import attachment

Part = dict[str, Any]


async def prompt_message(blocks: Sequence[ContentBlock]) -> str | Message:
    """The message; raises `MessageInvalid` for a part that no model takes. Then nothing is sent."""
    parts: list[Part] = []
    for block in blocks:
        part = await _part(block)
        if parts and parts[-1]["type"] == part["type"] == "text" and _is_text(block):
            parts[-1] = {"type": "text", "text": parts[-1]["text"] + part["text"]}
        else:
            parts.append(part)
    if not parts:
        raise MessageInvalid("the prompt is empty; nothing was sent")
    if len(parts) == 1 and parts[0]["type"] == "text":
        return str(parts[0]["text"])
    return cast("Message", {"role": "user", "content": parts})


def _is_text(block: ContentBlock) -> bool:
    return isinstance(block, schema.TextContentBlock | schema.ResourceContentBlock)


async def _part(block: ContentBlock) -> Part:
    match block:
        case schema.TextContentBlock():
            return {"type": "text", "text": storable(block.text)}
        case schema.ResourceContentBlock():
            return {"type": "text", "text": storable(_location(block.uri) or block.name)}
        case schema.ImageContentBlock():
            url = f"data:{block.mime_type};base64,{block.data}"
            return {"type": "image_url", "image_url": {"url": url}}
        case schema.EmbeddedResourceContentBlock():
            return await _enclosed(block.resource)
    raise MessageInvalid("a model takes no sound; nothing was sent")


async def _enclosed(resource: schema.TextResourceContents | schema.BlobResourceContents) -> Part:
    name = storable(_location(resource.uri)) or "the file"
    if isinstance(resource, schema.TextResourceContents):
        if not resource.text:
            return {"type": "text", "text": f"The file {name} is empty."}
        data = storable(resource.text).encode()
    else:
        try:
            data = base64.b64decode(resource.blob, validate=True)
        except (binascii.Error, ValueError) as cause:
            raise MessageInvalid(f"the content of {name} is not base64; nothing was sent") from cause
    return await attachment(name, data)


def _location(uri: str) -> str:
    """The path of a file, the address of everything else."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return uri
    return unquote(parts.path) if parts.scheme == "file" and parts.path else uri
