"""Full-text search: a word of the query counts by how rare it is, in a passage and in its neighbours.

An answer often lacks the words of the question, which are in the passage before or after it. So a word in a
neighbour counts too, with a lower weight. The index is read once for each word, newest passages first, until
enough is read: of a common word only the newest passages count. The scores are computed for each search and
not stored: a new turn changes no old row, and a deleted passage leaves no copy.
"""

import json
import math
import sqlite3
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import nlargest
from typing import Any

from holdfast.providers.local.words import query_words, quoted

Position = int
"""The number of a session, shifted by 32 bits, and the place in it: a neighbour's is one more or less.

One before the first of a session is a position that no passage has.
"""

NEIGHBOURS = ((0, 1.0), (-1, 0.5), (1, 0.5), (-2, 0.3), (2, 0.3))
# A lower value limits the score of a repeated word sooner.
SATURATION = 0.6
FOUND_BY_WORDS = 100
HITS_IN_ALL = 8_000
FIRST_HITS = 200
IDS_AT_ONCE = 200
# The usual values of BM25.
K1, B = 1.2, 0.75
# A word that half of all passages have tells nothing, but is not worth less than none.
LEAST_RARITY = 1e-6


@dataclass(frozen=True, slots=True)
class WordHits:
    """The passages with one word: all of them, or the newest."""

    ids: list[int]
    rarity: float


class FullText:
    """Scores passages on one snapshot of the file."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        queries: Any,  # noqa: ANN401 - aiosql's are dynamic
        *,
        first: int = FIRST_HITS,
        most: int = HITS_IN_ALL,
    ) -> None:
        """`first` hits of each word are read in any case, and `most` of all words."""
        self._connection = connection
        self._queries = queries
        self._first = first
        self._most = most
        self.hits: frozenset[Position] = frozenset()
        """The passages that have a word of the query themselves; the others only stand beside one."""

    def scores(self, query: str, scope: str | None) -> dict[Position, float]:
        """The scores of a scope's passages with words of the query, and of their neighbours; None: of any."""
        words = self._words(query)
        found = self._best(words, scope)
        self.hits = frozenset(found)
        around = {position + step for position in found for step, _ in NEIGHBOURS}
        rows = self._rows("ids_at", positions=json.dumps(sorted(around)))
        passages = {row[0]: row[1] for row in rows}
        brevity = _brevity({row[0]: row[2] for row in rows})
        scores: dict[Position, float] = defaultdict(float)
        for word in words:
            hits = passages.keys() & word.ids
            _count_in([(passages[each], word.rarity * brevity[each]) for each in hits], scores)
        known = set(passages.values())
        return {position: score for position, score in scores.items() if position in known}

    def _words(self, query: str) -> list[WordHits]:
        """The words that occur: the newest passages with each, then all with the rarest word, and so on."""
        searched = query_words(query)
        newest = int(self._queries.newest_passage(self._connection))
        hits = [self._ids(word, newest + 1, self._first) for word in searched]
        left = self._most - sum(map(len, hits))
        # The further back its newest passages reach, the rarer a word is.
        unread = sorted(
            (word for word, ids in enumerate(hits) if len(ids) == self._first),
            key=lambda word: hits[word][-1],
        )
        partly = set(unread)
        for word in unread:
            further = self._ids(searched[word], hits[word][-1], left)
            hits[word] += further
            if len(further) < left:
                partly.remove(word)
            left -= len(further)
        return [
            WordHits(ids, _rarity(newest, newest - ids[-1] + 1 if word in partly else newest, len(ids)))
            for word, ids in enumerate(hits)
            if ids
        ]

    def _ids(self, word: str, before: int, most: int) -> list[int]:
        """The newest passages below an id that have the word."""
        if most <= 0:
            return []
        found: list[int] = json.loads(
            self._queries.word_hits(self._connection, word=quoted(word), before=before, most=most)
        )
        return found

    def _best(self, words: list[WordHits], scope: str | None) -> list[Position]:
        """The passages of a scope with the rarest words; of equal ones the newest."""
        equally_rare: dict[float, list[int]] = defaultdict(list)
        for word in words:
            equally_rare[word.rarity] += word.ids
        total: dict[int, float] = defaultdict(float)
        for rarity, ids in equally_rare.items():
            for each in sorted(ids, reverse=True):
                total[each] += rarity
        found: list[Position] = []
        for ids in _ranked(total):
            positions = dict(self._rows("positions_of", ids=json.dumps(ids), scope=scope))
            found += [positions[each] for each in ids if each in positions]
            if len(found) >= FOUND_BY_WORDS:
                break
        return found[:FOUND_BY_WORDS]

    def _rows(self, name: str, **bound: object) -> list[Any]:
        # One fetchall is faster than the row-by-row iteration of aiosql.
        return self._connection.execute(getattr(self._queries, name).sql, bound).fetchall()


def _ranked(total: dict[int, float]) -> Iterator[list[int]]:
    """The ids in portions, highest total first; equal ones keep their order."""
    # The first portion is nearly always enough, and takes a fraction of the time that sorting all takes.
    yield nlargest(IDS_AT_ONCE, total, key=total.__getitem__)
    ranked = sorted(total, key=total.__getitem__, reverse=True)
    for begin in range(IDS_AT_ONCE, len(ranked), IDS_AT_ONCE):
        yield ranked[begin : begin + IDS_AT_ONCE]


def _rarity(passages: int, looked_at: int, hits: int) -> float:
    """The weight of a word as in BM25, from the passages that were looked at."""
    in_all = hits * passages / looked_at
    return max(LEAST_RARITY, math.log((passages - in_all + 0.5) / (in_all + 0.5)))


def _brevity(lengths: dict[int, int]) -> dict[int, float]:
    """What a word counts in each passage as in BM25: more in one that is shorter than the others."""
    usual = max(1.0, sum(lengths.values()) / max(1, len(lengths)))
    return {each: (K1 + 1) / (1 + K1 * (1 - B + B * length / usual)) for each, length in lengths.items()}


def _count_in(hits: Sequence[tuple[Position, float]], scores: dict[Position, float]) -> None:
    """Add the scores of one word."""
    best = max((score for _, score in hits), default=0.0)
    around: dict[Position, float] = defaultdict(float)
    for position, score in hits:
        for step, weight in NEIGHBOURS:
            around[position + step] += weight * score
    for where, score in around.items():
        scores[where] += best * (1 + SATURATION) * score / (score + best * SATURATION)
