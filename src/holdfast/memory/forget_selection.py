"""Resolves what a person wants to forget into turns and ids of memories, which are shown before they go."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import wait as wait_for_all
from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta, tzinfo
from functools import partial
from typing import Any

from holdfast.core.contract import Clock
from holdfast.core.errors import InvalidInput, ProviderUnavailable, SessionNotFound
from holdfast.memory import browse
from holdfast.memory.browse import FoundMemory
from holdfast.memory.contract import Browsable
from holdfast.memory.forgetting import FindsMemories
from holdfast.memory.provider_lanes import ProviderLanes
from holdfast.process import ShutdownBudget
from holdfast.sessions import SessionDB
from holdfast.sessions.forgettings import ForgettingKind, TurnRef

MAX_BY_WORDS = 100
SECONDS = 10.0
NOT_PERSONS = ("assistant", "note")


@dataclass(frozen=True, slots=True)
class ForgetSelection:
    """What would be forgotten."""

    kind: ForgettingKind
    turns: tuple[TurnRef, ...] = ()
    memories: tuple[FoundMemory, ...] = ()
    """The single memories, when they were selected one by one."""
    period: tuple[float, float] | None = None
    """Notes and facts that were made in it go too."""
    not_searched: Mapping[str, str] = field(default_factory=dict)
    """Why a provider could not be searched, by its name."""

    @property
    def is_empty(self) -> bool:
        return not self.turns and not self.memories and self.period is None

    def memory_ids(self) -> dict[str, list[str]]:
        """The ids of the single memories, by provider."""
        ids: dict[str, list[str]] = {}
        for each in self.memories:
            if each.id is not None:
                ids.setdefault(each.provider, []).append(each.id)
        return ids


@dataclass(frozen=True, slots=True)
class ForgetQuery:
    """What a person asks to forget: exactly one of words, memories, a period, a conversation, a person."""

    words: str = ""
    memories: tuple[tuple[str, str], ...] = ()
    """Single memories, each by its provider (empty: the first that can be searched) and its id."""
    after: float | None = None
    before: float | None = None
    session_id: str = ""
    person: str = ""
    provider: str = ""
    """With words: search only this provider."""


class ForgetSelector:
    """Makes selections from the store and from what the providers have. Its calls block."""

    def __init__(self, store: SessionDB, lanes: Mapping[str, ProviderLanes], clock: Clock) -> None:
        self._store = store
        self._lanes = lanes
        self._clock = clock

    def of(self, query: ForgetQuery) -> ForgetSelection:
        """The selection for a query; raises `InvalidInput` unless it asks for exactly one thing."""
        ways: list[tuple[bool, Callable[[], ForgetSelection]]] = [
            (bool(query.words), lambda: self.by_words(query.words, provider=query.provider)),
            (bool(query.memories), lambda: self.by_ids(query.memories)),
            (
                query.after is not None or query.before is not None,
                lambda: self.by_time(query.after, query.before),
            ),
            (bool(query.session_id), lambda: self.by_conversation(query.session_id)),
            (bool(query.person), lambda: self.by_person(query.person)),
        ]
        asked = [way for given, way in ways if given]
        if len(asked) != 1:
            raise InvalidInput(
                "say what to forget in one way: by words, by memories, by time, by conversation or by person"
            )
        return asked[0]()

    def by_words(self, words: str, *, provider: str = "") -> ForgetSelection:
        """The memories that have all of the words, from one provider or from all that can be searched."""
        wanted = words.casefold().split()
        if not wanted:
            raise InvalidInput("forgetting by words needs at least one word")
        behind = {name: why for name in self._lanes if (why := self._behind(name))}
        searched = self._ask(provider, "a search", lambda each: browse.search(each, words, MAX_BY_WORDS))
        found = [
            each
            for each in searched.found
            if each.id is not None and all(word in each.text.casefold() for word in wanted)
        ]
        return self._of_memories("words", found, {**behind, **searched.failed})

    def by_ids(self, ids: Sequence[tuple[str, str]]) -> ForgetSelection:
        """Single memories, each named by its provider and its id."""
        found: list[FoundMemory] = []
        for wanted, memory_id in ids:
            provider = wanted or self._first_browsable()
            known = self._ask(provider, "a search", partial(_with_id, provider, memory_id)).found
            if not known:
                raise InvalidInput(f"the {provider} memory has nothing with the number {memory_id}")
            found += known
        return self._of_memories("memories", found, {})

    def by_time(self, after: float | None, before: float | None) -> ForgetSelection:
        """All that was said or noted in a period, in seconds since the epoch; until now at the latest."""
        begin, end = after or 0.0, min(before or self._clock.now(), self._clock.now())
        if begin >= end:
            raise InvalidInput("the period is empty: it ends before it begins, or lies in the future")
        turns = self._store.forgettings.turns_between(begin, end)
        return ForgetSelection("time", tuple(turns), period=(begin, end))

    def by_conversation(self, session_id: str) -> ForgetSelection:
        """All that was said in a conversation so far, its subagents included."""
        if self._store.get_session(session_id) is None:
            raise SessionNotFound(session_id)
        return ForgetSelection("conversation", tuple(self._store.forgettings.turns_of(session_id)))

    def by_person(self, person: str) -> ForgetSelection:
        """All turns in which a person spoke: what the person said, with the answers to it."""
        name = " ".join(person.split()).casefold()
        if not name or name in NOT_PERSONS:
            raise InvalidInput(f"{person!r} is nobody whose words can be forgotten")
        turns: dict[TurnRef, None] = {}
        knowing = 0
        for lanes in self._lanes.values():
            if isinstance(lanes.provider, FindsMemories):
                knowing += 1
                if problem := self._behind(lanes.name):
                    raise ProviderUnavailable(lanes.name, problem=f"{problem}; nothing was forgotten")
                asked = lanes.recalls.call(
                    "turns_said_by", partial(lanes.provider.turns_said_by, name), SECONDS
                )
                wait_for_all([asked], SECONDS)
                turns |= dict.fromkeys(browse.result_of(lanes.name, asked))
        if not knowing:
            raise InvalidInput(
                "no memory in use knows who said what; forget by conversation or by time instead"
            )
        return ForgetSelection("person", tuple(turns))

    def _behind(self, provider: str) -> str:
        """Wait until a provider that is searched has all turns; else what it lacks."""
        lanes = self._lanes[provider]
        if not isinstance(lanes.provider, Browsable):
            return ""
        if lanes.wait_settled(lanes.fence(), ShutdownBudget(SECONDS, self._clock)):
            return ""
        return f"{lanes.read_backlog().owed} turns have not reached it yet"

    def _first_browsable(self) -> str:
        browsable = [each.name for each in self._lanes.values() if isinstance(each.provider, Browsable)]
        if not browsable:
            raise InvalidInput(
                "no memory that can be searched is in use; memory.providers names the providers"
            )
        return browsable[0]

    def _ask(
        self, provider: str, what: str, call: Callable[[Any], list[FoundMemory]]
    ) -> browse.MemorySearchResult:
        lanes = (
            self._named(provider)
            if provider
            else [each for each in self._lanes.values() if isinstance(each.provider, Browsable)]
        )
        if not lanes:
            raise InvalidInput("no memory that can be searched is in use")
        asked = {each.name: each.recalls.call(what, partial(call, each.provider), SECONDS) for each in lanes}
        wait_for_all(asked.values(), SECONDS)
        return browse.collect(asked)

    def _named(self, provider: str) -> list[ProviderLanes]:
        if provider not in self._lanes:
            known = ", ".join(self._lanes) or "none"
            raise InvalidInput(f"there is no memory provider {provider!r}; in use: {known}")
        return [self._lanes[provider]]

    def _of_memories(
        self, kind: ForgettingKind, found: Sequence[FoundMemory], failed: Mapping[str, str]
    ) -> ForgetSelection:
        turn_ids = dict.fromkeys(each.turn_id for each in found if each.turn_id)
        turns = self._store.forgettings.existing(turn_ids)
        return ForgetSelection(kind, tuple(turns), tuple(found), not_searched=failed)


def _with_id(name: str, memory_id: str, provider: object) -> list[FoundMemory]:
    if not isinstance(provider, Browsable):
        raise InvalidInput(f"{name} can't forget single memories")
    if not memory_id.isdecimal() or len(memory_id) > browse.MAX_ID_LENGTH:
        return []
    if not isinstance(provider, FindsMemories):
        return [FoundMemory(name, memory_id, "")]
    return [browse.found_memory(name, each) for each in provider.memories_with([int(memory_id)])]


def period_of(
    *, after: str = "", before: str = "", on: str = "", zone: tzinfo | None = None
) -> tuple[float | None, float | None]:
    """A period from days or moments in ISO format; `on` is one whole day. A day begins at midnight."""
    if on and (after or before):
        raise InvalidInput("a day and a period can't be combined; use one of them")
    if on:
        begin = _moment(on, zone)
        return begin.timestamp(), (begin + timedelta(days=1)).timestamp()
    ends = (_moment(each, zone).timestamp() if each else None for each in (after, before))
    return next(ends), next(ends)


def _moment(text: str, zone: tzinfo | None) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as cause:
        raise InvalidInput(f"{text!r} is no date; write it like 2025-01-31 or 2025-01-31T18:00") from cause
    if moment.tzinfo is not None:
        return moment
    local = zone or datetime.combine(moment.date(), time(12), UTC).astimezone().tzinfo
    return moment.replace(tzinfo=local)
