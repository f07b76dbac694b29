"""The last turn of a conversation that goes on, shown as it looked while it ran."""

from collections.abc import Iterator, Sequence
from typing import Any

from holdfast.cli.terminal.chat import Chat
from holdfast.core import events as ev
from holdfast.core.messages import holdfast_data, text_of
from holdfast.sessions.contract import StoredMessage

UNSHOWN = ("summary", "asked_again", "superseded")
"""What is on record beside what was said, or was said again."""


async def show_last_turn(chat: Chat, session_id: str) -> None:
    """Print the last turn that is on record."""
    stored = await chat.host.records.messages(session_id)
    shown = [each for each in stored if not any(holdfast_data(each.message).get(key) for key in UNSHOWN)]
    start = _last_turn(shown)
    earlier = sum(each.message["role"] in ("user", "assistant") for each in shown[:start])
    if earlier:
        chat.say(f"… {earlier} earlier messages", style="quiet")
    # A view of its own: the conversation may be answering in the other one.
    view = chat.new_view()
    for each in shown[start:]:
        if each.message["role"] == "user":
            view.close()
            view.print_user_message(text_of(each.message))
        for event in _events(each, {call_id: tool.name for call_id, tool in view.tools.items()}):
            view.show(event, await chat.changed_by(event, view))
    view.close()
    chat.say("")


def _last_turn(stored: Sequence[StoredMessage]) -> int:
    """Where the last turn begins; messages that joined it belong to it."""
    said = [number for number, each in enumerate(stored) if each.message["role"] == "user"]
    if not said:
        return 0
    turn_id = stored[said[-1]].turn_id
    return next((n for n in said if turn_id and stored[n].turn_id == turn_id), said[-1])


def _events(stored: StoredMessage, names: dict[str, str]) -> Iterator[ev.Event]:
    """What a message on record was when it happened; `names` are those of the calls without a result."""
    message: Any = stored.message
    own = holdfast_data(message)
    where: dict[str, Any] = {"session_id": stored.session_id, "turn_id": stored.turn_id or ""}
    if message["role"] == "assistant":
        if thought := own.get("reasoning"):
            yield ev.ReasoningDelta(**where, text=str(thought))
        if text := text_of(message):
            yield ev.TextDelta(**where, text=f"{text}\n")
        for call in message.get("tool_calls") or ():
            function = call["function"]
            yield ev.ToolStarted(
                **where,
                call_id=call["id"],
                name=function["name"],
                arguments=function.get("arguments") or "{}",
            )
    elif message["role"] == "tool":
        call_id = str(message.get("tool_call_id", ""))
        yield ev.ToolFinished(
            **where,
            call_id=call_id,
            name=names.get(call_id, "tool"),
            ok=own.get("failed") is not True,
            output=text_of(message),
        )
