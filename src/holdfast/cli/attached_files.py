"""`@file` in a message: the file's content goes with it. A word that names no file stays a word.

One that looks like a path is told, because it is more likely a slip.
"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from holdfast.core.contract import Message
from holdfast.core.errors import InvalidInput
from holdfast.host.attachments import attachment
from holdfast.process import DaemonPool, off_loop
from holdfast.tools.documents import MAX_DOCUMENT_BYTES

NAMED = re.compile(r"""(?<!\S)@(?:"([^"\n]+)"|'([^'\n]+)'|(\S+))""")
LIKE_A_PATH = re.compile(r"/|\.\w+$")
TRAILING = ".,;:!?)]}"
MOST_FILES = 20
MOST_TOLD = 3
"""Words that name no file of which a person is told: a text from a pipe may be full of such."""


async def with_named_files(text: str, folder: Path, say: Callable[[str], None]) -> str | Message:
    """The text, with the files that it names by `@path`; paths are relative to `folder`.

    `say` is told of words that look like a path and name no file; they are sent as they are.
    Raises `InvalidInput` for a file that can't be sent; then nothing is.
    """
    if "@" not in text:
        return text
    # On a thread, because a disk may hang.
    pool = DaemonPool("attached files", workers=1, backlog=MOST_FILES)
    try:
        return await _with_files(text, folder, pool, say)
    finally:
        pool.close(0)


async def _with_files(text: str, folder: Path, pool: DaemonPool, say: Callable[[str], None]) -> str | Message:
    named = await off_loop(pool, lambda: dict(_named(text, folder)))
    found = list(dict.fromkeys(path for path in named.values() if path is not None))
    missing = [word for word, path in named.items() if path is None and LIKE_A_PATH.search(word)]
    for word in missing[:MOST_TOLD]:
        say(f"There is no file {word} in {folder}; @{word} is sent as a word.")
    if not found:
        return text
    if len(found) > MOST_FILES:
        raise InvalidInput(f"a message takes {MOST_FILES} files, not {len(found)}. It was not sent.")
    parts = [await attachment(path.name, await off_loop(pool, _content, path)) for path in found]
    return {"role": "user", "content": [{"type": "text", "text": text}, *parts]}


def _named(text: str, folder: Path) -> Iterator[tuple[str, Path | None]]:
    """The words behind an @, each with the file that it names."""
    for each in NAMED.finditer(text):
        word = next(filter(None, each.groups()))
        short = word.rstrip(TRAILING)
        yield short, _existing(folder, word) or _existing(folder, short)


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
