"""Requests to all providers at once: each runs on the provider's own thread, all under one deadline.

A `ProviderRequest` is a request in progress. Its caller waits on a thread (`wait`) or on an event loop
(`answered`) and takes the answers that came in time. No shared thread is blocked meanwhile.
"""

from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from concurrent.futures import wait as wait_for_all
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from holdfast.core.contract import Message
from holdfast.core.error_text import error_text
from holdfast.core.errors import ProviderLate
from holdfast.core.events import RecalledFrom
from holdfast.memory.bounds import (
    NOTES_CHARACTERS,
    RESULT_CHARACTERS,
    BoundedText,
    bound_text,
    fit_schemas,
    share_budget,
    with_cut_note,
)
from holdfast.memory.contract import MemoryProvider
from holdfast.memory.delivery import accepts_argument
from holdfast.memory.provider_gate import GatedProvider
from holdfast.memory.provider_lanes import ProviderLanes
from holdfast.process import all_done

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ProviderRequest(Generic[T]):
    """A request to several providers that is in progress."""

    answers: Sequence["Future[Any]"]
    seconds: float
    collect: Callable[[], T]
    """Combines the answers that have come so far; never blocks."""

    def wait(self) -> T:
        """Block until all providers have answered or the deadline has passed."""
        wait_for_all(self.answers, self.seconds)
        return self.collect()

    async def answered(self) -> T:
        """Wait on the event loop until all providers have answered or the deadline has passed."""
        await all_done(self.answers, self.seconds)
        return self.collect()


@dataclass(frozen=True, slots=True)
class PromptBlocks:
    """The text that providers add to the system prompt, and notes about providers that are late."""

    text: str = ""
    notes: tuple[str, ...] = ()
    is_late: bool = False
    """Whether a provider has not answered yet; asked again, there may be more."""


@dataclass(frozen=True, slots=True)
class OfferedTools:
    """The tools of the providers, and notes about those that are late or left out."""

    functions: tuple[dict[str, Any], ...] = ()
    notes: tuple[str, ...] = ()
    is_late: bool = False
    """Whether a provider has not answered yet; asked again, there may be more."""


def late_message(name: str, seconds: float) -> str:
    """The message to the user about a late provider."""
    return f"{name} did not answer in {seconds:g} s; going on without it"


def ask_recall(
    lanes: Collection[ProviderLanes], scope: str, query: str, session_id: str, seconds: float, tokens: int
) -> ProviderRequest[tuple[RecalledFrom, ...]]:
    """Recall memories for the query from each provider, within one token budget."""
    asked = [(each, each.recalls.ask(query, session_id, seconds, scope)) for each in lanes]

    def collect() -> tuple[RecalledFrom, ...]:
        found = [(each.name, *_recalled(each, answer, session_id)) for each, answer in asked]
        shares = share_budget({name: text for name, _, text in found}, tokens)
        return tuple(
            RecalledFrom(name, outcome, shares[name].text, shares[name].cut, text.note)
            for name, outcome, text in found
        )

    return ProviderRequest([answer for _, answer in asked if answer is not None], seconds, collect)


def ask_blocks(
    lanes: Collection[ProviderLanes], scope: str, seconds: float, tokens: int
) -> ProviderRequest[PromptBlocks]:
    """Get each provider's part of the system prompt, within one token budget."""
    blocks = {each.name: each.about(scope).block for each in lanes}
    asked = {name: block.ask(seconds) for name, block in blocks.items()}

    def collect() -> PromptBlocks:
        answered = {name: blocks[name].latest(answer) for name, answer in asked.items()}
        shares = share_budget({name: text for name, (text, _) in answered.items()}, tokens)
        notes = [
            late_message(name, seconds) for name, (text, late) in answered.items() if late and not text.text
        ]
        texts = [text.text for text in shares.values() if text.text]
        return PromptBlocks("\n\n".join(texts), tuple(notes), any(late for _, late in answered.values()))

    return ProviderRequest(list(asked.values()), seconds, collect)


def ask_schemas(
    lanes: Collection[ProviderLanes], scope: str, seconds: float, tokens: int
) -> ProviderRequest[OfferedTools]:
    """Get the tools of the providers, within one token budget."""
    schemas = {each.name: each.about(scope).schemas for each in lanes}
    asked = {name: each.ask(seconds) for name, each in schemas.items()}

    def collect() -> OfferedTools:
        answered = {name: schemas[name].latest(answer) for name, answer in asked.items()}
        fitting = fit_schemas({name: offered for name, (offered, _) in answered.items()}, tokens)
        notes = [
            late_message(name, seconds)
            for name, (offered, late) in answered.items()
            if late and not offered.functions
        ]
        for name, offered in fitting.items():
            notes += [f"{name}'s tools are used without {left_out}" for left_out in offered.left_out]
        functions = [function for offered in fitting.values() for function in offered.functions]
        return OfferedTools(tuple(functions), tuple(notes), any(late for _, late in answered.values()))

    return ProviderRequest(list(asked.values()), seconds, collect)


def ask_notes(
    lanes: Collection[ProviderLanes],
    scope: str,
    session_id: str,
    messages: Sequence[Message],
    seconds: float,
    tokens: int,
) -> ProviderRequest[str]:
    """Get the notes that a summary of these messages should keep. Do not change the messages afterwards."""

    def notes(provider: MemoryProvider) -> BoundedText:
        answered = provider.on_pre_compress(deepcopy(list(messages)))
        return bound_text(answered or "", NOTES_CHARACTERS, "on_pre_compress")

    calls = {
        each.name: each.hook(scope, session_id, "on_pre_compress", notes)
        for each in lanes
        if each.writes.late_call is None
    }

    def collect() -> str:
        answered = {name: _result(each) or BoundedText("") for name, each in calls.items()}
        for each in calls.values():
            each.cancel()  # an answer after the deadline is of no use
        return "\n\n".join(text.text for text in share_budget(answered, tokens).values() if text.text)

    return ProviderRequest(list(calls.values()), seconds, collect)


def ask_session_end(
    lanes: Collection[ProviderLanes], scope: str, session_id: str, messages: Sequence[Message], seconds: float
) -> ProviderRequest[dict[str, str]]:
    """Let every provider extract from these messages; returns the error of each provider that failed.

    Do not change the messages afterwards. A lane that is stuck already is not waited for: the turns stay
    uncommitted, and the next boundary includes them again.
    """

    def end(provider: MemoryProvider) -> None:
        named: Any = (
            {"session_id": session_id} if accepts_argument(provider.on_session_end, "session_id") else {}
        )
        provider.on_session_end(deepcopy(list(messages)), **named)

    stuck = {each.name: why for each in lanes if (why := each.writes.late_call)}
    calls = {
        each.name: each.hook(scope, session_id, "on_session_end", end)
        for each in lanes
        if each.name not in stuck
    }

    def collect() -> dict[str, str]:
        failures = {name: problem for name, call in calls.items() if (problem := _problem(call))}
        for call in calls.values():
            call.cancel()  # the next boundary calls it again, so a late call would run twice
        return stuck | failures

    return ProviderRequest(list(calls.values()), seconds, collect)


def _problem(call: "Future[Any]") -> str | None:
    if not call.done() or call.cancelled():
        return "it did not answer in time"
    error = call.exception()
    return None if error is None else error_text(error)


def ask_tool(
    lanes: ProviderLanes, scope: str, tool_name: str, args: dict[str, Any], seconds: float
) -> ProviderRequest[str]:
    """Run a tool of a provider. `collect` raises the tool's error, or `ProviderLate`."""
    call = partial(_tool_result, lanes.gated, scope, tool_name, args)
    answer = lanes.recalls.call(f"the tool {tool_name}", call, seconds)

    def collect() -> str:
        if not answer.done():
            answer.cancel()
            raise ProviderLate(lanes.name, tool_name, seconds)
        return str(answer.result())

    return ProviderRequest([answer], seconds, collect)


def _tool_result(gated: GatedProvider, scope: str, tool_name: str, args: dict[str, Any]) -> str:
    result = str(gated.of(scope).handle_tool_call(tool_name, args))
    return with_cut_note(bound_text(result, RESULT_CHARACTERS, tool_name))


def _recalled(lanes: ProviderLanes, answer: "Future[Any] | None", session_id: str) -> tuple[str, BoundedText]:
    answered = _result(answer)
    if answered is not None and (answered.text or answered.note):
        return "answered", answered
    late = lanes.recalls.late_answer(session_id)
    if late.text:
        return "late", late
    if answer is None or not answer.done() or answer.cancelled():
        return "missed", BoundedText("")
    return "answered" if answer.exception() is None else "failed", BoundedText("")


def _result(answer: "Future[Any] | None") -> Any:  # noqa: ANN401 - any result
    if answer is None or not answer.done() or answer.cancelled() or answer.exception() is not None:
        return None
    return answer.result()
