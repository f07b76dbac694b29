"""Looks through a folder's files, by name or by content, in a process of its own.

A regular expression can take for ever, and while it does Python can neither stop it nor run anything else;
a process can be killed. This file is run by its path, takes a request as JSON on standard input and writes
what it finds as lines of JSON.
"""

import json
import os
import re
import sys
from collections.abc import Iterator
from typing import Any

LARGEST = 20_000_000
LONGEST_LINE = 300
LOOKED_AT = 8192
Rules = list[tuple[str, Any]]


def glob_pattern(glob: str) -> re.Pattern[str]:
    """A glob as a pattern over a relative path. Without a slash it is for the name alone, in any folder."""
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
    """What the .gitignore of a folder says."""
    from pathspec import GitIgnoreSpec

    try:
        with open(os.path.join(folder, ".gitignore"), encoding="utf-8", errors="replace") as file:  # noqa: PTH118, PTH123
            return GitIgnoreSpec.from_lines(file.read(LARGEST).splitlines())
    except (OSError, ValueError):
        return None


def ignored(path: str, rules: Rules, *, is_folder: bool) -> bool:
    """Whether the rules, of which the deepest folder's come last, leave a path out."""
    for folder, spec in reversed(rules):
        told = spec.check_file(os.path.relpath(path, folder) + ("/" if is_folder else "")).include
        if told is not None:
            return bool(told)
    return False


def walk(folder: str, rules: Rules) -> Iterator[str]:
    """The regular files under a folder, in order, following no links."""
    own = ignore_rules(folder)
    rules = [*rules, (folder, own)] if own is not None else rules
    try:
        with os.scandir(folder) as found:
            entries = sorted(found, key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        is_folder = entry.is_dir(follow_symlinks=False)
        if entry.name == ".git" or ignored(entry.path, rules, is_folder=is_folder):
            continue
        if is_folder:
            yield from walk(entry.path, rules)
        elif entry.is_file(follow_symlinks=False):
            yield entry.path


def matches(path: str, pattern: re.Pattern[str]) -> Iterator[tuple[int, str]]:
    """The lines of a text file in which the pattern is found."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            data = file.read(LARGEST)
    except OSError:
        return
    if b"\0" in data[:LOOKED_AT]:
        return
    for number, line in enumerate(data.decode("utf-8", "replace").split("\n"), 1):
        if found := pattern.search(line):
            start = max(0, min(found.start() - 50, len(line) - LONGEST_LINE))
            yield number, line[start : start + LONGEST_LINE].rstrip("\r")


def tell(found: object) -> None:
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
        tell({"problem": f"the pattern can't be used: {cause}"})
        return
    rules: Rules = [(each, spec) for each in request["above"] if (spec := ignore_rules(each)) is not None]
    paths = [folder] if os.path.isfile(folder) else walk(folder, rules)  # noqa: PTH113
    for path in paths:
        if glob is not None and not glob.match(os.path.relpath(path, folder)):
            continue
        for number, line in [(0, "")] if pattern is None else matches(path, pattern):
            if left == 0:
                tell({"more": True})
                return
            left -= 1
            tell({"path": path, "line": number, "text": line})
    tell({"end": True})


if __name__ == "__main__":
    main()
