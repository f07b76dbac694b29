"""Full text: BM25 for each word of the question, with what stands around a passage counted in.

An answer often lacks the question's words, which stand in the passage before it or after it. So a word
also counts, for less, where a neighbour has it. The mix is made when asked, not stored: no old row is
rewritten when a turn comes, and what is forgotten stands nowhere else.
"""

import sqlite3
from collections import defaultdict
from typing import Any

from holdfast.memory.providers.local.words import query_words, quoted

Place = tuple[int, int]
"""A session's number and a place in it."""

NEIGHBOURS = ((0, 1.0), (-1, 0.5), (1, 0.5), (-2, 0.3), (2, 0.3))
# How soon a word that is said again and again stops counting more.
SATURATION = 0.6
MOST_HITS = 1000
HITS_IN_ALL = 30_000


def lexical_scores(connection: sqlite3.Connection, queries: Any, query: str) -> dict[Place, float]:  # noqa: ANN401
    """A score for each place that has a word of the query, or stands beside one that has."""
    scores: dict[Place, float] = defaultdict(float)
    for word in _telling_words(connection, queries, query):
        hits = list(queries.word_hits(connection, word=word, most=MOST_HITS))
        if hits:
            _count_in(hits, scores)
    return scores


def _count_in(hits: list[Any], scores: dict[Place, float]) -> None:
    """Add one word's share to the scores."""
    best = max(score for *_, score in hits)
    around: dict[Place, float] = defaultdict(float)
    for _, session, place, score in hits:
        for step, weight in NEIGHBOURS:
            around[session, place + step] += weight * score
    for where, score in around.items():
        scores[where] += best * (1 + SATURATION) * score / (score + best * SATURATION)


def _telling_words(connection: sqlite3.Connection, queries: Any, query: str) -> list[str]:  # noqa: ANN401
    """The query's words, rarest first, without those so common that counting them would take too long."""
    words = [quoted(word) for word in query_words(query)]
    counted = sorted((int(queries.count_hits(connection, word=word)), word) for word in words)
    kept: list[str] = []
    in_all = 0
    for hits, word in counted:
        in_all += hits
        if hits and (not kept or in_all <= HITS_IN_ALL):
            kept.append(word)
    return kept
