"""Changes of files as coloured lines: what a call is about to write, and what a turn has changed."""

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

from rich.text import Text

CONTEXT = 3
LONGEST = 400_000
"""Characters of both sides together; longer ones are told in numbers, not compared."""


def call_diff(tool: str, arguments: Mapping[str, Any], before: str | None = None) -> list[str]:
    """The lines of a diff for a call that writes a file; empty for other calls.

    `before` is the file's content, where it is known: a call that writes a whole file does not say it.
    """
    if tool == "edit_file":
        return diff_lines(str(arguments.get("old", "")), str(arguments.get("new", "")))
    if tool == "write_file":
        return diff_lines(before or "", str(arguments.get("text", "")))
    return []


def diff_lines(before: str, after: str) -> list[str]:
    """The lines that differ, each with its sign, and some around them; no head."""
    if len(before) + len(after) > LONGEST:
        gone, come = before.count("\n"), after.count("\n")
        return [f"@@ {gone:,} lines become {come:,} lines @@"]
    found = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=CONTEXT)
    lines = list(found)[2:]
    # With one place that changed, its numbers say nothing that a reader of a part of a file could use.
    places = [line for line in lines if line.startswith("@@")]
    return [line for line in lines if line not in places] if len(places) == 1 else lines


def body_lines(diff: str) -> list[str]:
    """The lines of a unified diff of one file, without its head; of a new file also without its place."""
    return [line for line in diff.splitlines()[2:] if not line.startswith("@@ -0,0 ")]


def counted(lines: Iterable[str]) -> str:
    """How many lines come and go, in words."""
    known = list(lines)
    come = sum(line.startswith("+") for line in known)
    gone = sum(line.startswith("-") for line in known)
    return f"+{come} -{gone}"


def looks_like_diff(lines: Iterable[str]) -> bool:
    """Whether a text is a diff, as git prints it."""
    return any(line.startswith(("diff --git ", "--- a/", "+++ b/")) for line in lines)


def coloured(line: str) -> Text:
    """One line of a diff."""
    if line.startswith(("+++ ", "--- ", "diff ", "index ", "new file", "deleted file")):
        return Text(line, "heading" if line.startswith("diff ") else "quiet")
    style = {"+": "added", "-": "removed", "@": "place"}.get(line[:1], "context")
    return Text(line, style)
