"""Searches the files of a folder, by name or by content, in a separate process.

A regular expression can run for ever; Python can't stop it, and nothing else runs meanwhile. A process can be
killed. This file is run by its path. It reads a request as JSON from standard input and writes its findings
as lines of JSON.
"""

import json
import os
import re
import sys
from collections.abc import Iterator
from typing import Any

MAX_FILE_BYTES = 20_000_000
MAX_LINE_LENGTH = 300
SNIFFED_BYTES = 8192
PROCESSES = "/proc"
"""It shows the environment of processes, which may hold keys."""
Rules = list[tuple[str, Any]]


def glob_pattern(glob: str) -> re.Pattern[str]:
    """A glob as a pattern for a relative path. Without a slash it matches only the name, in any folder."""
    anchored = "/" in glob.rstrip("/")
    parts = [each for each in glob.strip("/").split("/") if each not in ("", ".")]
    written = "" if anchored else "(?:[^/]+/)*"
    for number, part in enumerate(parts):
        last = number == len(parts) - 1
        if part == "**":
            written += "(?:[^/]+/)*" + ("[^/]+" if last else "")
        else:
            written += _segment(part) + ("" if last else "/")
    return re.compile(f"(?s:{written})\\Z")


def _segment(part: str) -> str:
    """One name of a glob: * and ? and [a-z] and {a,b}."""
    written, at = "", 0
    while at < len(part):
        char = part[at]
        if char in "[{" and (end := part.find("]" if char == "[" else "}", at + 2)) > 0:
            inner = part[at + 1 : end]
            if char == "[":
                negated = "^" if inner[0] in "!^" else ""
                inner = inner[1:] if negated else inner
                written += "[" + negated + re.escape(inner).replace("\\-", "-") + "]"
            else:
                written += "(?:" + "|".join(_segment(each) for each in inner.split(",")) + ")"
            at = end
        elif char == "*":
            written += "[^/]*" if not written.endswith("[^/]*") else ""
        elif char == "?":
            written += "[^/]"
        else:
            written += re.escape(char)
        at += 1
    return written


def ignore_rules(folder: str) -> Any:  # noqa: ANN401 - a spec, or None
    """The rules in the .gitignore of a folder; None when there are none."""
    from pathspec import GitIgnoreSpec

    try:
        with open(os.path.join(folder, ".gitignore"), encoding="utf-8", errors="replace") as file:  # noqa: PTH118, PTH123
            return GitIgnoreSpec.from_lines(file.read(MAX_FILE_BYTES).splitlines())
    except (OSError, ValueError):
        return None


def ignored(path: str, rules: Rules, *, is_folder: bool) -> bool:
    """Whether the rules exclude a path. The rules of the deepest folder come last."""
    for folder, spec in reversed(rules):
        ignored_here = spec.check_file(os.path.relpath(path, folder) + ("/" if is_folder else "")).include
        if ignored_here is not None:
            return bool(ignored_here)
    return False


class ExcludedFiles:
    """The files to exclude, under any name: by path, by identity, or by a hard link."""

    def __init__(self, paths: list[str]) -> None:
        self._paths = set(paths)
        self._known = {found for each in paths if (found := identity(each)) is not None}
        self._files: set[tuple[int, int]] | None = None

    def is_one(self, path: str, *, is_folder: bool) -> bool:
        if path in self._paths or path == PROCESSES:
            return True
        return is_folder and bool(self._known) and identity(path) in self._known

    def is_open_in(self, file: int) -> bool:
        """Whether an open file is one of the excluded files under another name."""
        found = os.fstat(file)
        if found.st_nlink < 2 and (found.st_dev, found.st_ino) not in self._known:  # noqa: PLR2004
            return False
        if self._files is None:
            self._files = self._known | {each for path in self._paths for each in files_in(path)}
        return (found.st_dev, found.st_ino) in self._files


def files_in(folder: str) -> Iterator[tuple[int, int]]:
    for at, _, names in os.walk(folder):
        for name in names:
            if (found := identity(os.path.join(at, name))) is not None:  # noqa: PTH118
                yield found


def identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)  # noqa: PTH116
    except OSError:
        return None
    return found.st_dev, found.st_ino


def walk(folder: str, rules: Rules, own: ExcludedFiles) -> Iterator[str]:
    """The regular files below a folder, in order. Links are not followed."""
    spec = ignore_rules(folder)
    rules = [*rules, (folder, spec)] if spec is not None else rules
    try:
        with os.scandir(folder) as found:
            entries = sorted(found, key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        is_folder = entry.is_dir(follow_symlinks=False)
        if entry.name == ".git" or ignored(entry.path, rules, is_folder=is_folder):
            continue
        if own.is_one(entry.path, is_folder=is_folder):
            continue
        if is_folder:
            yield from walk(entry.path, rules, own)
        elif entry.is_file(follow_symlinks=False):
            yield entry.path


def matches(path: str, pattern: re.Pattern[str], own: ExcludedFiles) -> Iterator[tuple[int, str]]:
    """The lines of a text file in which the pattern is found."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            data = b"" if own.is_open_in(file.fileno()) else file.read(MAX_FILE_BYTES)
    except OSError:
        return
    if b"\0" in data[:SNIFFED_BYTES]:
        return
    for number, line in enumerate(data.decode("utf-8", "replace").split("\n"), 1):
        if found := pattern.search(line):
            start = max(0, min(found.start() - 50, len(line) - MAX_LINE_LENGTH))
            yield number, line[start : start + MAX_LINE_LENGTH].rstrip("\r")


def write_line(found: object) -> None:
    sys.stdout.write(json.dumps(found) + "\n")
    sys.stdout.flush()


def main() -> None:
    request = json.load(sys.stdin)
    sys.setrecursionlimit(10_000)
    folder, left = request["folder"], request["limit"]
    try:
        glob = glob_pattern(request["glob"]) if request["glob"] else None
        pattern = None
        if request["pattern"] is not None:
            pattern = re.compile(request["pattern"], re.IGNORECASE if request["ignore_case"] else 0)
    except (re.error, RecursionError, OverflowError) as cause:
        write_line({"problem": f"the pattern can't be used: {cause}"})
        return
    own = ExcludedFiles(request["own"])
    rules: Rules = [(each, spec) for each in request["above"] if (spec := ignore_rules(each)) is not None]
    paths = [folder] if os.path.isfile(folder) else walk(folder, rules, own)  # noqa: PTH113
    for path in paths:
        if glob is not None and not glob.match(os.path.relpath(path, folder)):
            continue
        for number, line in [(0, "")] if pattern is None else matches(path, pattern, own):
            if left == 0:
                write_line({"more": True})
                return
            left -= 1
            write_line({"path": path, "line": number, "text": line})
    write_line({"end": True})


if __name__ == "__main__":
    main()
