"""A person's look into a provider's memory: what it finds, and forgetting something of it.

A provider that is not `Browsable` is asked as a turn would ask it, and answers with one text.
"""

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TypeVar

from holdfast.core.errors import HoldfastError, InvalidInput, MemoryClosed, ProviderUnavailable
from holdfast.memory.contract import Browsable, MemoryProvider
from holdfast.memory.recall_lane import RecallLane

T = TypeVar("T")

logger = logging.getLogger(__name__)

LONGEST_ID = 18
"""Digits; what has more is no number of any database."""


@dataclass(frozen=True, slots=True)
class Found:
    """Something that a provider remembers; without an id it can't be named to be forgotten."""

    provider: str
    id: str | None
    text: str
    kind: str = ""
    session_id: str = ""
    turn_id: str | None = None
    speaker: str = ""
    created: float | None = None
    """In seconds since the epoch."""


@dataclass(frozen=True, slots=True)
class Searched:
    """What was found, and why the providers that are named did not answer."""

    found: tuple[Found, ...]
    failed: Mapping[str, str]


def asked(lane: RecallLane, call: Callable[[], T], timeout: float) -> "Future[T]":
    """Ask a provider for a person; why it can't be asked is its answer."""
    try:
        return lane.call(call, timeout)
    except HoldfastError as error:
        refused: Future[T] = Future()
        refused.set_exception(error)
        return refused


def gathered(answers: Mapping[str, "Future[list[Found]]"]) -> Searched:
    """What the providers answered; what the first one raised when none of them did."""
    found: list[Found] = []
    failed: dict[str, HoldfastError] = {}
    for name, answer in answers.items():
        try:
            its: list[Found] = outcome(name, answer)
        except HoldfastError as error:
            failed[name] = error
        else:
            found += its
    for why in failed.values():
        if len(failed) == len(answers):
            raise why
        logger.warning("memory.search_failed", exc_info=why)
    return Searched(tuple(found), {name: str(why) for name, why in failed.items()})


def outcome(name: str, answer: "Future[T]") -> T:
    """What a provider answered to a person; raises in words why it did not."""
    if not answer.done():
        answer.cancel()  # if it has not begun it never will
        raise ProviderUnavailable(name, problem="it did not answer in time")
    if answer.cancelled():
        raise MemoryClosed(name)
    error = answer.exception()
    if error is not None and not isinstance(error, HoldfastError):
        raise ProviderUnavailable(name, problem=f"{type(error).__name__}: {error}") from error
    return answer.result()


def search(provider: MemoryProvider, query: str, limit: int) -> list[Found]:
    """What the provider has on this, the best first."""
    if not isinstance(provider, Browsable):
        text = provider.prefetch(query)
        return [Found(provider.name, None, text)] if text else []
    return [
        Found(
            provider.name,
            str(each.id),
            each.text,
            each.kind,
            each.session_id,
            each.turn_id,
            each.speaker,
            each.when,
        )
        for each in provider.remembered(query, limit)
    ]


def forget(provider: MemoryProvider, memory_id: str) -> bool:
    """Remove something for good; False when there is nothing with that id."""
    if not isinstance(provider, Browsable):
        raise InvalidInput(f"{provider.name} can't forget single memories")
    if not memory_id.isdecimal() or len(memory_id) > LONGEST_ID:
        return False
    return provider.forget(int(memory_id))
