"""Where a path that a model names really is, and whether a tool may go there.

Links are resolved before anything is decided. What is opened later is opened along the resolved path with
no link followed, so a link that is put there in between is refused instead of followed.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from holdfast.core.errors import ToolFailed
from holdfast.tools.contract import ApprovalRequest, ToolContext

PATH_ONLY = getattr(os, "O_PATH", os.O_RDONLY)
"""Passes through a folder without the right to list it, where the system can."""
OUTSIDE = "outside the workspace"
LONGEST_PATH = 4000
"""Other programs can't open a longer one, though this one could make it step by step."""
GIT_FOLDER = ".git"


@dataclass(frozen=True, slots=True)
class Place:
    """A resolved path. `shown` is how results name it: relative to the workspace when it is inside."""

    path: Path
    inside: bool
    shown: str


def locate(workspace: Path, name: str) -> Place:
    """Resolve what a model wrote, against the workspace."""
    if name.startswith("~"):
        raise ToolFailed(f"{name!r} starts with ~, which is not expanded; give the whole path")
    try:
        root = Path(os.path.realpath(workspace))
        path = Path(os.path.realpath(root / name))
        length = len(os.fsencode(path))
    except (OSError, ValueError) as cause:
        raise ToolFailed(f"{name[:200]!r} is not a usable path: {cause}") from cause
    if length > LONGEST_PATH:
        raise ToolFailed(f"{name[:200]!r} is not a usable path: it is longer than {LONGEST_PATH} bytes")
    inside = path.is_relative_to(root)
    return Place(path, inside, str(path.relative_to(root)) if inside else str(path))


async def readable_place(context: ToolContext, name: str) -> Place:
    """A place that may be read: in the workspace, or where a person allows it."""
    place = locate(context.workspace, name)
    if not place.inside:
        await _allowed(context, ApprovalRequest(subject=str(place.path), kind="read", reason=OUTSIDE))
    return place


async def writable_place(context: ToolContext, name: str) -> Place:
    """A place that may be written: in the workspace, git's own folder apart, or where a person allows it."""
    place = locate(context.workspace, name)
    if place.inside and GIT_FOLDER not in (part.lower() for part in Path(place.shown).parts):
        return place
    reason = "in git's own folder, from which git runs programs" if place.inside else OUTSIDE
    await _allowed(context, ApprovalRequest(subject=str(place.path), kind="write", reason=reason))
    return place


async def _allowed(context: ToolContext, request: ApprovalRequest) -> None:
    if not await context.person.approve(request):
        raise ToolFailed(
            f"{request.subject} is {request.reason}, and the person did not allow to {request.kind} it. "
            "Nothing was done."
        )


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


def read_bytes(place: Place, most: int) -> tuple[bytes, os.stat_result]:
    """The content of a regular file of at most `most` bytes, and what it was when it was read."""
    with problems_named(place), folder_of(place.path) as folder:
        # Not blocking, so that a pipe nobody writes to is refused instead of waited for.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        file = os.open(place.path.name, flags, dir_fd=folder)
        with os.fdopen(file, "rb") as reading:
            found = os.fstat(file)
            if not stat.S_ISREG(found.st_mode):
                raise ToolFailed(f"{place.shown} is not a regular file")
            data = reading.read(most + 1)
    if len(data) > most:
        raise ToolFailed(
            f"{place.shown} has {max(found.st_size, len(data))} bytes; {most} is the most this tool reads. "
            "Use a command such as sed or grep on it."
        )
    return data, found


@contextmanager
def problems_named(place: Place) -> Iterator[None]:
    """Say what the system refused in words that name the path."""
    try:
        yield
    except FileNotFoundError as cause:
        raise ToolFailed(f"there is no {place.shown}") from cause
    except IsADirectoryError as cause:
        raise ToolFailed(f"{place.shown} is a folder") from cause
    except OSError as cause:
        if cause.errno in (errno.ELOOP, errno.ENOTDIR):
            raise ToolFailed(
                f"{place.shown} can't be opened: part of the path is no folder, or became a link meanwhile"
            ) from cause
        raise ToolFailed(f"{place.shown} can't be used: {cause.strerror or cause}") from cause
