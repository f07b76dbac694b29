"""What a post says: the ledger's data as Markdown for people, with its buttons.

Every sentence that the gateway itself says in a chat stands here.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.gateway.contract import Button, Outgoing
from holdfast.sessions.chat_posts import ChatPost

DECISIONS = {"yes": "Allow once", "always": "Always allow", "no": "Deny"}
PLACEHOLDER = "…"
STOPPED = "Stopped."
NO_TEXT = "(no text)"
ASK_PREFIX = "ask"
PRESSED = re.compile(rf"{ASK_PREFIX}:([0-9]{{1,18}}):([0-9]{{1,3}})")
"""A value may be forged: no number is larger than the store takes."""


@dataclass(frozen=True, slots=True)
class PostContent:
    """A post before it is cut into messages."""

    text: str
    buttons: tuple[Button, ...] = ()
    file: str = ""


def content_of(post: ChatPost, *, has_buttons: bool) -> PostContent:
    """What is shown for a post."""
    body = post.body
    if post.kind == "answer":
        return PostContent(answer_text(body))
    if post.kind == "ask":
        return _ask(post.id, body, has_buttons=has_buttons)
    return PostContent(str(body.get("text", "")), file=str(body.get("file", "")))


def answer_text(body: Mapping[str, Any]) -> str:
    """The end of a turn, as its chat reads it."""
    text = str(body.get("text") or "").strip()
    outcome = body.get("outcome")
    if outcome == "completed":
        return text or NO_TEXT
    if outcome == "interrupted":
        return f"{text}\n\n_{STOPPED}_" if text else f"_{STOPPED}_"
    reason = str(body.get("reason") or "an error").rstrip(".")
    said = f"⚠️ I could not finish this: {reason}. Your message is kept; /retry tries it again."
    return f"{text}\n\n{said}" if text else said


def _ask(post_id: int, body: Mapping[str, Any], *, has_buttons: bool) -> PostContent:
    options = ask_options(body)
    if has_buttons and options:
        buttons = [
            Button(DECISIONS.get(each, each)[:60], press_value(post_id, number))
            for number, each in enumerate(options)
        ]
        return PostContent(_question(body), tuple(buttons))
    return PostContent(f"{_question(body)}\n\n{_how_to_answer(body, options)}")


def ask_options(body: Mapping[str, Any]) -> Sequence[str]:
    """The answers that a question offers; none when it takes any text."""
    return [str(each) for each in body.get("decisions") or body.get("choices") or ()]


def press_value(post_id: int, option: int) -> str:
    return f"{ASK_PREFIX}:{post_id}:{option}"


def pressed(value: str) -> tuple[int, int] | None:
    """The post and the option that a button stands for; None for another button."""
    found = PRESSED.fullmatch(value)
    return None if found is None else (int(found[1]), int(found[2]))


def _question(body: Mapping[str, Any]) -> str:
    if "question" in body:
        return str(body["question"])
    subject, reason = str(body.get("subject", "")), str(body.get("reason", ""))
    mark = "⚠️ " if body.get("destructive") else ""
    asked = f"{mark}May I do this?\n\n{_fenced(subject)}"
    return f"{asked}\n\n{reason}" if reason else asked


def _fenced(text: str) -> str:
    longest = max((len(run) for run in _runs(text, "`")), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}\n{fence}"


def _runs(text: str, char: str) -> list[str]:
    return [run for run in "".join(each if each == char else " " for each in text).split() if run]


def _how_to_answer(body: Mapping[str, Any], options: Sequence[str]) -> str:
    if "question" not in body:
        return "Answer /approve or /deny (or yes, no)."
    if options:
        return "Answer with one of: " + ", ".join(options)
    return "Your next message is the answer."


def part_body(text: str, buttons: Sequence[Button] = (), file: str = "") -> dict[str, Any]:
    """One message of a post, as the store keeps it."""
    return {"text": text, "buttons": [[each.label, each.value] for each in buttons], "file": file}


def to_outgoing(body: Mapping[str, Any]) -> Outgoing:
    """The message that the platform gets."""
    buttons = tuple(Button(label, value) for label, value in body.get("buttons") or ())
    file = str(body.get("file") or "")
    return Outgoing(str(body.get("text", "")), buttons, Path(file) if file else None)
