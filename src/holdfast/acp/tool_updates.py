"""A tool call as an editor shows it: its kind, title, files, difference and result."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from acp import schema, tool_content, tool_diff_content
from acp.helpers import ToolCallContentVariant, text_block, tool_terminal_ref

from holdfast.core.clean_text import one_line
from holdfast.core.messages import storable

TODO = "todo"
KINDS: Mapping[str, schema.ToolKind] = {
    **dict.fromkeys(("read_file", "list_folder", "read_output", "read_session", "read_skill"), "read"),
    **dict.fromkeys(
        ("search_files", "find_files", "search_sessions", "memory_search", "find_tool"), "search"
    ),
    **dict.fromkeys(("write_file", "edit_file"), "edit"),
    **dict.fromkeys(("run_command", "start_process", "read_process", "stop_process"), "execute"),
    **dict.fromkeys(("fetch_page", "search_web"), "fetch"),
    **dict.fromkeys((TODO, "delegate"), "think"),
}
PLAN_STATES: Mapping[str, schema.PlanEntryStatus] = {"in_progress": "in_progress", "done": "completed"}
TITLE_WIDTH = 120
SHOWN_CHARACTERS = 20_000


def call_id(turn_id: str | None, given: str) -> str:
    """The id of a call in a conversation: models number their calls anew in each turn."""
    return storable(f"{turn_id or ''}:{given}")


def bounded(text: str) -> str:
    """The end of a text that is too long to be shown whole."""
    shown = storable(text)
    left_out = len(shown) - SHOWN_CHARACTERS
    return shown if left_out <= 0 else f"[… {left_out:,} characters]\n{shown[-SHOWN_CHARACTERS:]}"


def parsed_arguments(arguments: str) -> dict[str, Any]:
    """The arguments of a call as JSON that every reader takes; empty when they are none."""
    try:
        found = json.loads(arguments or "{}")
        plain = json.loads(storable(json.dumps(found, ensure_ascii=False, allow_nan=False)))
    except (ValueError, RecursionError):
        return {}
    return plain if isinstance(plain, dict) else {}


@dataclass(frozen=True, slots=True)
class ShownCall:
    """A call of a tool in a folder."""

    id: str
    name: str
    arguments: dict[str, Any]
    folder: Path

    def start(self, status: schema.ToolCallStatus = "in_progress") -> schema.ToolCallStart:
        """The call as it begins."""
        diff = self.diff()
        return schema.ToolCallStart(
            session_update="tool_call",
            tool_call_id=self.id,
            title=self.title,
            kind=KINDS.get(self.name, "other"),
            status=status,
            content=diff or None,
            locations=self.locations() or None,
            # A difference shows what the arguments would repeat.
            raw_input=None if diff else self.arguments,
        )

    def output(self, text: str) -> schema.ToolCallProgress:
        """What a running call has printed so far."""
        return self._progress(None, [tool_content(text_block(bounded(text)))])

    def in_terminal(
        self, terminal_id: str, status: schema.ToolCallStatus | None = None
    ) -> schema.ToolCallProgress:
        """The call with the editor's own terminal, which shows the output."""
        return self._progress(status, [tool_terminal_ref(terminal_id)])

    def finish(self, *, ok: bool, output: str) -> schema.ToolCallProgress:
        """The call with its result. A difference stays when the call succeeded."""
        content = [tool_content(text_block(bounded(output)))] if output else []
        if ok and self.diff():
            return self._progress("completed", None)
        return self._progress("completed" if ok else "failed", content)

    def asked(self, subject: str) -> schema.ToolCallUpdate:
        """The call for a question about it: what is to be allowed is shown whole."""
        return schema.ToolCallUpdate(
            tool_call_id=self.id,
            title=self.title,
            kind=KINDS.get(self.name, "other"),
            status="pending",
            content=self.diff() or [tool_content(text_block(storable(subject)))],
            locations=self.locations() or None,
        )

    def _progress(
        self, status: schema.ToolCallStatus | None, content: Sequence[ToolCallContentVariant] | None
    ) -> schema.ToolCallProgress:
        return schema.ToolCallProgress(
            session_update="tool_call_update",
            tool_call_id=self.id,
            status=status,
            content=None if content is None else list(content),
        )

    @property
    def title(self) -> str:
        texts = (value for value in self.arguments.values() if isinstance(value, str) and value.strip())
        about = next(texts, "")
        return storable(one_line(f"{self.name or 'tool'} {about}", TITLE_WIDTH)) or "tool"

    def locations(self) -> list[schema.ToolCallLocation]:
        path = self._path()
        start = self.arguments.get("start")
        line = start if isinstance(start, int) and not isinstance(start, bool) and start > 0 else None
        return [] if path is None else [schema.ToolCallLocation(path=path, line=line)]

    def diff(self) -> list[ToolCallContentVariant]:
        """What the call changes in a file, as far as its arguments say it."""
        path, given = self._path(), self.arguments
        if path is None:
            return []
        if self.name == "write_file" and isinstance(given.get("text"), str):
            return [tool_diff_content(path, given["text"])]
        old, new = given.get("old"), given.get("new")
        if self.name == "edit_file" and isinstance(old, str) and isinstance(new, str):
            return [tool_diff_content(path, new, old)]
        return []

    def _path(self) -> str | None:
        path = self.arguments.get("path")
        if not isinstance(path, str) or not path or "\0" in path:
            return None
        return os.path.normpath(self.folder / path)

    def plan(self) -> schema.AgentPlanUpdate | None:
        """The list of a call of `todo`; None when it only looks at the list."""
        items = self.arguments.get("items")
        if self.name != TODO or not isinstance(items, list):
            return None
        entries = [
            schema.PlanEntry(
                content=str(item.get("text", "")),
                priority="medium",
                status=PLAN_STATES.get(str(item.get("state")), "pending"),
            )
            for item in items
            if isinstance(item, dict)
        ]
        return schema.AgentPlanUpdate(session_update="plan", entries=entries)
