"""Searches facts by words, by entity, and by entities that they share.

The full-text index and the links to entities give the candidates, so an unknown name finds nothing; the
vectors rank them. The score of a search is 0.4 full text, 0.4 the share of the query's stems that a fact
has, and 0.2 similarity of the vectors, times the trust. Jaccard similarity in place of that share gave worse
results: it prefers short facts.
"""

import json
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from heapq import nlargest

from holdfast.providers.holographic.contradictions import superseded_facts
from holdfast.providers.holographic.facts import MIN_TRUST, WHOLE_SESSION, Fact, fact_of
from holdfast.providers.holographic.store import FactStore
from holdfast.providers.holographic.tokens import name_key, stems
from holdfast.providers.holographic.vectors import FactMatrix, content_vector, entity_vector
from holdfast.providers.local.passages import storable
from holdfast.providers.local.words import query_words, quoted

MAX_QUERY_LENGTH = 4000
CANDIDATES_FOR_EACH = 3
MIN_CANDIDATES = 60
MAX_PER_ENTITY = 20_000
NEIGHBOURS = 20
FULL_TEXT, COVERED, HOLOGRAPHIC = 0.4, 0.4, 0.2
# The score of a fact that a newer one contradicts is multiplied by this.
OUTDATED = 0.5


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """The facts about some entities. `unknown` has the names without any fact."""

    facts: list[Fact]
    unknown: list[str]
    neighbours: dict[str, int] = field(default_factory=dict)
    """The entities that share facts with the given one, and how many."""


@dataclass(frozen=True, slots=True)
class _Entity:
    """An entity, or a name that facts only mention; `id` is None then."""

    name: str
    id: int | None
    keys: tuple[str, ...]
    fact_ids: list[int]


class FactSearch:
    """Searches the facts of one store."""

    def __init__(self, store: FactStore, matrix: FactMatrix) -> None:
        self._store = store
        self._matrix = matrix
        self._queries = store.queries

    def warm_up(self) -> None:
        """Read the vectors now rather than in the first search."""
        self._store.read(self._matrix.refresh)

    def search(
        self, query: str, limit: int = 10, *, category: str = "", least_trust: float = MIN_TRUST
    ) -> list[Fact]:
        """The facts for a query, best match first."""
        asked = storable(query[:MAX_QUERY_LENGTH])
        words = [quoted(word) for word in query_words(asked)]
        if not words or limit <= 0:
            return []
        most = max(CANDIDATES_FOR_EACH * limit, MIN_CANDIDATES)

        def work(connection: sqlite3.Connection) -> list[Fact]:
            hits = dict(self._queries.word_hits(connection, words=" OR ".join(words), most=most))
            scored = self._scored(connection, hits, stems(asked))
            kept = [fact for fact in scored if fact.trust >= least_trust and category in ("", fact.category)]
            return self._best(connection, kept, limit)

        return self._store.read(work)

    def probe(self, names: Sequence[str], limit: int = 10, *, least_trust: float = MIN_TRUST) -> ProbeResult:
        """The facts about an entity, or about several entities together."""

        def work(connection: sqlite3.Connection) -> ProbeResult:
            entities = [self._entity(connection, name) for name in names]
            unknown = [each.name for each in entities if not each.fact_ids]
            common = set(entities[0].fact_ids) if entities else set()
            for each in entities[1:]:
                common.intersection_update(each.fact_ids)
            facts = self._about(connection, entities, common)
            kept = [fact for fact in facts if fact.trust >= least_trust]
            return ProbeResult(self._best(connection, kept, limit), unknown)

        return self._store.read(work)

    def related(self, name: str, limit: int = 10, *, least_trust: float = MIN_TRUST) -> ProbeResult:
        """The entities that share facts with an entity, and the other facts about them."""

        def work(connection: sqlite3.Connection) -> ProbeResult:
            entity = self._entity(connection, name)
            if entity.id is None:
                return ProbeResult([], [] if entity.fact_ids else [name])
            rows = list(self._queries.neighbours(connection, entity_id=entity.id, most=NEIGHBOURS))
            near = [self._entity(connection, key) for key, _, _ in rows]
            own = set(entity.fact_ids)
            facts: dict[int, Fact] = {}
            for each in near:
                others = [fact_id for fact_id in each.fact_ids if fact_id not in own]
                for fact in self._about(connection, [each], others[: MIN_CANDIDATES * limit]):
                    facts[fact.id] = max(fact, facts.get(fact.id, fact), key=lambda each: each.score)
            kept = [fact for fact in facts.values() if fact.trust >= least_trust]
            neighbours = {called: shared for _, called, shared in rows}
            return ProbeResult(self._best(connection, kept, limit), [], neighbours)

        return self._store.read(work)

    def list_facts(self, limit: int = 10, *, category: str = "", least_trust: float = 0.0) -> list[Fact]:
        """The most trusted and newest facts."""
        rows = self._store.read(
            lambda connection: list(
                self._queries.list_facts(connection, category=category, least_trust=least_trust, most=limit)
            )
        )
        return [fact_of(row) for row in rows]

    def facts(self, ids: Iterable[int]) -> dict[int, Fact]:
        """The facts with these ids, as far as they exist."""
        wanted = json.dumps(list(ids))
        rows = self._store.read(lambda connection: list(self._queries.facts_with(connection, ids=wanted)))
        return {row[0]: fact_of(row) for row in rows}

    def turns_of(self, ids: Iterable[int]) -> dict[int, list[str]]:
        """The ids of the turns that stated these facts."""
        wanted = json.dumps(list(ids))
        rows = self._store.read(lambda connection: list(self._queries.sources_of(connection, ids=wanted)))
        turns: dict[int, list[str]] = {}
        for fact_id, _, turn_id in rows:
            if turn_id != WHOLE_SESSION:
                turns.setdefault(fact_id, []).append(turn_id)
        return turns

    def _scored(self, connection: sqlite3.Connection, hits: dict[int, float], asked: list[str]) -> list[Fact]:
        best = max(hits.values(), default=0.0) or 1.0
        wanted = set(asked)
        near = self._near(connection, asked, list(hits))
        facts = []
        for row in self._queries.facts_with(connection, ids=json.dumps(list(hits))):
            covered = len(wanted.intersection(stems(row[1]))) / len(wanted) if wanted else 0.0
            score = (
                FULL_TEXT * hits[row[0]] / best
                + COVERED * covered
                + HOLOGRAPHIC * max(0.0, near.get(row[0], 0.0))
            )
            facts.append(fact_of(row, score))
        return facts

    def _near(
        self, connection: sqlite3.Connection, asked: list[str], fact_ids: list[int]
    ) -> dict[int, float]:
        vector = content_vector(asked)
        if vector is None:
            return {}
        self._matrix.refresh(connection)
        return self._matrix.similarities(vector, fact_ids)

    def _entity(self, connection: sqlite3.Connection, name: str) -> _Entity:
        """The facts linked to an entity, and those whose text contains the whole name."""
        asked = storable(name[:MAX_QUERY_LENGTH])
        found = self._queries.entity_named(connection, key=name_key(asked))
        linked: list[int] = []
        keys: tuple[str, ...] = (name_key(asked),)
        if found is not None:
            about = self._queries.facts_about(connection, entity_id=found[0], most=MAX_PER_ENTITY)
            linked = [row[0] for row in about]
            keys = tuple(row[0] for row in self._queries.names_of(connection, entity_id=found[0]))
        words = [quoted(word) for word in query_words(asked)]
        mentioned = (
            [
                row[0]
                for row in self._queries.word_hits(connection, words=" AND ".join(words), most=MIN_CANDIDATES)
            ]
            if words
            else []
        )
        return _Entity(
            name, None if found is None else found[0], keys, list(dict.fromkeys([*linked, *mentioned]))
        )

    def _about(
        self, connection: sqlite3.Connection, entities: Sequence[_Entity], fact_ids: Iterable[int]
    ) -> list[Fact]:
        """The facts, scored by their lowest similarity to any of the entities."""
        ids = list(fact_ids)
        self._matrix.refresh(connection)
        least: dict[int, float] = {}
        for entity in entities:
            strongest: dict[int, float] = {}
            for key in entity.keys:
                for fact_id, score in self._matrix.similarities(entity_vector(key), ids).items():
                    strongest[fact_id] = max(score, strongest.get(fact_id, -1.0))
            for fact_id, score in strongest.items():
                least[fact_id] = min(score, least.get(fact_id, 1.0))
        rows = self._queries.facts_with(connection, ids=json.dumps(ids))
        return [fact_of(row, max(0.0, least.get(row[0], 0.0))) for row in rows]

    def _best(self, connection: sqlite3.Connection, facts: Sequence[Fact], limit: int) -> list[Fact]:
        """The best facts by score times trust; a fact that a newer one contradicts gets a lower score."""
        weighed = [replace(fact, score=fact.score * fact.trust) for fact in facts]
        first = nlargest(2 * limit, weighed, key=_order)
        outdated = superseded_facts(connection, self._queries, [fact.id for fact in first])
        judged = [
            replace(fact, score=fact.score * OUTDATED) if fact.id in outdated else fact for fact in first
        ]
        return sorted(judged, key=_order, reverse=True)[:limit]


def _order(fact: Fact) -> tuple[float, float, int]:
    return fact.score, fact.updated, fact.id
