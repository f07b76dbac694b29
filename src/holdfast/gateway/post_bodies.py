"""`PostBodies`: the messages that a post consists of on one account.

A text that does not fit into one message is cut. An answer that would take more messages than the settings
allow is its beginning and a file with the whole; the file is made again from the ledger when it is needed.
Texts are cut on a thread: some take seconds, and other chats must not wait for them.
"""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from holdfast.gateway.contract import Adapter
from holdfast.gateway.post_text import content_of, part_body
from holdfast.gateway.splitter import first_part, split
from holdfast.process import DaemonPool, off_loop
from holdfast.sessions.chat_posts import ChatPost
from holdfast.tools.chat_files import remove_copy

FILE_NAME = "answer.md"
CAPTION = "The whole answer."
THREADS = 4
GOES_ON = "\n\n_… The whole answer is in the file below._"


class PostBodies:
    """What is sent for the posts of one account. `most` messages are sent before a file; 0: any number."""

    def __init__(self, adapter: Adapter, most: int) -> None:
        self._adapter = adapter
        self._most = most
        self._thread = DaemonPool("chat-answers", workers=THREADS, backlog=1000)
        self._folder: TemporaryDirectory[str] | None = None

    async def of(self, post: ChatPost) -> list[dict[str, Any]]:
        """The messages of a post, in order."""
        adapter = self._adapter
        content = content_of(post, has_buttons=adapter.traits.has_buttons)
        texts = await off_loop(self._thread, self._split, content.text) or [content.text]
        if post.kind == "answer" and 0 < self._most < len(texts):
            beginning = await off_loop(self._thread, self._beginning, content.text, adapter.measure(GOES_ON))
            file = await off_loop(self._thread, self._write, post.id, content.text)
            return [part_body(f"{beginning}{GOES_ON}"), part_body(CAPTION, file=str(file))]
        return [*map(part_body, texts[:-1]), part_body(texts[-1], content.buttons, content.file)]

    async def preview(self, text: str) -> str:
        """As much of a text as the first message takes."""
        return await off_loop(self._thread, self._beginning, text)

    async def sent(self, post: ChatPost) -> None:
        """All of it is there: its file is not needed any more."""
        if post.kind == "file":
            await off_loop(self._thread, remove_copy, str(post.body.get("file", "")))

    def close(self) -> None:
        self._thread.close(0)
        if self._folder is not None:
            self._folder.cleanup()

    def _split(self, text: str) -> list[str]:
        return split(text, self._adapter.measure, self._adapter.traits.max_size)

    def _beginning(self, text: str, less: int = 0) -> str:
        return first_part(text, self._adapter.measure, self._adapter.traits.max_size - less)

    def _write(self, post_id: int, text: str) -> Path:
        if self._folder is None:
            self._folder = TemporaryDirectory(prefix="holdfast-chat-", ignore_cleanup_errors=True)
        folder = Path(self._folder.name) / str(post_id)
        folder.mkdir(exist_ok=True)
        file = folder / FILE_NAME
        file.write_text(text, encoding="utf-8", errors="replace")
        return file
