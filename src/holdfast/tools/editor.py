"""`Editor`: the editor that shows a conversation, as far as tools may use its files and its terminal.

`acp/open_editor.py` implements it. A tool asks for the editor of its call, and works without one where there
is none: on the disk and with its own processes.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from holdfast.core.errors import ToolFailed
from holdfast.tools.contract import ToolContext


class EditorSilent(ToolFailed):
    """The editor did not answer in time: whether it did what it was asked is not known."""


@dataclass(frozen=True, slots=True)
class TerminalEnd:
    """How a command ended in a terminal of the editor."""

    code: int | None
    signal: str = ""
    """What ended it; empty when it ended by itself."""


class EditorTerminal(Protocol):
    """A command that runs in a terminal of the editor. Its owner must await `release`."""

    async def wait(self) -> TerminalEnd:
        """Wait for its end."""
        ...

    async def kill(self) -> None:
        """End the command; its output stays."""
        ...

    async def output(self) -> tuple[str, bool]:
        """What it has printed so far, and whether the beginning is missing."""
        ...

    async def release(self) -> None:
        """Let the editor forget it; the command is ended if it still runs."""
        ...


class Editor(Protocol):
    """One session of an editor. What it does not offer is not asked of it."""

    @property
    def reads(self) -> bool:
        """Whether it gives the text of files, with changes that are not saved."""
        ...

    @property
    def writes(self) -> bool:
        """Whether it writes files."""
        ...

    async def read_text(self, path: Path) -> str | None:
        """The text of a file as the editor has it; None when it gives none."""
        ...

    async def write_text(self, path: Path, text: str) -> None:
        """Write a whole file; raises `ToolFailed` when it was not written."""
        ...

    async def start(
        self, context: ToolContext, words: Sequence[str], folder: str, environment: Mapping[str, str]
    ) -> EditorTerminal | None:
        """Start a command in a terminal; None when the editor has none for it."""
        ...


EditorFor = Callable[[str], Editor | None]
"""The editor that shows a conversation, named by its first session."""
EditorOf = Callable[[ToolContext], Awaitable[Editor | None]]
"""The editor that shows the conversation of a call."""


async def no_editor(_: ToolContext) -> Editor | None:
    """There is none."""
    return None


def is_sendable(*texts: str) -> bool:
    """Whether the texts can be told to another program: a name on disk may hold bytes that are no text."""
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        return False
    return True
