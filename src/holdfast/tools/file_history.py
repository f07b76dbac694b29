"""`FileHistory`: records what tools do to files, shows it as diffs, and takes it back.

Before a file tool changes a file, its old content is on disk (`kept_contents.py`) and the change is in the
store (`sessions/file_changes.py`), so a crash loses neither. A command is covered for the files that it
names: those are kept before it runs and compared afterwards. What else a command changes is not covered, nor
what background processes and MCP servers do: that would need a copy of the whole workspace before each.
"""

import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from holdfast.core.errors import HoldfastError, ToolFailed
from holdfast.sessions import SessionDB
from holdfast.sessions.file_changes import FileVersion, NewChange, RecordedChange
from holdfast.tools.command_paths import named_paths
from holdfast.tools.contract import ToolContext
from holdfast.tools.file_diff import FileDiff, diff_of, shown_path
from holdfast.tools.file_versions import (
    NOTHING,
    TOO_LARGE,
    FoundFile,
    is_same,
    put_back,
    read_version,
)
from holdfast.tools.kept_contents import KeptContents, content_hash
from holdfast.tools.resolved_path import ResolvedPath
from holdfast.tools.text_files import replace_file

logger = logging.getLogger(__name__)

WATCHED_FILES = 50
WATCHED_BYTES = 5_000_000
"""Of the files that a command names, so many are kept before it runs."""
COMMAND = "run_command"

UNKNOWN_END = "it is not known what was left there: the change was cut off"
CHANGED_BETWEEN = "somebody else changed it between two changes of the agent"
CHANGED_SINCE = "it was changed since"
UNREADABLE = "it can't be read, or is not a file any more"
LARGE = "its old content is too large to be kept"
DROPPED = "its old content is not kept here any more"


@dataclass(frozen=True, slots=True)
class WatchedFiles:
    """The files that a command names, before it runs."""

    turn_id: str
    workspace: str
    conversation: str
    found: Mapping[Path, FoundFile]
    ids: Mapping[Path, int]


@dataclass(frozen=True, slots=True)
class UndoneFile:
    """What became of one file that was to be taken back."""

    path: str
    outcome: str
    """`restored`, `removed`, `unchanged` (it was as before already) or `left`."""
    reason: str = ""
    """Why it was left as it is."""


class FileHistory:
    """The file changes of one store's turns. Blocks on the disk and on the store."""

    def __init__(self, db: SessionDB, kept: KeptContents) -> None:
        self._db = db
        self._kept = kept

    # before and after a change

    def write(
        self,
        context: ToolContext,
        tool: str,
        target: ResolvedPath,
        data: bytes,
        unchanged_since: os.stat_result | None = None,
    ) -> bool:
        """Keep and record what is at a path, then replace it as `replace_file` does; True when it is new."""
        conversation, found = self._found(context, target)
        if conversation is None or found is None or found.version.hash == content_hash(data):
            return replace_file(target, data, unchanged_since=unchanged_since)
        with _or_left_as_it_is(target):
            self._keep(conversation, found)
            after = FileVersion(self._kept.put(conversation, data), found.version.mode)
        ids = self._record(context, tool, [NewChange(str(target.path), found.version, after)])
        try:
            return replace_file(target, data, unchanged_since=unchanged_since or found.status)
        except BaseException:
            self.drop_edit(ids)
            raise

    def before_edit(
        self, context: ToolContext, tool: str, target: ResolvedPath, unsaved: bytes | None = None
    ) -> list[int]:
        """Keep and record what is at a path before an editor writes it; gives the ids of the record.

        `unsaved` is what the editor showed instead of what is on disk: an undo brings it back.
        """
        conversation, found = self._found(context, target)
        if conversation is None or found is None:
            return []
        before = found if unsaved is None else _as_shown(found, unsaved)
        with _or_left_as_it_is(target):
            self._keep(conversation, before)
        return self._record(context, tool, [NewChange(str(target.path), before.version)])

    def after_edit(
        self, context: ToolContext, ids: Sequence[int], target: ResolvedPath, unsaved: bytes | None = None
    ) -> None:
        """Record what an editor made of a file; `unsaved` is what it has and did not save.

        The change stands, whatever fails here.
        """
        conversation, found = self._found(context, target)
        if conversation is None or found is None:
            return
        now = found if unsaved is None else _as_shown(found, unsaved)
        try:
            self._keep(conversation, now)
            self._db.file_changes.settle([(each, now.version) for each in ids])
        except (OSError, HoldfastError):
            logger.warning("file_history.not_compared", exc_info=True)

    def drop_edit(self, ids: Sequence[int]) -> None:
        """Record that a change was not made."""
        self._db.file_changes.settle([(each, None) for each in ids])

    def _found(self, context: ToolContext, target: ResolvedPath) -> tuple[str | None, FoundFile | None]:
        """The conversation whose changes are recorded, and what is at a path now."""
        conversation = None if target.own else self._db.file_changes.conversation(context.outer_turn)
        return conversation, None if conversation is None else read_version(target.path)

    def before_command(
        self, context: ToolContext, command: str, folder: Path, environment: Mapping[str, str]
    ) -> WatchedFiles | None:
        """Keep the files of the workspace that a command names; None when nothing is kept.

        A command runs in any case, also when the disk is full.
        """
        conversation = self._db.file_changes.conversation(context.outer_turn)
        if conversation is None:
            return None
        found = _named_files(command, folder, environment, context)
        there = [path for path, each in found.items() if each.version != NOTHING]
        try:
            for path in there:
                self._keep(conversation, found[path])
        except OSError:
            logger.warning("file_history.not_kept", exc_info=True)
            return None
        changes = [NewChange(str(path), found[path].version) for path in there]
        ids = self._record(context, COMMAND, changes) if changes else []
        workspace = os.path.realpath(context.workspace)
        by_path = dict(zip(there, ids, strict=False))
        return WatchedFiles(context.outer_turn, workspace, conversation, found, by_path)

    def after_command(self, watched: WatchedFiles) -> None:
        """Record what the command did to the files it names. Its result stands, whatever fails here."""
        try:
            self._compare(watched)
        except (OSError, HoldfastError):
            logger.warning("file_history.not_compared", exc_info=True)

    def _compare(self, watched: WatchedFiles) -> None:
        outcomes: list[tuple[int, FileVersion | None]] = []
        created: list[NewChange] = []
        for path, before in watched.found.items():
            now = read_version(path)
            changed = now is not None and now.version != before.version
            if changed and now is not None:
                self._keep(watched.conversation, now)
            version = now.version if changed and now is not None else None
            if path in watched.ids:
                outcomes.append((watched.ids[path], version))
            elif version is not None:
                created.append(NewChange(str(path), before.version, version))
        if outcomes:
            self._db.file_changes.settle(outcomes)
        if created:
            self._db.file_changes.record(watched.turn_id, watched.workspace, COMMAND, created)

    def _keep(self, conversation: str, found: FoundFile) -> None:
        if found.data is not None:
            self._kept.put(conversation, found.data)

    def _record(self, context: ToolContext, tool: str, changes: Sequence[NewChange]) -> list[int]:
        workspace = os.path.realpath(context.workspace)
        return self._db.file_changes.record(context.outer_turn, workspace, tool, changes)

    def forget(self, session_id: str) -> None:
        """Drop the contents that are kept for a deleted conversation."""
        self._kept.forget(session_id)

    # afterwards

    def changes(self, session_id: str, turn_id: str | None = None) -> list[FileDiff]:
        """What a turn, or all turns of a conversation, did to files: one entry for each file."""
        return [self._diff(each) for each in _by_path(self._of(session_id, turn_id))]

    def undo(self, session_id: str, turn_id: str | None = None, start: int | None = None) -> list[UndoneFile]:
        """Take back what one turn did, or all turns from a place in the conversation on.

        A file that was changed since is left as it is. What was taken back is not taken back again.
        """
        recorded = self._of(session_id, turn_id, start)
        return [self._undo(each) for each in _by_path(each for each in recorded if each.undone is None)]

    def _of(self, session_id: str, turn_id: str | None, start: int | None = None) -> list[RecordedChange]:
        if turn_id is not None:
            return self._db.file_changes.of_turn(turn_id)
        return self._db.file_changes.of_conversation(session_id, start=start)

    def _diff(self, changes: list[RecordedChange]) -> FileDiff:
        first, last = changes[0], changes[-1]
        open_changes = [each for each in changes if each.undone is None]
        problem, _, _ = self._plan(open_changes) if open_changes else ("", None, None)
        before = self._content(first.root_id, first.before)
        after = None if last.after is None else self._content(last.root_id, last.after)
        return diff_of(changes, before, after, problem)

    def _content(self, conversation: str, version: FileVersion) -> bytes | None:
        """The content of a version; None when it is not kept."""
        if version.hash is None:
            return b""
        return self._kept.get(conversation, version.hash)

    def _plan(self, changes: list[RecordedChange]) -> tuple[str, FoundFile | None, bytes | None]:
        """Why a file can't be put back, or what is there now and what was there before."""
        first, last = changes[0], changes[-1]
        now = read_version(Path(first.path))
        if now is None:
            return UNREADABLE, None, None
        if is_same(now.version, first.before):
            return "", now, None
        if last.after is None:
            return UNKNOWN_END, now, None
        if not is_same(now.version, last.after):
            return CHANGED_SINCE, now, None
        for one, other in pairwise(changes):
            if one.after is None or not (
                is_same(one.after, other.before) or is_same(one.before, other.before)
            ):
                return CHANGED_BETWEEN, now, None
        if first.before.hash == TOO_LARGE:
            return LARGE, now, None
        data = self._content(first.root_id, first.before)
        return (DROPPED if data is None else ""), now, data

    def _undo(self, changes: list[RecordedChange]) -> UndoneFile:
        first = changes[0]
        shown = shown_path(first)
        problem, now, data = self._plan(changes)
        if problem or now is None:
            return UndoneFile(shown, "left", problem)
        outcome = "unchanged"
        if not is_same(now.version, first.before):
            try:
                put_back(Path(first.path), first.before, data, now.status)
            except HoldfastError as cause:
                return UndoneFile(shown, "left", str(cause))
            outcome = "removed" if first.before.hash is None else "restored"
        self._db.file_changes.mark_undone([each.id for each in changes])
        return UndoneFile(shown, outcome)


@contextmanager
def _or_left_as_it_is(target: ResolvedPath) -> Iterator[None]:
    """Without the old content nothing is changed."""
    try:
        yield
    except OSError as cause:
        raise ToolFailed(
            f"{target.shown} was left as it is: its old content can't be kept ({cause.strerror or cause})"
        ) from cause


def _as_shown(found: FoundFile, unsaved: bytes) -> FoundFile:
    """The file with the text that an editor shows of it."""
    return FoundFile(FileVersion(content_hash(unsaved), found.version.mode), unsaved, found.status)


def _by_path(changes: Iterable[RecordedChange]) -> list[list[RecordedChange]]:
    """The changes of each file; a file that is in the end as it was before is left out."""
    found: dict[str, list[RecordedChange]] = {}
    for each in changes:
        found.setdefault(each.path, []).append(each)
    return [each for each in found.values() if not _same_ends(each)]


def _same_ends(changes: Sequence[RecordedChange]) -> bool:
    after = changes[-1].after
    return after is not None and is_same(changes[0].before, after)


def _named_files(
    command: str, folder: Path, environment: Mapping[str, str], context: ToolContext
) -> dict[Path, FoundFile]:
    """The files of the workspace that a command names, whether they are there or not."""
    workspace = Path(os.path.realpath(context.workspace))
    found: dict[Path, FoundFile] = {}
    left = WATCHED_BYTES
    for name in named_paths(command, folder, environment):
        # The folder is resolved, so that a link of that name is kept as the link it is.
        path = Path(os.path.realpath(os.path.dirname(name)), os.path.basename(name))  # noqa: PTH119, PTH120
        if path == workspace or not path.is_relative_to(workspace) or len(found) >= WATCHED_FILES:
            continue
        file = read_version(path, left)
        if file is None or file.version.hash == TOO_LARGE:
            continue
        left -= len(file.data or b"")
        found[path] = file
    return found
