"""What is on record of a conversation, as the updates that an editor gets when it loads one."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from acp import schema, update_agent_message_text, update_agent_thought_text, update_user_message_text
from acp.helpers import image_block, update_user_message

from holdfast.acp.tool_updates import TODO, ShownCall, call_id, parsed_arguments
from holdfast.acp.turn_updates import Update
from holdfast.core.messages import holdfast_data, storable, text_of
from holdfast.sessions.contract import StoredMessage

DATA_URL = "data:"
NO_RESULT = "No result is on record: the process died while it ran."


class Replay:
    """Shows each message once. Copies that a compaction made are left out."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._calls: dict[str, ShownCall] = {}
        self._open: dict[str, ShownCall] = {}

    def of(self, stored: Iterable[StoredMessage]) -> Iterator[Update]:
        for each in stored:
            if each.carried or holdfast_data(each.message).get("summary"):
                continue
            role = each.message["role"]
            if role == "user":
                yield from _user(each)
            elif role == "assistant":
                yield from self._assistant(each)
            elif role == "tool":
                yield from self._result(each)

    def left_open(self) -> Iterator[Update]:
        """The calls that have no result, for a turn that was cut off."""
        for call in self._open.values():
            yield call.finish(ok=False, output=NO_RESULT)

    def _assistant(self, stored: StoredMessage) -> Iterator[Update]:
        message: Any = stored.message
        reasoning = holdfast_data(message).get("reasoning")
        if isinstance(reasoning, str) and reasoning:
            yield update_agent_thought_text(storable(reasoning))
        if text := text_of(message):
            yield update_agent_message_text(storable(text))
        for given in message.get("tool_calls") or ():
            called = given.get("function") or {}
            made = call_id(stored.turn_id, str(given.get("id", "")))
            arguments = called.get("arguments")
            call = ShownCall(
                made,
                str(called.get("name", "")),
                parsed_arguments(arguments if isinstance(arguments, str) else ""),
                self._folder,
            )
            self._calls[made] = call
            if call.name != TODO:
                self._open[made] = call
                yield call.start("pending")

    def _result(self, stored: StoredMessage) -> Iterator[Update]:
        message: Any = stored.message
        made = call_id(stored.turn_id, str(message.get("tool_call_id", "")))
        call = self._calls.get(made)
        if call is None:
            return
        self._open.pop(made, None)
        ok = holdfast_data(message).get("failed") is not True
        if call.name == TODO:
            if ok and (plan := call.plan()) is not None:
                yield plan
            return
        yield call.finish(ok=ok, output=text_of(message))


def _user(stored: StoredMessage) -> Iterator[schema.UserMessageChunk]:
    if text := text_of(stored.message):
        yield update_user_message_text(storable(text))
    content: Any = stored.message.get("content")
    for part in content if isinstance(content, list) else ():
        url = part.get("image_url", {}).get("url", "") if isinstance(part, dict) else ""
        if isinstance(url, str) and url.startswith(DATA_URL) and ";base64," in url:
            kind, _, data = url.removeprefix(DATA_URL).partition(";base64,")
            yield update_user_message(image_block(data, kind))
