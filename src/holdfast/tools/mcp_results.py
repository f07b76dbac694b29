"""What an MCP server answers, as results for the model: texts, pictures, data, resources and prompts."""

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from holdfast.core.content import MAX_MESSAGE_BYTES
from holdfast.core.messages import storable
from holdfast.core.pictures import picture_problem
from holdfast.tools.contract import ToolResult

if TYPE_CHECKING:
    from mcp_types import CallToolResult, GetPromptResult, ReadResourceResult

MAX_PICTURES = 8
WRAPPED = "result"
"""The one key under which servers wrap a value that is no object; its text is there too."""


class _Blocks:
    """The blocks of an answer as texts, and the pictures among them."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.pictures: list[str] = []
        self._room = MAX_MESSAGE_BYTES

    def add(self, block: dict[str, Any]) -> None:
        match block:
            case {"text": str(text)}:
                self.texts.append(text)
            case {"type": "resource", "resource": dict(resource)}:
                self.add(resource)
            case {"type": "resource_link", "uri": uri, "name": name}:
                self.texts.append(f"({name}: {uri})")
            case {"uri": uri, "blob": str(data), "mime_type": str(mime)} if mime.startswith("image/"):
                self._picture(f"image from {uri}", mime, data)
            case {"uri": uri, "blob": str(data)}:
                self.texts.append(f"(binary data from {uri}, {_size(data)}, not shown)")
            case {"type": "image", "mime_type": mime, "data": str(data)}:
                self._picture("image", str(mime), data)
            case {"type": str(kind), "mime_type": mime, "data": str(data)}:
                self.texts.append(f"({kind} of {mime}, {_size(data)}, not shown)")
            case _:
                self.texts.append(f"({block.get('type', 'something')}, not shown)")

    def _picture(self, what: str, mime: str, data: str) -> None:
        url = f"data:{mime};base64,{data}"
        problem = picture_problem(url)
        if problem is None and (len(self.pictures) >= MAX_PICTURES or len(url) > self._room):
            problem = "there are too many, or too large ones, in this result"
        if problem is not None:
            self.texts.append(f"({what}, {mime}, {_size(data)}, not shown: {problem})")
            return
        self._room -= len(url)
        self.pictures.append(url)
        self.texts.append(f"({what}, {mime}, {_size(data)})")

    def result(self, *, ok: bool = True) -> ToolResult:
        text = storable("\n".join(self.texts)) or "(no output)"
        return ToolResult(text, ok=ok, pictures=tuple(self.pictures))


def _size(encoded: str) -> str:
    return f"{len(encoded) * 3 // 4} bytes"


def as_result(result: "CallToolResult") -> ToolResult:
    """The answer to a call. Large pictures are checked, so it is called off the event loop."""
    blocks = _Blocks()
    for each in result.content:
        blocks.add(each.model_dump(mode="json"))
    data = result.structured_content
    if data is not None and not _is_said(data, blocks.texts):
        blocks.texts.append(json.dumps(data, ensure_ascii=False))
    return blocks.result(ok=not result.is_error)


def _is_said(data: object, texts: Iterable[str]) -> bool:
    """Whether the texts hold the structured data already, as most servers have it."""
    texts = list(texts)
    if isinstance(data, dict) and set(data) == {WRAPPED} and texts:
        return True
    for text in texts:
        try:
            if json.loads(text) == data:
                return True
        except ValueError:
            continue
    return False


def resource_result(result: "ReadResourceResult") -> ToolResult:
    """The content of a resource."""
    blocks = _Blocks()
    for each in result.contents:
        blocks.add(each.model_dump(mode="json"))
    return blocks.result()


def prompt_result(result: "GetPromptResult") -> ToolResult:
    """The messages of a prompt."""
    blocks = _Blocks()
    for each in result.messages:
        blocks.texts.append(f"[{each.role}]")
        blocks.add(each.content.model_dump(mode="json"))
    return blocks.result()
