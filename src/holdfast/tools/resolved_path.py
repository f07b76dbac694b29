"""`ResolvedPath`: resolves a path that a model names, and decides whether a tool may use it.

Links are resolved before the decision. Files are opened later along the resolved path without following
links, so a link that was put there meanwhile is refused.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from holdfast.core.errors import ToolFailed
from holdfast.tools.contract import ApprovalRequest, ToolContext, refusal

PATH_ONLY = getattr(os, "O_PATH", os.O_RDONLY)
"""Opens a folder without the right to list it, where the system supports this."""
OUTSIDE = "outside the workspace"
UNTRUSTED = "in a folder that was not chosen as a workspace"
MAX_PATH_BYTES = 4000
"""Other programs can't open a longer path, although this program could create it folder by folder."""
GIT_FOLDER = ".git"


@dataclass(frozen=True, slots=True)
class ResolvedPath:
    """A resolved path. `shown` is how results name it: relative to the workspace when it is inside."""

    path: Path
    inside: bool
    shown: str
    own: bool = False
    """Whether it is one of Holdfast's own files, which a person allowed for this call."""


def resolve_path(workspace: Path, name: str) -> ResolvedPath:
    """Resolve a path from a model, relative to the workspace."""
    if name.startswith("~"):
        raise ToolFailed(f"{name!r} starts with ~, which is not expanded; give the whole path")
    try:
        root = Path(os.path.realpath(workspace))
        path = Path(os.path.realpath(root / name))
        length = len(os.fsencode(path))
    except (OSError, ValueError) as cause:
        raise ToolFailed(f"{name[:200]!r} is not a usable path: {cause}") from cause
    if length > MAX_PATH_BYTES:
        raise ToolFailed(f"{name[:200]!r} is not a usable path: it is longer than {MAX_PATH_BYTES} bytes")
    inside = path.is_relative_to(root)
    return ResolvedPath(path, inside, str(path.relative_to(root)) if inside else str(path))


async def readable_path(context: ToolContext, name: str) -> ResolvedPath:
    """A path that may be read: in the workspace, or allowed by a person."""
    return await _allowed(context, name, "read")


async def writable_path(context: ToolContext, name: str) -> ResolvedPath:
    """A path that may be written: in the workspace but not in `.git`, or allowed by a person."""
    return await _allowed(context, name, "write")


async def _allowed(context: ToolContext, name: str, kind: str) -> ResolvedPath:
    target = resolve_path(context.workspace, name)
    own = await context.off_loop(
        partial(context.own_files.reason_to_ask, target.path, writing=kind == "write")
    )
    reason = own or _reason(context, target, kind)
    if not reason:
        return target
    request = ApprovalRequest(subject=str(target.path), kind=kind, reason=reason, own_files=bool(own))
    if not await context.person.approve(request):
        raise ToolFailed(f"{request.subject} is {reason}, and {refusal(context.person)}. Nothing was done.")
    return replace(target, own=bool(own))


def _reason(context: ToolContext, target: ResolvedPath, kind: str) -> str:
    """Why a path needs approval; empty when it does not."""
    if not target.inside:
        return OUTSIDE
    if kind == "write" and GIT_FOLDER in (part.lower() for part in Path(target.shown).parts):
        return "in git's own folder, from which git runs programs"
    return "" if context.trusted_workspace else UNTRUSTED


@contextmanager
def folder_of(path: Path, *, create: bool = False) -> Iterator[int]:
    """A descriptor of the folder that holds `path`, reached without following a link."""
    here = os.open(path.anchor, PATH_ONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in path.parent.parts[1:]:
            below = _step(here, part, create=create)
            os.close(here)
            here = below
        yield here
    finally:
        os.close(here)


def _step(here: int, part: str, *, create: bool) -> int:
    flags = PATH_ONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(part, flags, dir_fd=here)
    except FileNotFoundError:
        if not create:
            raise
        with suppress(FileExistsError):  # another call made it first
            os.mkdir(part, dir_fd=here)
        return os.open(part, flags, dir_fd=here)


def read_bytes(target: ResolvedPath, most: int) -> tuple[bytes, os.stat_result]:
    """The content of a regular file of at most `most` bytes, and its status at that moment."""
    with translate_os_errors(target), folder_of(target.path) as folder:
        # Non-blocking, so that opening a pipe without a writer does not wait.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        file = os.open(target.path.name, flags, dir_fd=folder)
        with os.fdopen(file, "rb") as reading:
            found = os.fstat(file)
            if not stat.S_ISREG(found.st_mode):
                raise ToolFailed(f"{target.shown} is not a regular file")
            data = reading.read(most + 1)
    if len(data) > most:
        raise ToolFailed(
            f"{target.shown} has {max(found.st_size, len(data))} bytes; {most} is the most this tool reads. "
            "Use a command such as sed or grep on it."
        )
    return data, found


@contextmanager
def translate_os_errors(target: ResolvedPath) -> Iterator[None]:
    """Turn an `OSError` into a `ToolFailed` that names the path."""
    try:
        yield
    except FileNotFoundError as cause:
        raise ToolFailed(f"there is no {target.shown}") from cause
    except IsADirectoryError as cause:
        raise ToolFailed(f"{target.shown} is a folder") from cause
    except OSError as cause:
        if cause.errno in (errno.ELOOP, errno.ENOTDIR):
            raise ToolFailed(
                f"{target.shown} can't be opened: part of the path is no folder, or became a link meanwhile"
            ) from cause
        raise ToolFailed(f"{target.shown} can't be used: {cause.strerror or cause}") from cause
