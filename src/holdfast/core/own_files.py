"""`OwnFiles`: Holdfast's own files: settings, secrets, token, store, memory, plugins, skills, logs, program.

Tools ask a person before they use one of them, in any workspace (S1), and a sandbox hides them.
`wiring/own_files.py` lists them; this module tells whether a path leads to one of them, under any name.
"""

import os
import re
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

PROCESS = re.compile(r"/proc/[0-9]+(?:/|\Z)")
"""The folder of a process shows its environment, which may hold keys."""
Identity = tuple[int, int]


@dataclass(frozen=True, slots=True)
class OwnFiles:
    """Resolved paths. A folder includes everything in it. The paths need not exist."""

    folders: tuple[Path, ...] = ()
    """Holdfast's own folders. Tools ask before they read or write there."""
    program: tuple[Path, ...] = ()
    """The code of the program. Tools ask before they write it."""
    files: tuple[Path, ...] = ()
    """Single files that are protected like the folders."""

    @classmethod
    def of(cls, folders: Iterable[Path], program: Iterable[Path] = (), files: Iterable[Path] = ()) -> Self:
        """Resolve the paths; links are followed."""
        return cls(_resolved(folders), _resolved(program), _resolved(files))

    @property
    def private(self) -> tuple[Path, ...]:
        """Everything that tools must ask about before they read or write it."""
        return (*self.folders, *self.files)

    def reason_to_ask(self, path: Path, *, writing: bool = False) -> str:
        """Why a tool must ask about this resolved path; empty when the path is not one of Holdfast's own."""
        if PROCESS.match(str(path)):
            return "part of a running program, whose environment may hold keys"
        if _is_one(path, self.private) or _is_hard_link(path, self.private):
            return "one of Holdfast's own files"
        return "part of Holdfast's own program" if writing and _is_one(path, self.program) else ""

    def any_private(self, paths: Iterable[Path]) -> bool:
        """Whether tools must ask before they read one of these resolved paths; cheaper than one by one."""
        names: set[Identity] = set()
        for path in paths:
            if PROCESS.match(str(path)) or _is_one(path, self.private):
                return True
            names |= _other_names(path)
        return bool(names) and not names.isdisjoint(_files(self.private))

    def within(self, folder: Path) -> tuple[Path, ...]:
        """Holdfast's own folders that this resolved folder contains, or that contain it."""
        if _is_one(folder, self.folders):
            return (folder,)
        own = _identity(folder)
        return tuple(
            each
            for each in self.folders
            if _below(each, folder)
            or (own is not None and any(_identity(parent) == own for parent in each.parents))
        )


def _resolved(paths: Iterable[Path]) -> tuple[Path, ...]:
    return tuple(dict.fromkeys(Path(os.path.realpath(each)) for each in paths))


def _is_one(path: Path, protected: tuple[Path, ...]) -> bool:
    if any(_below(path, each) for each in protected):
        return True
    # The same file may have another path: a bind mount, upper and lower case, a process's view of the root.
    known = {found for each in protected if (found := _identity(each)) is not None}
    return any(_identity(each) in known for each in (path, *path.parents))


def _below(path: Path, folder: Path) -> bool:
    # Some file systems ignore upper and lower case. To ask once too often is harmless.
    parts, above = _folded(path), _folded(folder)
    return parts[: len(above)] == above


def _folded(path: Path) -> tuple[str, ...]:
    return tuple(part.casefold() for part in path.parts)


def _identity(path: Path) -> Identity | None:
    try:
        found = path.stat()
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino


def _is_hard_link(path: Path, protected: tuple[Path, ...]) -> bool:
    """Whether a file is a hard link to a protected file. Only files with several names are compared."""
    names = _other_names(path)
    return bool(names) and not names.isdisjoint(_files(protected))


def _other_names(path: Path) -> frozenset[Identity]:
    """The identity of a file that has several names; nothing for any other."""
    try:
        found = path.lstat()
    except (OSError, ValueError):
        return frozenset()
    if not stat.S_ISREG(found.st_mode) or found.st_nlink < 2:  # noqa: PLR2004 - it has another name
        return frozenset()
    return frozenset({(found.st_dev, found.st_ino)})


def _files(protected: tuple[Path, ...]) -> Iterator[Identity]:
    for each in protected:
        if (found := _identity(each)) is not None:
            yield found
        for folder, _, names in os.walk(each):
            for name in names:
                if (found := _identity(Path(folder) / name)) is not None:
                    yield found
