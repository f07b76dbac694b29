"""A tool call on the terminal: the lines while it runs, and what is printed when it has ended.

A command shows its output, a call that writes a file the change, the todo list its items. `folds.py` says
which lines of a long output stay visible.
"""

import json
import re
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from holdfast.cli.terminal.diff_text import call_diff, coloured, counted, looks_like_diff
from holdfast.cli.terminal.folds import Folds, hidden_lines, shortened
from holdfast.core import events as ev
from holdfast.core.clean_text import CleanStream, clean, one_line

COMMANDS = ("run_command", "!")
WRITES = ("edit_file", "write_file")
TODO = "todo"
TODO_SIGNS = {"[ ]": ("☐", ""), "[>]": ("▸", "strong"), "[x]": ("☑", "quiet")}
MOST_FAILURE = 600
"""Characters that a call's head says of what went wrong; the key that opens folds shows all."""
LIVE_LINES = 6
"""Lines of a running command that are shown below its name."""
NAME_WIDTH = 30
FAILED_LINE = re.compile(r"^(?:E  |\w*(?:Error|Exception)\b|FAILED |error(?:\[|:))")
READ_BYTES = 1_000_000
INDENT = "  "


@dataclass(slots=True)
class RunningTool:
    """A tool call without a result."""

    name: str
    arguments: Mapping[str, Any]
    summary: str
    began: float
    output: CleanStream = field(default_factory=CleanStream)
    lines: "deque[str]" = field(default_factory=lambda: deque(maxlen=LIVE_LINES))
    _rest: str = ""

    @property
    def last(self) -> str:
        """The last line of its output."""
        return self._rest or (self.lines[-1] if self.lines else "")

    def tail(self) -> list[str]:
        """The last lines of its output, the unfinished one included."""
        known = [*self.lines, self._rest] if self._rest.strip() else list(self.lines)
        return known[-LIVE_LINES:]

    def take(self, text: str) -> None:
        """Add output."""
        *lines, self._rest = (self._rest + self.output.feed(text[-4_000:])).split("\n")
        self.lines.extend(line for line in lines if line.strip())

    def diff(self, workspace: Path) -> list[str]:
        """What the call is about to change in a file, compared with the file as it is now."""
        before = None
        if self.name == "write_file":
            before = _content(workspace, str(self.arguments.get("path", "")))
        return call_diff(self.name, self.arguments, before)


def running_tool(event: ev.ToolStarted, now: float) -> RunningTool:
    """A call that begins."""
    given = _arguments(event.arguments)
    return RunningTool(event.name, given, tool_summary(event.name, event.arguments, given), now)


def tool_summary(name: str, arguments: str, given: Mapping[str, Any]) -> str:
    """A call's arguments in one line: of a write its path, else their values."""
    if name in WRITES and "path" in given:
        return one_line(str(given["path"]), 200)
    if name == TODO:
        items = given.get("items")
        return f"{len(items)} items" if isinstance(items, list) else ""
    if not given:
        return "" if arguments.strip() in ("", "{}") else one_line(arguments, 200)
    return one_line(" ".join(_value(value) for value in given.values()), 200)


def _value(value: object) -> str:
    """A value as a person writes it: a list by its items."""
    if isinstance(value, list) and all(isinstance(each, str | int | float) for each in value):
        return ", ".join(str(each) for each in value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


class ToolCards:
    """Makes the lines for calls that have ended, and keeps what they leave out."""

    def __init__(self, folds: Folds) -> None:
        self._folds = folds

    def lines(
        self, event: ev.ToolFinished, call: RunningTool | None, width: int, diff: Sequence[str] = ()
    ) -> list[Text]:
        """What is printed for a call: its head, and its body. `diff` is what it changed, when known."""
        summary = call.summary if call else ""
        output = clean(event.output)
        if event.name in COMMANDS:
            return self._command(event, summary, output, width)
        if event.name == TODO and event.ok:
            return [*_head(event, "", "", width), *_todo(output)]
        if event.name in WRITES and event.ok:
            known = list(diff) or ([] if call is None else call_diff(call.name, call.arguments))
            head = _head(event, summary, counted(known), width)
            return [*head, *self._body(f"{event.name} {summary}", known, width, is_diff=True)]
        if output.strip():
            self._folds.keep(f"{event.name} {summary}", output)
        return finished_lines(event, summary, width)

    def _command(self, event: ev.ToolFinished, summary: str, output: str, width: int) -> list[Text]:
        shown, outcome = _with_outcome(output)
        head = _head(event, summary, outcome, width)
        lines = [] if shown.strip() == "(no output)" else shown.strip("\n").split("\n")
        if not any(line.strip() for line in lines):
            return head
        is_diff = looks_like_diff(lines)
        return [
            *head,
            *self._body(f"{event.name} {summary}", lines, width, is_diff=is_diff, failed=not event.ok),
        ]

    def _body(
        self, title: str, lines: Sequence[str], width: int, *, is_diff: bool, failed: bool = False
    ) -> list[Text]:
        if not lines:
            return []
        self._folds.keep(title, "\n".join(lines))
        parts = shortened(lines, failed=failed)
        body = [_body_line(line, width, is_diff=is_diff) for line in parts.first]
        if parts.hidden:
            body.append(Text(f"{INDENT}{hidden_lines(parts.hidden)}", "quiet"))
        return [*body, *(_body_line(line, width, is_diff=is_diff) for line in parts.last)]


def finished_lines(event: ev.ToolFinished, summary: str, width: int) -> list[Text]:
    """One line for a call that has ended; of a failed one, what went wrong below it where it is longer."""
    lines = [line for line in clean(event.output[:20_000]).split("\n") if line.strip()]
    output = (
        (lines[-1] if not event.ok else lines[0] if len(lines) == 1 else f"{len(lines)} lines")
        if lines
        else ""
    )
    # What the call was about stands there already.
    return _head(event, summary, output.removeprefix(summary).strip() or output, width)


def live_lines(call: RunningTool, now: float, width: int, *, alone: bool) -> list[str]:
    """The lines of a running call; a command that runs alone shows some of its output."""
    spent = int(now - call.began)
    head = f"⋯ {call.name} {call.summary}"
    if alone and call.tail():
        return [one_line(head, width - 7) + f" {spent} s", *(f"{INDENT}{line}" for line in call.tail())]
    # The last line of output matters more than all the arguments.
    line = f"{one_line(head, width // 2)} │ {call.last}" if call.last else head
    return [one_line(line, width - 7) + f" {spent} s"]


def _with_outcome(output: str) -> tuple[str, str]:
    """What a command printed, and how it ended: the last line, in brackets; empty when there is none."""
    text = output.rstrip()
    start = text.find("[", text.rfind("\n") + 1)
    if start < 0 or not text.endswith("]"):
        return output, ""
    return text[:start].removesuffix("\n"), text[start + 1 : -1]


def _head(event: ev.ToolFinished, summary: str, output: str, width: int) -> list[Text]:
    """The call and how it ended, in one line; what went wrong is said whole, if need be below it."""
    name = one_line(event.name or "tool", NAME_WIDTH)
    head = one_line(summary, max(8, (width - len(name) - 6) * 3 // 5)) if summary else ""
    room = max(4, width - len(name) - len(head) - 8)
    below: list[Text] = []
    if not event.ok and one_line(output, room) != one_line(output, MOST_FAILURE):
        failure = Text(one_line(output, MOST_FAILURE), "failure")
        rows = failure.wrap(Console(width=width), max(20, width - len(INDENT)))
        below = [Text.assemble(INDENT, row) for row in rows]
        head, output = one_line(summary, max(8, width - len(name) - 4)), ""
    left = one_line(output, room)
    mark = ("✓ ", "success") if event.ok else ("✗ ", "failure")
    parts = Text.assemble(
        mark, (name, "tool"), f" {head}" if head else "", (f" → {left}" if left else "", "quiet")
    )
    parts.truncate(width, overflow="ellipsis")
    return [parts, *below]


def _body_line(line: str, width: int, *, is_diff: bool) -> Text:
    short = one_line(line, width - len(INDENT), squeeze=False)
    if is_diff:
        return Text.assemble(INDENT, coloured(short))
    return Text.assemble(INDENT, (short, "failure" if FAILED_LINE.match(line) else "quiet"))


def _todo(output: str) -> list[Text]:
    found = []
    for line in output.split("\n"):
        sign, style = TODO_SIGNS.get(line[:3], ("", ""))
        found.append(Text(f"{INDENT}{sign} {line[3:].strip()}" if sign else f"{INDENT}{line}", style))
    return found


def _arguments(text: str) -> Mapping[str, Any]:
    try:
        given = json.loads(text or "{}")
    except ValueError:
        return {}
    return given if isinstance(given, dict) else {}


def _content(workspace: Path, path: str) -> str | None:
    """A file's text as it is now; None when there is none, or none that could be compared."""
    try:
        file = workspace / Path(path).expanduser()
        if not file.is_file() or file.stat().st_size > READ_BYTES:
            return None
        return file.read_text(encoding="utf-8")
    except (OSError, ValueError, RuntimeError):
        return None
