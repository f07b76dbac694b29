"""Documents as text: PDF, Word, Excel and PowerPoint, with the numbers of their pages.

For the tool that reads files, for files in messages and for files that people send in chats. The libraries
are the extra `documents`. Read `document_worker.py` first.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

from holdfast.core.distribution import install_command
from holdfast.core.errors import ToolFailed
from holdfast.core.messages import storable
from holdfast.tools import document_worker
from holdfast.tools.json_worker import json_worker

DOCUMENT_SECONDS = 60.0
DOCUMENT_CHARACTERS = 2_000_000
MAX_DOCUMENT_BYTES = 20_000_000
PDF, ZIP, OLD_OFFICE = b"%PDF-", b"PK\x03\x04", b"\xd0\xcf\x11\xe0"
SUFFIXES = (".pdf", ".docx", ".xlsx", ".pptx")
OLD_SUFFIXES = (".doc", ".xls", ".ppt")


def is_document(name: str, data: bytes) -> bool:
    """Whether a file is a PDF or an Office document, by its first bytes and its name."""
    start, low = data[:1024], name.lower()
    if start.lstrip().startswith(PDF):
        return True
    if start.startswith(OLD_OFFICE):
        return low.endswith((*SUFFIXES, *OLD_SUFFIXES))
    return start.startswith(ZIP) and low.endswith(SUFFIXES[1:])


async def document_text(name: str, data: bytes, seconds: float = DOCUMENT_SECONDS) -> str:
    """The text of a document, each page after a line with its number. Raises `ToolFailed` with the reason."""
    if data.startswith(OLD_OFFICE):
        raise ToolFailed(
            f"{name} can't be read: it is protected by a password, or in the format of an old Office. "
            "Save it without a password as docx, xlsx or pptx."
        )
    if len(data) > MAX_DOCUMENT_BYTES:
        raise ToolFailed(f"{name} has {len(data):,} bytes; a document may have {MAX_DOCUMENT_BYTES:,}")
    pages: list[str] = []
    note = f"reading it took more than {seconds:g} s and was ended; this is what came until then"
    asked = json.dumps({"characters": DOCUMENT_CHARACTERS}).encode() + b"\n"
    with contextlib.suppress(TimeoutError):
        async with (
            asyncio.timeout(seconds),
            json_worker(document_worker.__file__, asked + data, 20 * DOCUMENT_CHARACTERS) as lines,
        ):
            note = await _read(lines, name, pages)
    text = "\n\n".join(pages)
    if not any(line and not line.startswith("--- ") for line in text.split("\n")):
        note = note or "there is no text in it; its pages may be pictures"
    return storable("\n\n".join(part for part in (text, f"[{note}]" if note else "") if part))


async def _read(lines: AsyncIterator[dict[str, Any]], name: str, pages: list[str]) -> str:
    """Add each page; returns what is to be said of the whole."""
    async for found in lines:
        if "page" in found:
            pages.append(f"--- {found['page']} ---\n{found['text'].strip()}")
        elif "missing" in found:
            raise ToolFailed(
                f"{name} is a document, and {found['missing']} is not installed. "
                f"Install it with: {install_command('documents')}"
            )
        elif "problem" in found:
            raise ToolFailed(f"{name} can't be read: {found['problem']}")
        elif "more" in found:
            return f"only the first {DOCUMENT_CHARACTERS:,} characters are here"
        else:
            return ""
    if not pages:
        raise ToolFailed(f"{name} can't be read: it takes more memory or time than a document may")
    return "reading it ended early: it takes more memory or time than a document may"
