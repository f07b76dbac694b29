"""`FileDiff`: what happened to one file, as people read it."""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path

from holdfast.core.errors import ToolFailed
from holdfast.core.messages import storable
from holdfast.sessions.file_changes import RecordedChange
from holdfast.tools.text_files import TextFile

MOST_LINES = 5_000
"""Longer files are not compared: the time would grow with the square of their length."""


@dataclass(frozen=True, slots=True)
class FileDiff:
    """What one turn, or several, did to one file."""

    path: str
    """Relative to the workspace when it is inside, else the whole path."""
    kind: str
    """`created`, `changed`, `deleted`, or `unknown` when a crash came before it was known."""
    diff: str
    """A unified diff; empty for binary files, and where a content is not kept any more or too long."""
    added: int
    removed: int
    """Lines; both 0 where there is no diff."""
    note: str
    """Why there is no diff; empty when there is one."""
    undone: bool
    """It was taken back already."""
    problem: str
    """Why it can't be taken back; empty when it can."""
    turn_ids: tuple[str, ...]
    tools: tuple[str, ...]
    steps: int
    """How many changes on record this one is made of."""


def shown_path(change: RecordedChange) -> str:
    """How a changed file is named: relative to the workspace when it is inside."""
    path, workspace = Path(change.path), Path(change.workspace)
    return storable(str(path.relative_to(workspace) if path.is_relative_to(workspace) else path))


def diff_of(
    changes: Sequence[RecordedChange], before: bytes | None, after: bytes | None, problem: str
) -> FileDiff:
    """The changes of one file as one; a content is None when it is not kept."""
    path = shown_path(changes[0])
    diff, note = _compared(path, before, after)
    lines = diff.splitlines()[2:]
    return FileDiff(
        path=path,
        kind=_kind(changes),
        diff=diff,
        added=sum(line.startswith("+") for line in lines),
        removed=sum(line.startswith("-") for line in lines),
        note=note,
        undone=all(each.undone is not None for each in changes),
        problem=problem,
        turn_ids=tuple(dict.fromkeys(each.turn_id for each in changes)),
        tools=tuple(dict.fromkeys(each.tool for each in changes)),
        steps=len(changes),
    )


def _kind(changes: Sequence[RecordedChange]) -> str:
    first, last = changes[0], changes[-1]
    if last.after is None:
        return "unknown"
    if first.before.hash is None:
        return "created"
    return "deleted" if last.after.hash is None else "changed"


def _compared(path: str, before: bytes | None, after: bytes | None) -> tuple[str, str]:
    """A unified diff, or why there is none."""
    if before is None or after is None:
        return "", "its contents are not kept any more"
    try:
        old, new = (TextFile.decode(each, path).text.splitlines() for each in (before, after))
    except ToolFailed:
        return "", f"binary: {len(before)} bytes before, {len(after)} after"
    if max(len(old), len(new)) > MOST_LINES:
        return "", f"too long to compare: {len(old)} lines before, {len(new)} after"
    lines = unified_diff(old, new, f"a/{path}", f"b/{path}", lineterm="")
    return storable("\n".join(lines)), ""
