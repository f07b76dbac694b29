"""Checks a person's message before it is stored: once, and off the event loop when it is large."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast

from holdfast.agent.client_request import as_models_read, beside_results, results_of, with_beside
from holdfast.core.content import Checked, check_fits, check_message, check_parts, is_large
from holdfast.core.contract import Message
from holdfast.core.errors import InvalidInput, MessageInvalid
from holdfast.core.messages import holdfast_data
from holdfast.host.attachments import with_attachments
from holdfast.host.store_calls import StoreCalls
from holdfast.models.contract import ModelTraits


async def user_message(text: str | Message | Checked, model: ModelTraits | None, call: StoreCalls) -> Checked:
    """A person's text as a message; refused when it can't be one, or can't fit the model's window."""
    checked = text if isinstance(text, Checked) else None
    if checked is None:
        given = {"role": "user", "content": text} if isinstance(text, str) else cast("Message", text)
        checked = Checked(await _checked(given, call))
    message = checked.message
    if message["role"] != "user":
        raise InvalidInput(f"a message is a user's, not of the role {message['role']!r:.40}")
    if model is not None:
        fits = partial(check_fits, model=model.name, window=model.context_window)
        await _off_loop_if_large(call, fits, as_models_read(message))
    return checked


async def _checked(given: Message, call: StoreCalls) -> Message:
    """The message with its files as parts; also what a client's user says beside results of its tools."""
    message = await with_attachments(given, call)
    await _off_loop_if_large(call, check_message, message)
    if holdfast_data(message) and results_of(message):
        beside = beside_results(message)
        if beside.get("content"):
            beside = await with_attachments(beside, call)
            await _off_loop_if_large(call, check_message, beside)
            message = with_beside(message, cast("list[dict[str, Any]]", beside["content"]))
    return message


async def checked_history(history: Sequence[Message | Checked], call: StoreCalls) -> list[Checked]:
    """Earlier messages from elsewhere; raises `MessageInvalid` with the number of the one at fault."""
    checked: list[Checked] = []
    for number, message in enumerate(history, 1):
        if isinstance(message, Checked):
            checked.append(message)
            continue
        try:
            await _off_loop_if_large(call, check_parts, message)
        except MessageInvalid as refused:
            raise MessageInvalid(f"message {number} of the history: {refused.problem}") from None
        checked.append(Checked(message))
    return checked


async def _off_loop_if_large(call: StoreCalls, check: Callable[[Message], None], message: Message) -> None:
    if is_large(message):
        await call(check, message)
    else:
        check(message)
