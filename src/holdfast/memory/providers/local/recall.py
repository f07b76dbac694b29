"""Recall: full text and vectors merged into one order, with what a question says about its speaker.

Each side names its best passages; every named one gets both scores, each brought to the range 0 to 1.
Adding ranks instead, as is often done, made the result worse than full text alone. `make bench-recall`
measures all of this.
"""

import json
import logging
import re
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from heapq import nlargest
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from holdfast.memory.providers.local.lexical import FullText, Place
from holdfast.memory.providers.local.passages import ASSISTANT, MICRO, NOTE, USER, storable
from holdfast.memory.providers.local.store import MemoryStore, load_queries
from holdfast.memory.providers.local.words import FIRST_PERSON, SECOND_PERSON, all_words, names_in

if TYPE_CHECKING:
    from holdfast.memory.providers.local.embedding import Embedder
    from holdfast.memory.providers.local.vectors import VectorMatrix

logger = logging.getLogger(__name__)

Way = Literal["hybrid", "text", "vectors"]

CANDIDATES = 100
ROLES = frozenset({USER, ASSISTANT, NOTE})
SHARE_OF_VECTORS = 0.5
SPEAKER_BONUS = 0.3
# Below this a passage that shares no word with the question has nothing to do with it.
LEAST_SIMILARITY = 0.1
LONGEST_QUERY = 4000


@dataclass(frozen=True, slots=True)
class Memory:
    """One passage that was found."""

    id: int
    kind: Literal["turn", "note"]
    session_id: str
    turn_key: str | None
    turn_id: str | None
    speaker: str
    text: str
    created: float
    score: float
    place: Place


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked, and what it says about who spoke."""

    text: str
    speakers: frozenset[str]
    vector: Any
    session_id: str
    in_context: int
    """How many of the session's newest turns the asker has before it anyway."""
    way: Way


class Candidates(NamedTuple):
    """What each side found, by place."""

    text: dict[Place, float]
    vectors: dict[Place, float]


class Recall:
    """Finds passages. With no embedder it works on full text alone."""

    def __init__(
        self, store: MemoryStore, embedder: "Embedder | None", matrix: "VectorMatrix | None"
    ) -> None:
        self._store = store
        self._embedder = embedder
        self._matrix = matrix
        self._queries = load_queries()

    def search(
        self, query: str, limit: int, *, session_id: str = "", in_context: int = 0, way: Way = "hybrid"
    ) -> list[Memory]:
        """The best passages first, without turns of this session that asked just this or are in context."""
        asked = storable(query[:LONGEST_QUERY])
        if not asked or limit <= 0:
            return []
        if not self._store.read(self._queries.has_passages):
            return []  # and no vector is made of a question that nothing can answer
        named = self._store.read(lambda connection: self._named(connection, asked))
        vector = None if way == "text" else self._vector(without_names(asked, named - ROLES))
        question = Question(asked, named | persons(asked), vector, storable(session_id), in_context, way)
        return self._store.read(lambda connection: self._search(connection, question))[:limit]

    def warm_up(self) -> None:
        """Load the model and the vectors, so that the first question doesn't wait for them."""
        if self._matrix is not None:
            self._vector("warm")
            self._store.read(self._matrix.refresh)

    def at(self, places: Iterable[Place]) -> list[Memory]:
        """What stands at these places."""
        return self._store.read(lambda connection: list(self._fetch(connection, dict.fromkeys(places, 0.0))))

    def _search(self, connection: sqlite3.Connection, question: Question) -> list[Memory]:
        text = {}
        if question.way != "vectors":
            text = FullText(connection, self._queries).scores(question.text)
        found = merge(Candidates(text, self._near(connection, question.vector, _best(text))))
        known = self._known_turns(connection, question)
        memories = [
            memory
            for memory in self._fetch(connection, found, question.speakers)
            if memory.turn_key is None or memory.turn_key not in known
        ]
        return sorted(memories, key=lambda memory: (-memory.score, -memory.created, -memory.id))

    def _known_turns(self, connection: sqlite3.Connection, question: Question) -> set[str]:
        """Turns of the asking session that would tell it nothing new."""
        asked = self._queries.asked_turns(connection, session_id=question.session_id, text=question.text)
        known = {row[0] for row in asked}
        if not question.session_id:
            return known
        recent: set[str] = set()
        # Read one by one from the newest on: a turn has as many rows as it has passages.
        for (turn_key,) in self._queries.newest_turn_keys(connection, session_id=question.session_id):
            recent.add(turn_key)
            if len(recent) > question.in_context:
                recent.discard(turn_key)
                break
        return known | recent

    def _vector(self, query: str) -> Any:  # noqa: ANN401 - numpy may not be installed
        if self._embedder is None:
            return None
        try:
            return self._embedder.embed([query])[0]
        except Exception:
            # A plugin call: full text answers without it.
            logger.exception("memory.embedding_failed", extra={"model": self._embedder.model})
            return None

    def _near(self, connection: sqlite3.Connection, vector: Any, also: list[Place]) -> dict[Place, float]:  # noqa: ANN401
        if vector is None or self._matrix is None:
            return {}
        self._matrix.refresh(connection)
        named = set(also)
        near = self._matrix.nearest(vector, CANDIDATES, also)
        return {place: score for place, score in near.items() if score >= LEAST_SIMILARITY or place in named}

    def _named(self, connection: sqlite3.Connection, query: str) -> frozenset[str]:
        """The speakers that the question names."""
        names = json.dumps(names_in(query))
        return frozenset(row[0] for row in self._queries.known_speakers(connection, names=names))

    def _fetch(
        self,
        connection: sqlite3.Connection,
        scores: dict[Place, float],
        favoured: frozenset[str] = frozenset(),
    ) -> Iterable[Memory]:
        places = json.dumps(list(scores))
        for row in self._queries.passages_at(connection, places=places):
            passage_id, session_no, place, kind, session, turn_key, turn_id, speaker, text, created = row
            where = (session_no, place)
            yield Memory(
                passage_id,
                kind,
                session,
                turn_key,
                turn_id,
                speaker,
                text,
                created / MICRO,
                scores[where] + (SPEAKER_BONUS if speaker in favoured else 0.0),
                where,
            )


def persons(query: str) -> frozenset[str]:
    """Who is meant without a name: "I" is the user and "you" the assistant."""
    said = set(all_words(query))
    meant = {USER: FIRST_PERSON, ASSISTANT: SECOND_PERSON}
    return frozenset(speaker for speaker, words in meant.items() if said & words)


def without_names(query: str, names: frozenset[str]) -> str:
    """The question without the speakers it names: they count by themselves, the vector is for the matter."""
    if not names:
        return query
    either = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    rest = re.sub(rf"\b({either})(['\u2019`]s)?\b", " ", query, flags=re.IGNORECASE)
    return " ".join(rest.split()) if any(char.isalnum() for char in rest) else query


def merge(found: Candidates) -> dict[Place, float]:
    """One score from two. A place that one side did not score has nothing from it."""
    if not found.vectors:
        top = max(found.text.values(), default=0.0) or 1.0
        return {place: found.text[place] / top for place in _best(found.text)}
    low, high = min(found.vectors.values()), max(found.vectors.values())
    top = max(found.text.values(), default=0.0) or 1.0
    return {
        place: (1 - SHARE_OF_VECTORS) * found.text.get(place, 0.0) / top
        + SHARE_OF_VECTORS * _within(found.vectors.get(place, low), low, high)
        for place in {*_best(found.text), *found.vectors}
    }


def _within(value: float, low: float, high: float) -> float:
    return (value - low) / (high - low) if high > low else 1.0


def _best(scores: dict[Place, float]) -> list[Place]:
    return nlargest(CANDIDATES, scores, key=scores.__getitem__)
