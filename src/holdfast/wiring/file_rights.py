"""Checks whether other users can write the files that Holdfast obeys or runs (S1)."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

MAX_FILES = 20_000


def others_can_write(path: Path) -> str:
    """Why a file or folder is not safe, with a remedy; empty when it is safe or does not exist.

    Links are followed. The folders of the link and of its target are checked too.
    """
    real = Path(os.path.realpath(path))
    try:
        found = real.stat()
        above = {folder: folder.stat() for folder in (path.parent, real.parent)}
    except OSError:
        return ""
    # The null device is always empty: HOLDFAST_SETTINGS=/dev/null means no settings at all.
    if path.samefile(os.devnull):
        return ""
    if found.st_mode & stat.S_IWOTH:
        return f"can be written by everybody on this machine; `chmod o-w {path}` fixes it"
    for folder, rights in above.items():
        # In a folder like /tmp only the owner of a file can replace it.
        if rights.st_mode & stat.S_IWOTH and not rights.st_mode & stat.S_ISVTX:
            return f"is in a folder that everybody can write to; `chmod o-w {folder}` fixes it"
    return ""


def odd_rights(path: Path) -> str:
    """A warning about rights that may be on purpose: another owner, or a group that can write."""
    try:
        found = path.stat()
    except OSError:
        return ""
    if found.st_uid not in (os.geteuid(), 0):
        return f"{path} belongs to another user (number {found.st_uid}), who can change it"
    if found.st_mode & stat.S_IWGRP:
        return f"{path} can be written by its group; `chmod g-w {path}` if that is not meant"
    return ""


def unsafe_code(folder: Path, most: int = MAX_FILES) -> str:
    """Why the code in a folder must not be run; empty when it may be run."""
    for number, file in enumerate(code_files(folder)):
        if number > most:
            return f"{folder} holds more than {most:,} files, too many to check; move other files elsewhere"
        if unsafe := others_can_write(file):
            return f"{file} {unsafe}"
    return ""


def code_files(folder: Path) -> Iterator[Path]:
    """A folder with all files and folders in it. Links are followed, and each folder is listed once."""
    seen: set[str] = set()
    waiting = [folder]
    yield folder
    while waiting:
        here = waiting.pop()
        real = os.path.realpath(here)
        if real in seen:
            continue
        seen.add(real)
        try:
            entries = sorted(here.iterdir())
        except OSError:
            continue
        yield from entries
        waiting.extend(each for each in entries if each.is_dir())
