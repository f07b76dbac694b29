"""`@file` in a message: the file's content goes with it. A word that names no file stays a word."""

import re
from pathlib import Path

from holdfast.core.contract import Message
from holdfast.core.errors import InvalidInput
from holdfast.host.attachments import attachment
from holdfast.process import DaemonPool, off_loop
from holdfast.tools.documents import MAX_DOCUMENT_BYTES

NAMED = re.compile(r"""(?<!\S)@(?:"([^"\n]+)"|'([^'\n]+)'|(\S+))""")
TRAILING = ".,;:!?)]}"
MOST_FILES = 20


async def with_named_files(text: str, folder: Path) -> str | Message:
    """The text, with the files that it names by `@path`; paths are relative to `folder`.

    Raises `InvalidInput` for a file that can't be sent; then nothing is.
    """
    if "@" not in text:
        return text
    # On a thread, because a disk may hang.
    pool = DaemonPool("attached files", workers=1, backlog=MOST_FILES)
    try:
        return await _with_files(text, folder, pool)
    finally:
        pool.close(0)


async def _with_files(text: str, folder: Path, pool: DaemonPool) -> str | Message:
    found = list(dict.fromkeys(await off_loop(pool, _named, text, folder)))
    if not found:
        return text
    if len(found) > MOST_FILES:
        raise InvalidInput(f"a message takes {MOST_FILES} files, not {len(found)}. It was not sent.")
    parts = [await attachment(path.name, await off_loop(pool, _content, path)) for path in found]
    return {"role": "user", "content": [{"type": "text", "text": text}, *parts]}


def _named(text: str, folder: Path) -> list[Path]:
    words = (next(filter(None, each.groups())) for each in NAMED.finditer(text))
    paths = (_existing(folder, word) or _existing(folder, word.rstrip(TRAILING)) for word in words)
    return [each for each in paths if each is not None]


def _existing(folder: Path, word: str) -> Path | None:
    try:
        path = folder / Path(word).expanduser()
        return path if word and path.is_file() else None
    except (OSError, ValueError, RuntimeError):
        return None


def _content(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MAX_DOCUMENT_BYTES + 1)
    except OSError as cause:
        raise InvalidInput(f"{path} can't be read: {cause.strerror}. The message was not sent.") from cause
