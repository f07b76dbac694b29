"""Documents as text: PDF, Word, Excel and PowerPoint, with the numbers of their pages.

For the tool that reads files, for files in messages and for files that people send in chats. The libraries
are the extra `documents`. Read `document_worker.py` first.
"""

import asyncio
import contextlib
import json
import sys

from holdfast.core.distribution import install_command
from holdfast.core.errors import ToolFailed
from holdfast.core.messages import storable
from holdfast.tools import document_worker

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
    worker = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-X", "utf8", document_worker.__file__),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={},
        start_new_session=True,
        limit=20 * DOCUMENT_CHARACTERS,
    )
    pages: list[str] = []
    try:
        async with asyncio.timeout(seconds):
            note = await _read(worker, name, data, pages)
    except TimeoutError:
        note = f"reading it took more than {seconds:g} s and was ended; this is what came until then"
    finally:
        with contextlib.suppress(ProcessLookupError):
            worker.kill()
        await worker.wait()
    text = "\n\n".join(pages)
    if not any(line and not line.startswith("--- ") for line in text.split("\n")):
        note = note or "there is no text in it; its pages may be pictures"
    return storable("\n\n".join(part for part in (text, f"[{note}]" if note else "") if part))


async def _read(worker: asyncio.subprocess.Process, name: str, data: bytes, pages: list[str]) -> str:
    """Add each page; returns what is to be said of the whole."""
    if worker.stdin is None or worker.stdout is None:
        raise ToolFailed("the reader of documents has no pipes")
    asked = json.dumps({"characters": DOCUMENT_CHARACTERS}).encode() + b"\n"
    sending = asyncio.create_task(_send(worker.stdin, asked + data))
    try:
        async for line in worker.stdout:
            found = json.loads(line)
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
    finally:
        sending.cancel()
    if not pages:
        raise ToolFailed(f"{name} can't be read: it takes more memory or time than a document may")
    return "reading it ended early: it takes more memory or time than a document may"


async def _send(pipe: asyncio.StreamWriter, data: bytes) -> None:
    with contextlib.suppress(ConnectionError):
        pipe.write(data)
        await pipe.drain()
        pipe.close()
