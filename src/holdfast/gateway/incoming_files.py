"""`IncomingFiles`: files that people send, into the sender's workspace; pictures and documents to the model.

Of a voice note the agent reads the words too, where the settings name a server for that.

What can't be taken is said in the message itself, so that the agent can say it to the person. A file has the
same name on disk whenever its event is routed again.
"""

import logging
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from holdfast.core.errors import MessageInvalid
from holdfast.core.pictures import MAX_PICTURE_BYTES, PICTURE_TYPES
from holdfast.core.settings import GatewaySettings
from holdfast.gateway.contract import Adapter, ChatFile, ChatPlatformError
from holdfast.gateway.transcription import NotTranscribed, Transcriber
from holdfast.gateway.user_text import quote
from holdfast.host.attachments import attachment, picture_type
from holdfast.process import DaemonPool, off_loop
from holdfast.sessions.chat_people import Role
from holdfast.tools.documents import MAX_DOCUMENT_BYTES, is_document

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
                folder = await off_loop(self._disk, self._folder, scope)
                target = folder / f"{_safe(key)[-12:]}-{number}-{_safe(file.name)}"
                await self._adapter.download(file, target, self._adapter.traits.max_download)
                content = await off_loop(self._disk, _sendable, file, target)
            except (ChatPlatformError, OSError) as problem:
                lines.append(f"[The file {quote(file.name)} could not be taken: {problem}]")
                continue
            is_picture = content is not None and picture_type(content) is not None
            if not is_picture:
                lines.append(await self._line(file, target))
            if content is not None:
                try:
                    parts.append(await attachment(file.name, content))
                except MessageInvalid as problem:
                    lines.append(f"[It is not in this message: {problem.problem}]")
        return parts, lines

    async def _line(self, file: ChatFile, target: Path) -> str:
        """What the agent reads of a file that is no picture: where it is and, of a voice note, its words."""
        if not file.is_voice:
            return _saved(file, target, file.media_type)
        if self._transcriber is None:
            return _saved(file, target, "voice note, not transcribed")
        try:
            words = await self._transcriber.words(target, file.media_type)
        except (NotTranscribed, OSError) as problem:
            logger.info("chat.not_transcribed", extra={"cause": str(problem)})
            return _saved(file, target, f"voice note that could not be transcribed: {problem}")
        return f"[A voice note, saved as {target}. The person says in it:]\n{words}"

    def close(self) -> None:
        self._disk.close(0)

    def _folder(self, scope: str) -> Path:
        folder = self._workspace_of(scope) / FOLDER
        folder.mkdir(parents=True, exist_ok=True)
        return folder


def _sendable(file: ChatFile, target: Path) -> bytes | None:
    """The content of a picture or a document that may go to the model; None for another file. Blocking."""
    is_picture = file.media_type in PICTURE_TYPES
    if target.stat().st_size > (MAX_PICTURE_BYTES if is_picture else MAX_DOCUMENT_BYTES):
        return None
    data = target.read_bytes()
    return data if is_picture or is_document(file.name, data) else None


def _saved(file: ChatFile, target: Path, what: str) -> str:
    size = target.stat().st_size / MEGABYTE
    return f"[The file {quote(file.name)} ({what}, {size:.1f} MB) is saved as {target}]"


def _safe(name: str) -> str:
    """A name without a path and without characters that shells and file systems take for something else."""
    plain = UNSAFE.sub("_", name.replace("\\", "/").rpartition("/")[2]).lstrip(".-")
    return plain.encode()[-LONGEST_NAME:].decode(errors="ignore") or "file"
