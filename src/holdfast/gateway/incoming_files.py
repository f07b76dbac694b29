"""`IncomingFiles`: files that people send, into the sender's workspace; pictures and documents to the model.

Of a voice note the agent reads the words too, where the settings name a server for that.

What can't be taken is said in the message itself, so that the agent can say it to the person. A file has the
same name on disk whenever its event is routed again.

The agent's commands run in that workspace, also for people who are not the owner, and may put a link in the
way. So a file is received and read elsewhere, and then copied there without following any link.
"""

import logging
import os
import re
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from holdfast.core.error_text import error_words
from holdfast.core.errors import MessageInvalid
from holdfast.core.ids import new_id
from holdfast.core.pictures import MAX_PICTURE_BYTES, PICTURE_TYPES
from holdfast.core.settings import GatewaySettings
from holdfast.gateway.contract import Adapter, ChatFile, ChatPlatformError
from holdfast.gateway.transcription import NotTranscribed, Transcriber
from holdfast.gateway.user_text import quote
from holdfast.host.attachments import attachment, picture_type
from holdfast.process import DaemonPool, off_loop
from holdfast.sessions.chat_people import Role
from holdfast.tools.documents import MAX_DOCUMENT_BYTES, is_document
from holdfast.tools.resolved_path import folder_of

logger = logging.getLogger(__name__)

FOLDER = "chat-files"
UNSAFE = re.compile(r"[^\w.+-]+")
LONGEST_NAME = 160
"""In bytes; file systems take 255 with what is put before it."""
MEGABYTE = 1_000_000


class IncomingFiles:
    """Fetches the files of one account's messages."""

    def __init__(
        self, adapter: Adapter, workspace_of: Callable[[str], Path], settings: GatewaySettings
    ) -> None:
        """`workspace_of` gives the folder in which the agent works for a scope."""
        self._adapter = adapter
        self._workspace_of = workspace_of
        self._disk = DaemonPool("chat-files", workers=2, backlog=1000)
        self._transcriber = Transcriber.of(settings, self._disk)

    async def take(
        self, key: str, files: Sequence[ChatFile], role: Role, scope: str
    ) -> tuple[list[dict[str, Any]], list[str]]:
        """Pictures and documents as parts of a message, and a line for every other file and every failure."""
        parts: list[dict[str, Any]] = []
        lines: list[str] = []
        for number, file in enumerate(files):
            if role == "guest":
                lines.append(f"[The file {quote(file.name)} was not taken: guests can't send files.]")
                continue
            try:
                part, line = await self._take(f"{_safe(key)[-12:]}-{number}-{_safe(file.name)}", file, scope)
            except (ChatPlatformError, OSError) as problem:
                lines.append(f"[The file {quote(file.name)} could not be taken: {error_words(problem)}]")
                continue
            parts += [part] if part else []
            lines += [line] if line else []
        return parts, lines

    async def _take(self, name: str, file: ChatFile, scope: str) -> tuple[dict[str, Any] | None, str]:
        """Save one file; returns its part of the message, if it has one, and a line about it."""
        temporary = await off_loop(self._disk, lambda: TemporaryDirectory(prefix="holdfast-chat-"))
        try:
            received = Path(temporary.name) / name
            await self._adapter.download(file, received, self._adapter.traits.max_download)
            content = await off_loop(self._disk, _sendable, file, received)
            target = await off_loop(self._disk, self._save, received, scope)
            is_picture = content is not None and picture_type(content) is not None
            line = "" if is_picture else await self._line(file, received, target)
            if content is None:
                return None, line
            try:
                return await attachment(file.name, content), line
            except MessageInvalid as problem:
                return None, f"{line}\n[It is not in this message: {problem.problem}]".strip()
        finally:
            await off_loop(self._disk, temporary.cleanup)

    async def _line(self, file: ChatFile, received: Path, target: Path) -> str:
        """What the agent reads of a file that is no picture: where it is and, of a voice note, its words."""
        size = (await off_loop(self._disk, received.stat)).st_size / MEGABYTE
        if not file.is_voice:
            return _saved(file, target, file.media_type, size)
        if self._transcriber is None:
            return _saved(file, target, "voice note, not transcribed", size)
        try:
            words = await self._transcriber.words(received, file.media_type)
        except (NotTranscribed, OSError) as problem:
            logger.info("chat.not_transcribed", extra={"cause": error_words(problem)})
            return _saved(
                file, target, f"voice note that could not be transcribed: {error_words(problem)}", size
            )
        return f"[A voice note, saved as {target}. The person says in it:]\n{words}"

    def close(self) -> None:
        self._disk.close(0)

    def _save(self, received: Path, scope: str) -> Path:
        """Copy a file into the workspace of a scope; raises `OSError` when a link is in the way. Blocking."""
        target = Path(os.path.realpath(self._workspace_of(scope))) / FOLDER / received.name
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with folder_of(target, create=True) as folder, received.open("rb") as source:
            written = f".holdfast-{new_id()}.tmp"
            try:
                with os.fdopen(os.open(written, flags, 0o666, dir_fd=folder), "wb") as copy:
                    shutil.copyfileobj(source, copy)
                os.replace(written, target.name, src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                with suppress(OSError):
                    os.unlink(written, dir_fd=folder)
                raise
        return target


def _sendable(file: ChatFile, received: Path) -> bytes | None:
    """The content of a picture or a document that may go to the model; None for another file. Blocking."""
    is_picture = file.media_type in PICTURE_TYPES
    if received.stat().st_size > (MAX_PICTURE_BYTES if is_picture else MAX_DOCUMENT_BYTES):
        return None
    data = received.read_bytes()
    return data if is_picture or is_document(file.name, data) else None


def _saved(file: ChatFile, target: Path, what: str, size: float) -> str:
    return f"[The file {quote(file.name)} ({what}, {size:.1f} MB) is saved as {target}]"


def _safe(name: str) -> str:
    """A name without a path and without characters that shells and file systems take for something else."""
    plain = UNSAFE.sub("_", name.replace("\\", "/").rpartition("/")[2]).lstrip(".-")
    return plain.encode()[-LONGEST_NAME:].decode(errors="ignore") or "file"
