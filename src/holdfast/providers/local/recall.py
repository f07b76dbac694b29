"""Hybrid recall: merges full-text and vector scores, and prefers what the speaker in question told.

Both searches give their best passages, and each of these gets both scores, scaled to the range 0 to 1. On top
comes what a passage is worth by itself: its speaker, how much it tells, and a time where one is asked for.
`make bench-recall` measures each part, and `docs/recall.md` has the numbers.
"""

import json
import logging
import re
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import nlargest
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from holdfast.providers.local.embedding import EmbeddingLate
from holdfast.providers.local.full_text import FullText, Position
from holdfast.providers.local.passages import ASSISTANT, MICRO, NOTE, USER, storable, without_author
from holdfast.providers.local.store import PassageStore
from holdfast.providers.local.substance import asks_for_time, dates_asked, substance, tells_time
from holdfast.providers.local.words import FIRST_PERSON, SECOND_PERSON, all_words, names_in

if TYPE_CHECKING:
    from holdfast.providers.local.embedding import Embedder
    from holdfast.providers.local.vectors import VectorIndex

logger = logging.getLogger(__name__)

SearchMode = Literal["hybrid", "text", "vectors"]

CANDIDATES = 100
ROLES = frozenset({USER, ASSISTANT, NOTE})
SHARE_OF_VECTORS = 0.6
SPEAKER_BONUS = 0.3
SUBSTANCE_BONUS = 0.3
TIME_BONUS = 0.2
DATE_BONUS = 0.2
# A passage without a word of the query, in itself or beside it, needs at least this similarity of its own.
MIN_SIMILARITY = 0.27
MAX_QUERY_LENGTH = 4000


@dataclass(frozen=True, slots=True)
class FoundPassage:
    """A passage found by a search."""

    id: int
    kind: Literal["turn", "note"]
    session_id: str
    turn_key: str | None
    turn_id: str | None
    speaker: str
    text: str
    created: float
    score: float
    position: Position
    is_hit: bool = False
    """Whether it fits the query itself, by a word or by its meaning; the others stand beside such a one."""


@dataclass(frozen=True, slots=True)
class RecallQuery:
    """A query with what it asks for."""

    text: str
    speakers: frozenset[str]
    wants_time: bool
    dates: list[frozenset[str]]
    """The months and the years that it names."""
    vector: Any
    session_id: str
    in_context: int
    """How many newest turns of the session the agent has in its context already."""
    mode: SearchMode
    scope: str | None
    """Whose memories are searched; None: all."""


class Candidates(NamedTuple):
    """The scores of both searches, by position."""

    text: dict[Position, float]
    vectors: dict[Position, float]


class PassageRow(NamedTuple):
    """A row of the query `passages_at`."""

    id: int
    position: Position
    kind: Literal["turn", "note"]
    session_id: str
    turn_key: str | None
    turn_id: str | None
    speaker: str
    text: str
    created: int
    day: str

    def found(self, score: float, *, is_hit: bool = False) -> FoundPassage:
        return FoundPassage(
            self.id,
            self.kind,
            self.session_id,
            self.turn_key,
            self.turn_id,
            self.speaker,
            self.text,
            self.created / MICRO,
            score,
            self.position,
            is_hit,
        )


class HybridRecall:
    """Searches passages; without an embedder, by full text only."""

    def __init__(self, store: PassageStore, embedder: "Embedder | None", index: "VectorIndex | None") -> None:
        self._store = store
        self._embedder = embedder
        self._index = index
        self._queries = store.queries
        self._had_passages = False

    def search(
        self,
        query: str,
        limit: int,
        *,
        session_id: str = "",
        in_context: int = 0,
        mode: SearchMode = "hybrid",
        scope: str | None,
    ) -> list[FoundPassage]:
        """The best passages first, without turns of this session with the same question or in its context."""
        asked = storable(query[:MAX_QUERY_LENGTH])
        if not asked or limit <= 0:
            return []
        if not self.has_passages():
            return []  # without embedding the query, because there is nothing to find
        named = self._store.read(lambda connection: self._named(connection, asked))
        vector = None if mode == "text" else self._vector(without_names(asked, named - ROLES))
        question = RecallQuery(
            asked,
            named | speakers_meant(asked),
            asks_for_time(asked),
            dates_asked(asked),
            vector,
            storable(session_id),
            in_context,
            mode,
            scope,
        )
        return self._store.read(lambda connection: self._search(connection, question, limit))

    def has_passages(self) -> bool:
        """Whether there may be something to find. Once there was, the file is not asked again."""
        if not self._had_passages:
            self._had_passages = bool(self._store.read(self._queries.has_passages))
        return self._had_passages

    def warm_up(self) -> None:
        """Load the model and the vectors, so that the first query doesn't wait for them."""
        if self._index is not None:
            self._vector("warm")

    def at_positions(self, positions: Iterable[Position], scope: str | None) -> list[FoundPassage]:
        """The passages of a scope at these positions."""
        rows = self._store.read(lambda connection: self._rows_at(connection, positions, scope))
        return [row.found(0.0) for row in rows]

    def _search(
        self, connection: sqlite3.Connection, question: RecallQuery, limit: int
    ) -> list[FoundPassage]:
        full_text, text = FullText(connection, self._queries), {}
        if question.mode != "vectors":
            text = full_text.scores(question.text, question.scope)
        vectors = self._near(connection, question, _best(text))
        near = {position for position, similarity in vectors.items() if similarity >= MIN_SIMILARITY}
        found, hits = merge(Candidates(text, vectors)), full_text.hits | near
        rows = self._rows_at(connection, found, question.scope)
        known = self._known_turns(connection, question, rows)
        rows = [row for row in rows if row.turn_key is None or row.turn_key not in known]
        scored = [
            (found[row.position] + bonus(question, row.speaker, row.text, row.day), row)
            for row in within_reach(question, rows, found, limit)
        ]
        scored.sort(key=lambda each: (each[0], each[1].created, each[1].id), reverse=True)
        return [row.found(score, is_hit=row.position in hits) for score, row in scored[:limit]]

    def _known_turns(
        self, connection: sqlite3.Connection, question: RecallQuery, rows: Sequence[PassageRow]
    ) -> set[str]:
        """The turns of these rows that would tell the session nothing new."""
        own = {row.turn_key for row in rows if row.session_id == question.session_id and row.turn_key}
        if not own:
            return set()
        asked = self._queries.asked_turns(connection, turn_keys=json.dumps(list(own)), text=question.text)
        known = {row[0] for row in asked}
        if not question.session_id:
            return known
        recent: set[str] = set()
        # Read row by row from the newest: a turn has one row for each passage.
        for (turn_key,) in self._queries.newest_turn_keys(connection, session_id=question.session_id):
            recent.add(turn_key)
            if len(recent) > question.in_context:
                recent.discard(turn_key)
                break
        return known | recent

    def _vector(self, query: str) -> Any:  # noqa: ANN401 - numpy may not be installed
        if self._embedder is None or self._index is None:
            return None
        try:
            self._index.refresh()
            return self._embedder.embed([query])[0]
        except EmbeddingLate:
            return None
        except Exception:
            # Full text works without the embedder, which may raise anything.
            logger.exception("memory.embedding_failed", extra={"model": self._embedder.model})
            return None

    def _near(
        self, connection: sqlite3.Connection, question: RecallQuery, also: list[Position]
    ) -> dict[Position, float]:
        if question.vector is None or self._index is None:
            return {}
        return self._index.nearest(
            connection, question.vector, CANDIDATES, also, least=MIN_SIMILARITY, scope=question.scope
        )

    def _named(self, connection: sqlite3.Connection, query: str) -> frozenset[str]:
        """The speakers that the query names."""
        names = json.dumps(names_in(query))
        return frozenset(row[0] for row in self._queries.known_speakers(connection, names=names))

    def _rows_at(
        self, connection: sqlite3.Connection, positions: Iterable[Position], scope: str | None
    ) -> list[PassageRow]:
        bound = {"positions": json.dumps(list(positions)), "scope": scope}
        rows = connection.execute(self._queries.passages_at.sql, bound).fetchall()
        return [PassageRow._make(row) for row in rows]


def within_reach(
    question: RecallQuery, rows: Sequence[PassageRow], found: dict[Position, float], limit: int
) -> list[PassageRow]:
    """The rows that can be among the best, whatever bonus each gets; the others need none computed."""
    if len(rows) <= limit:
        return list(rows)
    largest = (
        SPEAKER_BONUS * bool(question.speakers)
        + SUBSTANCE_BONUS
        + TIME_BONUS * question.wants_time
        + DATE_BONUS * bool(question.dates)
    )
    least = nlargest(limit, (found[row.position] for row in rows))[-1] - largest
    return [row for row in rows if found[row.position] >= least]


def bonus(question: RecallQuery, speaker: str, text: str, day: str) -> float:
    """What a passage is worth by itself for this question."""
    told = without_author(speaker, text)
    return (
        SPEAKER_BONUS * (speaker in question.speakers)
        + SUBSTANCE_BONUS * substance(told)
        + TIME_BONUS * (question.wants_time and tells_time(told))
        + DATE_BONUS * was_said(question.dates, day)
    )


def was_said(dates: Sequence[frozenset[str]], day: str) -> bool:
    """Whether a day, in words, is in the months and years that are asked for; False when none is."""
    return bool(dates) and all(not each.isdisjoint(day.lower().split()) for each in dates)


def speakers_meant(query: str) -> frozenset[str]:
    """The speakers behind pronouns: "I" is the user and "you" is the assistant."""
    words_in_query = set(all_words(query))
    meant = {USER: FIRST_PERSON, ASSISTANT: SECOND_PERSON}
    return frozenset(speaker for speaker, words in meant.items() if words_in_query & words)


def without_names(query: str, names: frozenset[str]) -> str:
    """The query without the names of speakers, which are matched separately."""
    if not names:
        return query
    either = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    rest = re.sub(rf"\b({either})(['\u2019`]s)?\b", " ", query, flags=re.IGNORECASE)
    return " ".join(rest.split()) if any(char.isalnum() for char in rest) else query


def merge(found: Candidates) -> dict[Position, float]:
    """Merge both scores; a passage that has no vector yet counts by its words alone."""
    top = max(found.text.values(), default=0.0) or 1.0
    merged = {position: found.text[position] / top for position in _best(found.text)}
    low, high = min(found.vectors.values(), default=0.0), max(found.vectors.values(), default=0.0)
    for position, similarity in found.vectors.items():
        by_words = (1 - SHARE_OF_VECTORS) * found.text.get(position, 0.0) / top
        merged[position] = by_words + SHARE_OF_VECTORS * _scaled(similarity, low, high)
    return merged


def _scaled(value: float, low: float, high: float) -> float:
    return (value - low) / (high - low) if high > low else 1.0


def _best(scores: dict[Position, float]) -> list[Position]:
    return sorted(scores, key=scores.__getitem__, reverse=True)[:CANDIDATES]
