"""The system text of a session: what a client of it gave, beside Holdfast's own.

It is kept with the message that came with it (under the key `holdfast`), so that both are stored in one step
and travel together: through the inbox, a compaction, a branch and an export. The last one given counts.
"""

from typing import cast

from holdfast.core.contract import Message
from holdfast.core.messages import HOLDFAST_KEY, fenced, holdfast_data, storable

KEY = "system"
NAME = "session_instructions"
HEADING = (
    "The client of this conversation gave these instructions for it. Follow them in this conversation; the "
    "rules above hold all the same:"
)


def with_system(message: Message, text: str) -> Message:
    """The message, carrying a system text for its session; the same when there is none."""
    if not text.strip():
        return message
    part = {**holdfast_data(message), KEY: storable(text)}
    return cast("Message", {**message, HOLDFAST_KEY: part})


def system_of(message: Message) -> str | None:
    """The system text that a message carries; None when it carries none."""
    text = holdfast_data(message).get(KEY)
    return text if isinstance(text, str) and text.strip() else None


def combined(own: str, session: str) -> str:
    """Holdfast's own system text and, set apart, the session's."""
    return f"{own}\n\n{HEADING}\n{fenced(NAME, session)}".strip() if session else own
