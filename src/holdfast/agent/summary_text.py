"""The text of a summary at the beginning of a session, and how it is known again in the message it stands in.

A person's next words may be joined to it in one message, so it is known by its heading and its fence.
"""

import re
from typing import Any

from holdfast.core.contract import Message
from holdfast.core.messages import fenced

HEADING = "Summary of the conversation so far. Its full text is kept and can be searched."
SUMMARY = re.compile(rf"{re.escape(HEADING)}\n\n<summary>\n.*?\n</summary>", re.DOTALL)


def summary_text(text: str) -> str:
    return f"{HEADING}\n\n{fenced('summary', text)}"


def summary_of(message: Message) -> str:
    """The summary that the message begins with, with its heading; empty when there is none."""
    content: Any = message.get("content")
    text = content[0].get("text") if isinstance(content, list) and content else content
    found = SUMMARY.match(text) if isinstance(text, str) else None
    return found[0] if found else ""


def without_summary(message: Message, instead: str) -> Message:
    """The message with a text in the place of the summary it begins with; itself when there is none."""
    content: Any = message.get("content")
    length = len(summary_of(message))
    if not length:
        return message
    if isinstance(content, str):
        return {**message, "content": instead + content[length:]}
    first = {**content[0], "text": instead + content[0]["text"][length:]}
    return {**message, "content": [first, *content[1:]]}
