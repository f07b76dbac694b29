"""Full-text search: BM25 for each word of the query, including the neighbours of a passage.

An answer often lacks the words of the question, which are in the passage before or after it. So a word in a
neighbour counts too, with a lower weight. The scores are computed for each search and not stored: a new turn
changes no old row, and a deleted passage leaves no copy.
"""

import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from holdfast.providers.local.words import query_words, quoted

Position = tuple[int, int]
"""The number of a session and the position in it."""

NEIGHBOURS = ((0, 1.0), (-1, 0.5), (1, 0.5), (-2, 0.3), (2, 0.3))
# A lower value limits the score of a repeated word sooner.
SATURATION = 0.6
FOUND_BY_WORDS = 100
HITS_IN_ALL = 8_000


class FullText:
    """Scores passages on one snapshot of the file."""

    def __init__(self, connection: sqlite3.Connection, queries: Any) -> None:  # noqa: ANN401 - aiosql's are dynamic
        self._connection = connection
        self._queries = queries
        self.hits: frozenset[Position] = frozenset()
        """The passages that have a word of the query themselves; the others only stand beside one."""

    def scores(self, query: str, scope: str | None) -> dict[Position, float]:
        """The scores of a scope's passages with words of the query, and of their neighbours; None: of any."""
        words = self._selective_words(query)
        if not words:
            return {}
        found = self._rows("any_word_hits", words=" OR ".join(words), scope=scope, most=FOUND_BY_WORDS)
        self.hits = frozenset((session, position) for session, position in found)
        around = {(session, position + step) for session, position in found for step, _ in NEIGHBOURS}
        positions = {
            row[0]: (row[1], row[2]) for row in self._rows("ids_at", places=json.dumps(list(around)))
        }
        ids = json.dumps(list(positions))
        scores: dict[Position, float] = defaultdict(float)
        for word in words:
            hits = self._rows("word_hits", word=word, ids=ids)
            _count_in([(positions[row], score) for row, score in hits], scores)
        known = set(positions.values())
        return {position: score for position, score in scores.items() if position in known}

    def _selective_words(self, query: str) -> list[str]:
        """The words of the query, rarest first, without very common ones, whose scoring would be slow."""
        words = [quoted(word) for word in query_words(query)]
        counted = sorted(
            (int(self._queries.count_hits(self._connection, word=word, most=HITS_IN_ALL + 1)), word)
            for word in words
        )
        kept: list[str] = []
        in_all = 0
        for hits, word in counted:
            in_all += hits
            if hits and (not kept or in_all <= HITS_IN_ALL):
                kept.append(word)
        return kept

    def _rows(self, name: str, **bound: object) -> list[Any]:
        # One fetchall is faster than the row-by-row iteration of aiosql.
        return self._connection.execute(getattr(self._queries, name).sql, bound).fetchall()


def _count_in(hits: Iterable[tuple[Position, float]], scores: dict[Position, float]) -> None:
    """Add the scores of one word."""
    best = 0.0
    around: dict[Position, float] = defaultdict(float)
    for (session, position), score in hits:
        best = max(best, score)
        for step, weight in NEIGHBOURS:
            around[session, position + step] += weight * score
    for where, score in around.items():
        scores[where] += best * (1 + SATURATION) * score / (score + best * SATURATION)
