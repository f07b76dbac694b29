"""`Transcript`: the conversation as models see it, valid at every moment.

Both model APIs demand that every tool call is followed by its result and that the roles take turns. Each
message is folded in as it is stored, so the list never breaks these rules, whatever is missing: a call
gets a placeholder result that says honestly that none is on record, and the real one takes its place.
After a crash the same fold over the stored messages yields the same valid list.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any, cast

from holdfast.agent.client_request import beside_results, results_of
from holdfast.agent.message_repair import AGAIN, repaired
from holdfast.agent.refused_content import omission_of
from holdfast.agent.system_text import system_of
from holdfast.core.contract import Message, ToolCall
from holdfast.core.messages import HOLDFAST_KEY, holdfast_data, text_of
from holdfast.models.contract import Usage

NO_RESULT = (
    "No result is on record: the call was cut off by a crash. It may have taken effect in part or in whole; "
    "look before doing it again."
)
NO_WORD_OF_CLIENT = "No result is on record: the client that was to run this call went on without giving one."
HANDED_OVER = "handed_over"
NOTHING_SAID = "(no answer)"
NO_WORDS = "(a message without words)"
NO_OUTPUT = "(no output)"
BYTES_PER_TOKEN = 4
MESSAGE_TOKENS = 4
PICTURE_TOKENS = 1_600
"""What a picture takes of a window, however many bytes its file has."""
PICTURES = ("image_url", "image", "input_image")


class Transcript:
    """A valid list of messages with a running estimate of its tokens; adding costs the same at any length."""

    def __init__(self, messages: Iterable[Message] = ()) -> None:
        self.messages: list[Message] = []
        self._open: dict[str, tuple[int, ToolCall]] = {}  # calls without a result, and their places
        self._answered: set[str] = set()  # ids of the last batch that have their result
        self.begin_anew(messages)

    def begin_anew(self, messages: Iterable[Message]) -> None:
        """Forget all and fold in these messages, as stored."""
        self.messages.clear()
        self._open.clear()
        self._answered.clear()
        self.system = ""
        """The system text that the session's client gave last."""
        self._estimate = self._counted = self._counted_at = 0
        for message in messages:
            self.add(message)

    @property
    def tokens(self) -> int:
        """What the conversation takes: counted by the model up to its last answer, estimated from there."""
        return self._counted + self._estimate - self._counted_at

    @property
    def counted_tokens(self) -> int:
        """The same when a model has counted it, with all that it was sent; else 0."""
        return self.tokens if self._counted else 0

    @property
    def unanswered(self) -> list[ToolCall]:
        """The calls that have no result yet, in order."""
        return [call for _, call in self._open.values()]

    def replace_all(self, messages: Sequence[Message]) -> None:
        """Put these in the places of the messages; there are as many."""
        self._estimate += estimate_all(messages) - estimate_all(self.messages)
        self.messages[:] = messages

    def counted(self, usage: Usage) -> None:
        """Take the model's own count of what it was sent, which is all that is here now; 0 is none."""
        if usage.input > 0:
            self._counted = usage.input
            self._counted_at = self._estimate

    def add(self, message: Message) -> None:
        """Fold in the next stored message."""
        if (omission := omission_of(message)) is not None:
            # Models see a short text in the place of what is left out.
            self.replace_all(omission.applied(self.messages))
        if superseded(message):
            return
        self.system = system_of(message) or self.system
        for result in results_of(message):
            self._add_result(repaired(result))
        if results_of(message):
            message = beside_results(message)
            if not message["content"]:
                return
        message = repaired(message)
        role = message["role"]
        if role == "tool":
            self._add_result(message)
        elif role == "assistant":
            self._add_assistant(message)
        else:
            self._add_user(message if role == "user" else {**message, "role": "user"})

    def _add_user(self, message: Message) -> None:
        self._open.clear()
        self._append(message if message.get("content") else {**message, "content": NO_WORDS})

    def _add_assistant(self, message: Message) -> None:
        self._open.clear()
        self._answered.clear()
        calls = message.get("tool_calls") or []
        if not calls and not message.get("content"):
            message = {**message, "content": NOTHING_SAID}
        if not self.messages:
            # Both APIs want a person to begin.
            self._append({"role": "user", "content": "(the conversation goes on)"})
        self._append(message)
        missing = NO_WORD_OF_CLIENT if holdfast_data(message).get(HANDED_OVER) else NO_RESULT
        for call in calls:
            self._open[call["id"]] = (len(self.messages), call)
            self._push({"role": "tool", "tool_call_id": call["id"], "content": missing})

    def _add_result(self, message: Message) -> None:
        call_id = str(message.get("tool_call_id") or "")
        while call_id in self._answered and call_id + AGAIN in self._open:
            call_id += AGAIN
        if call_id != message.get("tool_call_id") or not message.get("content"):
            message = {**message, "tool_call_id": call_id, "content": message.get("content") or NO_OUTPUT}
        place = self._open.pop(call_id, None)
        if place is not None:
            self._answered.add(call_id)
            self._replace(place[0], message)
        elif call_id not in self._answered:
            # Nothing is discarded silently: a result without its call is still said.
            self._add_user({"role": "user", "content": f"[a tool's result] {text_of(message)}"})

    def _append(self, message: Message) -> None:
        """Add a message, joined to the one before when the same side speaks twice."""
        last = self.messages[-1] if self.messages else None
        if last is not None and last["role"] == message["role"]:
            self._replace(len(self.messages) - 1, joined(last, message))
        else:
            self._push(message)

    def _push(self, message: Message) -> None:
        self.messages.append(message)
        self._estimate += estimate(message)

    def _replace(self, place: int, message: Message) -> None:
        self._estimate += estimate(message) - estimate(self.messages[place])
        self.messages[place] = message


def for_client(message: Message) -> Message:
    """The message, marked: its calls are the client's to run."""
    return cast("Message", {**message, HOLDFAST_KEY: {**holdfast_data(message), HANDED_OVER: True}})


def superseded(message: Message) -> bool:
    """Whether a later attempt took this message's place; it stays on record for people."""
    return bool(holdfast_data(message).get("superseded"))


def joined(first: Message, second: Message) -> Message:
    """Two messages of one side as one."""
    one, two = first.get("content") or "", second.get("content") or ""
    content: str | list[dict[str, Any]]
    if isinstance(one, str) and isinstance(two, str):
        content = "\n\n".join(text for text in (one, two) if text)
    else:
        content = [*_blocks(one), *_blocks(two)]
    return {**first, **second, "content": content}


def _blocks(content: str | list[dict[str, Any]]) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return content


def has_pictures(message: Message) -> bool:
    content: Any = message.get("content")
    return isinstance(content, list) and any(
        isinstance(block, dict) and block.get("type") in PICTURES for block in content
    )


def estimate(message: Message) -> int:
    """About how many tokens a message takes, for what no model has counted yet."""
    content = message.get("content") or ""
    size = sum(map(_size, content)) if isinstance(content, list) else _size(content)
    for call in message.get("tool_calls") or ():
        size += len(call["function"]["name"]) + len(call["function"]["arguments"].encode(errors="replace"))
    return MESSAGE_TOKENS + size // BYTES_PER_TOKEN


def _size(content: object) -> int:
    """The bytes that count, of a text or of one block of a message."""
    if isinstance(content, dict):
        if content.get("type") in PICTURES:
            return PICTURE_TOKENS * BYTES_PER_TOKEN
        content = content.get("text") if isinstance(content.get("text"), str) else content
    text = content if isinstance(content, str) else json.dumps(content)
    return len(text.encode(errors="replace"))


def estimate_all(messages: Sequence[Message]) -> int:
    return sum(map(estimate, messages))
