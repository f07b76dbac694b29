"""Finding facts: by words, by what they are about, by what they have in common.

Words and links name the candidates, so an unknown name finds nothing; the vectors put them in order. The
score of a search is 0.4 full text, 0.4 the share of the question's stems that a fact has, and 0.2 likeness of
the vectors, times trust. Jaccard in place of that share finds less: it prefers short facts to fitting ones.
"""

import json
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from heapq import nlargest

from holdfast.memory.providers.holographic.contradiction import superseded
from holdfast.memory.providers.holographic.facts import LEAST_TRUST, Fact, fact_of
from holdfast.memory.providers.holographic.store import FactStore, load_queries
from holdfast.memory.providers.holographic.vectors import FactMatrix, content_vector, entity_vector
from holdfast.memory.providers.holographic.wording import name_key, stems
from holdfast.memory.providers.local.passages import storable
from holdfast.memory.providers.local.words import query_words, quoted

LONGEST_QUERY = 4000
CANDIDATES_FOR_EACH = 3
LEAST_CANDIDATES = 60
MOST_OF_ONE_ENTITY = 20_000
NEIGHBOURS = 20
FULL_TEXT, COVERED, HOLOGRAPHIC = 0.4, 0.4, 0.2
# A fact that a newer one contradicts comes after others.
OUTDATED = 0.5


@dataclass(frozen=True, slots=True)
class Neighbour:
    """Another entity that shares facts with the one asked for."""

    name: str
    shared: int


@dataclass(frozen=True, slots=True)
class Probed:
    """What is known of some entities. `unknown` names those that nothing is known of."""

    facts: list[Fact]
    unknown: list[str]
    neighbours: list[Neighbour]


@dataclass(frozen=True, slots=True)
class _Entity:
    """An entity, or a name that facts only mention; `id` is None then."""

    name: str
    id: int | None
    keys: tuple[str, ...]
    fact_ids: list[int]


class Search:
    """Reads facts from one store."""

    def __init__(self, store: FactStore, matrix: FactMatrix) -> None:
        self._store = store
        self._matrix = matrix
        self._queries = load_queries()

    def warm_up(self) -> None:
        """Read the vectors now rather than in the first search."""
        self._store.read(self._matrix.refresh)

    def search(
        self, query: str, limit: int = 10, *, category: str = "", least_trust: float = LEAST_TRUST
    ) -> list[Fact]:
        """The facts that fit a question best, first."""
        asked = storable(query[:LONGEST_QUERY])
        words = [quoted(word) for word in query_words(asked)]
        if not words or limit <= 0:
            return []
        most = max(CANDIDATES_FOR_EACH * limit, LEAST_CANDIDATES)

        def work(connection: sqlite3.Connection) -> list[Fact]:
            hits = dict(self._queries.word_hits(connection, words=" OR ".join(words), most=most))
            scored = self._scored(connection, hits, stems(asked))
            kept = [fact for fact in scored if fact.trust >= least_trust and category in ("", fact.category)]
            return self._best(connection, kept, limit)

        return self._store.read(work)

    def probe(self, names: Sequence[str], limit: int = 10, *, least_trust: float = LEAST_TRUST) -> Probed:
        """The facts about an entity, or about all of several at once."""

        def work(connection: sqlite3.Connection) -> Probed:
            entities = [self._entity(connection, name) for name in names]
            unknown = [each.name for each in entities if not each.fact_ids]
            common = set(entities[0].fact_ids) if entities else set()
            for each in entities[1:]:
                common.intersection_update(each.fact_ids)
            facts = self._about(connection, entities, common)
            kept = [fact for fact in facts if fact.trust >= least_trust]
            return Probed(self._best(connection, kept, limit), unknown, [])

        return self._store.read(work)

    def related(self, name: str, limit: int = 10, *, least_trust: float = LEAST_TRUST) -> Probed:
        """What is connected to an entity: entities that share facts with it, and facts about those."""

        def work(connection: sqlite3.Connection) -> Probed:
            entity = self._entity(connection, name)
            if entity.id is None:
                return Probed([], [] if entity.fact_ids else [name], [])
            rows = list(self._queries.neighbours(connection, entity_id=entity.id, most=NEIGHBOURS))
            near = [self._entity(connection, key) for key, _, _ in rows]
            own = set(entity.fact_ids)
            facts: dict[int, Fact] = {}
            for each in near:
                others = [fact_id for fact_id in each.fact_ids if fact_id not in own]
                for fact in self._about(connection, [each], others[: LEAST_CANDIDATES * limit]):
                    facts[fact.id] = max(fact, facts.get(fact.id, fact), key=lambda each: each.score)
            kept = [fact for fact in facts.values() if fact.trust >= least_trust]
            neighbours = [Neighbour(called, shared) for _, called, shared in rows]
            return Probed(self._best(connection, kept, limit), [], neighbours)

        return self._store.read(work)

    def listed(self, limit: int = 10, *, category: str = "", least_trust: float = 0.0) -> list[Fact]:
        """The most trusted and newest facts."""
        rows = self._store.read(
            lambda connection: list(
                self._queries.list_facts(connection, category=category, least_trust=least_trust, most=limit)
            )
        )
        return [fact_of(row) for row in rows]

    def facts(self, ids: Iterable[int]) -> dict[int, Fact]:
        """These facts, as far as they exist."""
        wanted = json.dumps(list(ids))
        rows = self._store.read(lambda connection: list(self._queries.facts_with(connection, ids=wanted)))
        return {row[0]: fact_of(row) for row in rows}

    def turns_of(self, ids: Iterable[int]) -> dict[int, list[str]]:
        """The ids of the turns in which these facts were said."""
        wanted = json.dumps(list(ids))
        rows = self._store.read(lambda connection: list(self._queries.sources_of(connection, ids=wanted)))
        turns: dict[int, list[str]] = {}
        for fact_id, _, turn_id in rows:
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
        """Facts linked to the entity of that name, and those whose words have the whole name."""
        asked = storable(name[:LONGEST_QUERY])
        found = self._queries.entity_named(connection, key=name_key(asked))
        linked: list[int] = []
        keys: tuple[str, ...] = (name_key(asked),)
        if found is not None:
            about = self._queries.facts_about(connection, entity_id=found[0], most=MOST_OF_ONE_ENTITY)
            linked = [row[0] for row in about]
            keys = tuple(row[0] for row in self._queries.names_of(connection, entity_id=found[0]))
        words = [quoted(word) for word in query_words(asked)]
        mentioned = (
            [
                row[0]
                for row in self._queries.word_hits(
                    connection, words=" AND ".join(words), most=LEAST_CANDIDATES
                )
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
        """Facts scored by how much each of the entities is in them: the least of it counts."""
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
        """The best by score times trust; what a newer fact contradicts comes later."""
        weighed = [replace(fact, score=fact.score * fact.trust) for fact in facts]
        first = nlargest(2 * limit, weighed, key=_order)
        outdated = superseded(connection, self._queries, [fact.id for fact in first])
        judged = [
            replace(fact, score=fact.score * OUTDATED) if fact.id in outdated else fact for fact in first
        ]
        return sorted(judged, key=_order, reverse=True)[:limit]


def _order(fact: Fact) -> tuple[float, float, int]:
    return fact.score, fact.updated, fact.id
