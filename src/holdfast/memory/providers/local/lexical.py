"""Full text: BM25 for each word of the question, with what stands around a passage counted in.

An answer often lacks the question's words, which stand in the passage before it or after it. So a word
also counts, for less, where a neighbour has it. The mix is made when asked, not stored: no old row is
rewritten when a turn comes, and what is forgotten stands nowhere else.
"""

import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from holdfast.memory.providers.local.words import query_words, quoted

Place = tuple[int, int]
"""A session's number and a place in it."""

NEIGHBOURS = ((0, 1.0), (-1, 0.5), (1, 0.5), (-2, 0.3), (2, 0.3))
# How soon a word that is said again and again stops counting more.
SATURATION = 0.6
FOUND_BY_WORDS = 100
HITS_IN_ALL = 8_000


class FullText:
    """Scores the passages of one snapshot."""

    def __init__(self, connection: sqlite3.Connection, queries: Any) -> None:  # noqa: ANN401 - aiosql's are dynamic
        self._connection = connection
        self._queries = queries

    def scores(self, query: str) -> dict[Place, float]:
        """A score for the places that have the query's words, and for those around them."""
        words = self._telling_words(query)
        if not words:
            return {}
        found = self._rows("any_word_hits", words=" OR ".join(words), most=FOUND_BY_WORDS)
        around = {(session, place + step) for session, place in found for step, _ in NEIGHBOURS}
        places = {row[0]: (row[1], row[2]) for row in self._rows("ids_at", places=json.dumps(list(around)))}
        ids = json.dumps(list(places))
        scores: dict[Place, float] = defaultdict(float)
        for word in words:
            hits = self._rows("word_hits", word=word, ids=ids)
            _count_in([(places[row], score) for row, score in hits], scores)
        known = set(places.values())
        return {place: score for place, score in scores.items() if place in known}

    def _telling_words(self, query: str) -> list[str]:
        """The query's words, rarest first, without those so common that counting them would take long."""
        words = [quoted(word) for word in query_words(query)]
        counted = sorted((int(self._queries.count_hits(self._connection, word=word)), word) for word in words)
        kept: list[str] = []
        in_all = 0
        for hits, word in counted:
            in_all += hits
            if hits and (not kept or in_all <= HITS_IN_ALL):
                kept.append(word)
        return kept

    def _rows(self, name: str, **bound: object) -> list[Any]:
        # Fetched at once: aiosql's own way hands the rows over one by one.
        return self._connection.execute(getattr(self._queries, name).sql, bound).fetchall()


def _count_in(hits: Iterable[tuple[Place, float]], scores: dict[Place, float]) -> None:
    """Add one word's share to the scores."""
    best = 0.0
    around: dict[Place, float] = defaultdict(float)
    for (session, place), score in hits:
        best = max(best, score)
        for step, weight in NEIGHBOURS:
            around[session, place + step] += weight * score
    for where, score in around.items():
        scores[where] += best * (1 + SATURATION) * score / (score + best * SATURATION)
