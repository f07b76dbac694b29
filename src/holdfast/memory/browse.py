"""Lets a person search the memory of a provider.

A provider that is not `Browsable` is searched with `prefetch`, as a turn does it, and returns one text.
"""

import logging
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TypeVar

from holdfast.core.error_text import error_text, error_words
from holdfast.core.errors import HoldfastError, MemoryClosed, ProviderUnavailable
from holdfast.memory.bounds import FOUND_CHARACTERS, MAX_FOUND, RECALL_CHARACTERS, bound_text, with_cut_note
from holdfast.memory.contract import Browsable, MemoryItem, MemoryProvider

T = TypeVar("T")

logger = logging.getLogger(__name__)

MAX_ID_LENGTH = 18
"""Digits of an id; no database has ids with more."""


@dataclass(frozen=True, slots=True)
class FoundMemory:
    """One memory of a provider. Without an id it can't be deleted."""

    provider: str
    id: str | None
    text: str
    kind: str = ""
    session_id: str = ""
    turn_id: str | None = None
    speaker: str = ""
    created: float | None = None
    """In seconds since the epoch."""
    shown: int = 0
    """How often it was recalled for a turn."""
    used: int = 0
    """How often an answer used it, as far as its words tell."""


@dataclass(frozen=True, slots=True)
class MemorySearchResult:
    """The memories that were found, and the error of each provider that failed, by its name."""

    found: tuple[FoundMemory, ...]
    failed: Mapping[str, str]


def collect(answers: Mapping[str, "Future[list[FoundMemory]]"]) -> MemorySearchResult:
    """Collect the answers of all providers; raises the first error when every provider failed."""
    found: list[FoundMemory] = []
    failed: dict[str, HoldfastError] = {}
    for name, answer in answers.items():
        try:
            hits: list[FoundMemory] = result_of(name, answer)
        except HoldfastError as error:
            failed[name] = error
        else:
            found += hits
    for why in failed.values():
        if len(failed) == len(answers):
            raise why
        logger.warning("memory.search_failed", exc_info=why)
    return MemorySearchResult(tuple(found), {name: error_words(why) for name, why in failed.items()})


def result_of(name: str, answer: "Future[T]") -> T:
    """The answer of a provider; raises an error that a person can read when there is none."""
    if not answer.done():
        answer.cancel()  # a call that has not started will not start any more
        raise ProviderUnavailable(name, problem="it did not answer in time")
    if answer.cancelled():
        raise MemoryClosed(name)
    error = answer.exception()
    if error is not None and not isinstance(error, HoldfastError):
        raise ProviderUnavailable(name, problem=error_text(error)) from error
    return answer.result()


def search(provider: MemoryProvider, query: str, limit: int) -> list[FoundMemory]:
    """Search the memory of one provider, best match first."""
    if not isinstance(provider, Browsable):
        text = with_cut_note(bound_text(provider.prefetch(query), RECALL_CHARACTERS, "prefetch"))
        return [FoundMemory(provider.name, None, text)] if text else []
    return [found_memory(provider.name, each) for each in provider.browse(query, limit)[:MAX_FOUND]]


def found_memory(provider: str, item: MemoryItem) -> FoundMemory:
    """A memory of a provider, bounded in size."""
    return FoundMemory(
        provider,
        str(item.id),
        with_cut_note(bound_text(item.text, FOUND_CHARACTERS, "browse")),
        item.kind,
        item.session_id,
        item.turn_id,
        item.speaker,
        item.when,
        item.shown,
        item.used,
    )
