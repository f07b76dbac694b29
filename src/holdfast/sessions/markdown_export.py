"""A conversation as Markdown, for people to read: what was said, and which tools ran with which results.

It can't be imported again; `portable.py` writes what can.
"""

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from holdfast.core.messages import text_of
from holdfast.sessions.contract import SECOND, StoredMessage

if TYPE_CHECKING:
    from holdfast.sessions.db import SessionDB

LONGEST_RESULT = 4_000
"""Characters of a tool's result; of a longer one the end is left out."""
ENDINGS = (".md", ".markdown")
WHO = {"user": "You", "assistant": "Assistant", "system": "System"}


def is_markdown(name: str) -> bool:
    """Whether the name of a file asks for Markdown."""
    return name.lower().endswith(ENDINGS)


def markdown_lines(db: "SessionDB", session_id: str) -> list[str]:
    """The whole conversation. Blocks on the store."""
    found = db.conversations.find(session_id)
    title = found.label or "A conversation"
    lines = [f"# {' '.join(title.split())}", ""]
    for each in db.sessions.lineage(session_id):
        lines += messages_as_markdown([stored for stored in db.sessions.read(each) if not stored.carried])
    return lines


def messages_as_markdown(stored: Sequence[StoredMessage]) -> Iterator[str]:
    """The lines for some messages."""
    for each in stored:
        role, text = str(each.message["role"]), text_of(each.message)
        if role == "tool":
            yield from _result(text)
            continue
        day = datetime.fromtimestamp(each.created / SECOND, UTC).astimezone().strftime("%Y-%m-%d %H:%M")
        calls = each.message.get("tool_calls") or ()
        if text.strip() or not calls:
            yield from (f"## {WHO.get(role, role)}, {day}", "", *text.strip("\n").split("\n"), "")
        for call in calls:
            function = call["function"]
            yield f"**{function['name']}**"
            yield ""
            yield from _fenced(function.get("arguments") or "{}", "json")


def _result(text: str) -> Iterator[str]:
    shown = text.strip("\n")
    if len(shown) > LONGEST_RESULT:
        left_out = len(shown) - LONGEST_RESULT
        shown = f"{shown[:LONGEST_RESULT]}\n[… {left_out:,} more characters]"
    yield from _fenced(shown)


def _fenced(text: str, language: str = "") -> Iterator[str]:
    longest = max((len(found) for found in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    yield from (f"{fence}{language}", *text.split("\n"), fence, "")
