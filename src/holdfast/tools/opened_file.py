"""Reads and replaces the text files that tools work on: on the disk, or through the editor that shows them.

Through an editor, changes that are not saved are read, and a change goes into what the person sees. The
rules are the same on both ways: the path was allowed, the old content is kept and recorded first, and what is
no plain file is refused. Only files of the workspace go through the editor.
"""

import os
from dataclasses import dataclass, replace

from holdfast.core.errors import ToolFailed
from holdfast.tools.contract import ToolContext
from holdfast.tools.documents import document_text, is_document
from holdfast.tools.editor import Editor, EditorOf, EditorSilent, is_sendable, no_editor
from holdfast.tools.file_history import FileHistory
from holdfast.tools.resolved_path import ResolvedPath, read_bytes
from holdfast.tools.text_files import (
    MAX_TEXT_BYTES,
    TextFile,
    check_replaceable,
    file_identity,
    replace_file,
)

NOT_SAVED = "; the editor has it and has not saved it yet"
CHANGED_BY_EDITOR = "; the editor changed it further as it saved it: read it again before you edit it"


@dataclass(frozen=True, slots=True)
class OpenedFile:
    """A file that was read. `file` is its text, with the changes that are not saved."""

    file: TextFile
    status: os.stat_result | None = None
    """Of the file on disk; None when it is not there yet."""
    unsaved: bool = False
    """Whether the editor has another text than the disk."""


class OpenedFiles:
    """The files of one agent's tools. With a `history` every change can be taken back."""

    def __init__(self, history: FileHistory | None = None, editor_of: EditorOf = no_editor) -> None:
        self._history = history
        self._editor_of = editor_of

    async def read(
        self, context: ToolContext, target: ResolvedPath, *, documents: bool = False
    ) -> OpenedFile:
        """A text file; with `documents` also the text of a PDF or an Office file."""
        editor = await self._editor(context, target)
        try:
            data, status = await context.off_loop(read_bytes, target, MAX_TEXT_BYTES)
        except ToolFailed:
            shown = await _shown(editor, target)
            if shown is None:
                raise
            return OpenedFile(TextFile(shown), unsaved=True)
        if documents and is_document(target.path.name, data):
            return OpenedFile(TextFile(await document_text(target.shown, data)), status)
        file: TextFile = await context.off_loop(TextFile.decode, data, target.shown)
        shown = await _shown(editor, target)
        if shown is None or _plain(shown) == _plain(file.text):
            return OpenedFile(file, status)
        return OpenedFile(replace(file, text=shown), status, unsaved=True)

    async def replace(
        self,
        context: ToolContext,
        tool: str,
        target: ResolvedPath,
        changed: TextFile,
        seen: OpenedFile | None = None,
    ) -> tuple[int, bool, str]:
        """Write a whole file; gives its bytes, whether it is new, and a note for the model.

        `seen` is what was read of it before: it is refused when the file has changed since.
        """
        data: bytes = await context.off_loop(changed.encode, changed.text, target.shown)
        editor = await self._editor(context, target)
        if editor is None or not editor.writes:
            since = None if seen is None else seen.status
            new = await context.off_loop(self._on_disk, context, tool, target, data, since)
            return len(data), bool(new), ""
        seen = seen or await self._read_or_nothing(context, target)
        since = None if seen is None else seen.status
        new = await context.off_loop(check_replaceable, target, since)
        ids = await self._recorded(context, tool, target, seen)
        try:
            await editor.write_text(target.path, changed.text)
        except ToolFailed as refusal:
            if self._history is not None and not isinstance(refusal, EditorSilent):
                await context.off_loop(self._history.drop_edit, ids)
            raise
        saved, note = await context.off_loop(_outcome, target, changed.text, data, since)
        if self._history is not None:
            left = None if saved else data
            await context.off_loop(self._history.after_edit, context, ids, target, left)
        return len(data), bool(new), str(note)

    async def _editor(self, context: ToolContext, target: ResolvedPath) -> Editor | None:
        if target.own or not target.inside or not is_sendable(str(target.path)):
            return None
        return await self._editor_of(context)

    async def _read_or_nothing(self, context: ToolContext, target: ResolvedPath) -> OpenedFile | None:
        try:
            return await self.read(context, target)
        except ToolFailed:
            return None

    def _on_disk(
        self,
        context: ToolContext,
        tool: str,
        target: ResolvedPath,
        data: bytes,
        unchanged_since: os.stat_result | None,
    ) -> bool:
        if self._history is None:
            return replace_file(target, data, unchanged_since=unchanged_since)
        return self._history.write(context, tool, target, data, unchanged_since)

    async def _recorded(
        self, context: ToolContext, tool: str, target: ResolvedPath, seen: OpenedFile | None
    ) -> list[int]:
        """Keep and record what was there, with what was not saved of it."""
        if self._history is None:
            return []
        unsaved = None
        if seen is not None and seen.unsaved:
            unsaved = seen.file.encode(seen.file.text, target.shown)
        ids: list[int] = await context.off_loop(self._history.before_edit, context, tool, target, unsaved)
        return ids


def _outcome(target: ResolvedPath, text: str, data: bytes, before: os.stat_result | None) -> tuple[bool, str]:
    """Whether the editor has saved what it was given, and a note about what it made of it."""
    try:
        found, status = read_bytes(target, MAX_TEXT_BYTES)
    except ToolFailed:
        return False, NOT_SAVED
    if found == data:
        return True, ""
    if before is not None and file_identity(status) == file_identity(before):
        return False, NOT_SAVED
    try:
        same = _plain(TextFile.decode(found, target.shown).text) == _plain(text)
    except ToolFailed:
        same = False
    return True, "" if same else CHANGED_BY_EDITOR


async def _shown(editor: Editor | None, target: ResolvedPath) -> str | None:
    """The text as the editor has it."""
    if editor is None or not editor.reads:
        return None
    shown = await editor.read_text(target.path)
    return None if shown is None or len(shown) > MAX_TEXT_BYTES or not is_sendable(shown) else shown


def _plain(text: str) -> str:
    """The text without what editors keep apart from it: line ends, and a mark at the beginning."""
    return text.replace("\r\n", "\n").removeprefix("\ufeff")
