"""The facts' file: facts, their index, entities, claims and vectors. Safe for threads and several processes.

The tables are in `schema.sql`; `../provider_file.py` opens, reads and writes the file. Adding a fact uses
indexes only, so its cost does not depend on the number of facts.
"""

import json
import sqlite3
from collections.abc import Iterable, Sequence

from holdfast.core.contract import Clock
from holdfast.core.errors import InvalidInput
from holdfast.providers.holographic.claims import claims_of
from holdfast.providers.holographic.entities import aliases_of, entities_of
from holdfast.providers.holographic.facts import (
    DEFAULT_TRUST,
    MAX_FACT_LENGTH,
    MAX_NAME_LENGTH,
    Fact,
    FactSource,
    HolographicDescription,
    Statement,
    check_category,
    check_content,
    check_tags,
    fact_of,
)
from holdfast.providers.holographic.tokens import content_key, likeness_key, name_key, stems
from holdfast.providers.holographic.vectors import fact_vector
from holdfast.providers.local.passages import MICRO, storable, unspaced
from holdfast.providers.provider_file import FileFormat, ProviderFile

FORMAT = FileFormat(application_id=0x484F4C48, schema=1, package="holdfast.providers.holographic")


class FactStore(ProviderFile):
    """Writes facts to the file."""

    def __init__(self, path: str, *, clock: Clock) -> None:
        super().__init__(path, FORMAT, clock=clock)

    def add(self, statement: Statement) -> tuple[int, bool]:
        """Store a fact on request; returns its id, and whether it is new."""
        content = check_content(statement.content)
        with self.write() as connection:
            keys = content_key(content), likeness_key(content)
            self.queries.unmark_forgotten(connection, key=keys[0], likeness=keys[1])
            known = self.queries.fact_with_key(connection, key=keys[0])
            if known is not None:
                return int(known), False
            return self._insert(connection, content, statement), True

    def add_extracted(self, statements: Iterable[tuple[Statement, FactSource | None]]) -> int:
        """Store new facts in one transaction, except forgotten ones; returns how many were new."""
        with self.write() as connection:
            return self.add_extracted_in(connection, statements)

    def add_extracted_in(
        self, connection: sqlite3.Connection, statements: Iterable[tuple[Statement, FactSource | None]]
    ) -> int:
        """The same inside a transaction that the caller holds."""
        added = 0
        for statement, source in statements:
            content = storable(statement.content)[:MAX_FACT_LENGTH]
            key, likeness = content_key(content), likeness_key(content)
            forgotten = self.queries.is_forgotten(connection, key=key, likeness=likeness)
            if not content or forgotten:
                continue
            known = self.queries.fact_with_key(connection, key=key)
            if known is None:
                known = self.queries.fact_alike(connection, likeness=likeness)
            if known is None:
                known = self._insert(connection, content, statement)
                added += 1
            if source is not None:
                self.queries.add_source(
                    connection,
                    fact_id=known,
                    session_id=storable(source.session_id),
                    turn_id=storable(source.turn_id),
                )
        return added

    def change(
        self,
        fact_id: int,
        *,
        content: str | None = None,
        category: str | None = None,
        tags: str | None = None,
    ) -> bool:
        """Change the text, category or tags of a fact; False when it does not exist."""
        text = None if content is None else check_content(content)
        with self.write() as connection:
            before = self._fact(connection, fact_id)
            if before is None:
                return False
            if category is not None or tags is not None:
                self.queries.change_details(
                    connection,
                    id=fact_id,
                    category=check_category(category or before.category),
                    tags=before.tags if tags is None else check_tags(tags),
                )
            if text is None:
                return True
            self._rewrite(connection, before, text)
        self.clean_log()
        return True

    def rate(self, fact_id: int, delta: float, *, counted: bool) -> Fact | None:
        """Change the trust of a fact by `delta`, within 0 and 1; None when it does not exist."""
        with self.write() as connection:
            before = self._fact(connection, fact_id)
            if before is None:
                return None
            self.queries.change_trust(
                connection,
                id=fact_id,
                trust=round(min(1.0, max(0.0, before.trust + delta)), 6),
                helpful=int(counted and delta > 0),
                unhelpful=int(counted and delta < 0),
            )
            return self._fact(connection, fact_id)

    def forget(self, fact_id: int) -> bool:
        """Delete a fact permanently, with its vector and its own entities; False when it does not exist."""
        with self.write() as connection:
            if not self.drop_in(connection, fact_id, for_good=True):
                return False
            self.queries.merge_index(connection)
        self.clean_log()
        return True

    def drop_in(self, connection: sqlite3.Connection, fact_id: int, *, for_good: bool) -> bool:
        """Delete a fact inside a transaction; `for_good`: no extraction adds it again."""
        before = self._fact(connection, fact_id)
        if before is None:
            return False
        lonely = [row[0] for row in self.queries.entity_ids_of(connection, fact_id=fact_id)]
        if for_good:
            self._mark_forgotten(connection, before.content)
        self.queries.drop_fact(connection, id=fact_id)
        self.queries.drop_lonely_entities(connection, ids=json.dumps(lonely))
        return True

    def describe(self) -> HolographicDescription:
        return HolographicDescription(self.path, *self.read(self.queries.count_all))

    def _insert(self, connection: sqlite3.Connection, content: str, statement: Statement) -> int:
        fact_id = int(
            self.queries.add_fact(
                connection,
                content=content,
                key=content_key(content),
                likeness=likeness_key(content),
                category=check_category(statement.category),
                tags=check_tags(statement.tags),
                unspaced=unspaced(content),
                trust=DEFAULT_TRUST,
                created=self.now(),
            )
        )
        self._index(connection, fact_id, content, statement.entities)
        return fact_id

    def _rewrite(self, connection: sqlite3.Connection, before: Fact, text: str) -> None:
        key = content_key(text)
        other = self.queries.fact_with_key(connection, key=key)
        if other is not None and other != before.id:
            raise InvalidInput(f"fact {other} says just this already; remove one of them")
        if key != content_key(before.content):
            # The old text must not return when its turn is delivered again.
            self._mark_forgotten(connection, before.content)
        self.queries.unmark_forgotten(connection, key=key, likeness=likeness_key(text))
        self.queries.change_fact(
            connection,
            id=before.id,
            content=text,
            key=key,
            likeness=likeness_key(text),
            unspaced=unspaced(text),
            updated=self.now(),
        )
        lonely = [row[0] for row in self.queries.entity_ids_of(connection, fact_id=before.id)]
        self.queries.drop_entities_of(connection, fact_id=before.id)
        self.queries.drop_claims_of(connection, fact_id=before.id)
        self.queries.drop_vector_of(connection, fact_id=before.id)
        self._index(connection, before.id, text, ())
        self.queries.drop_lonely_entities(connection, ids=json.dumps(lonely))
        self.queries.merge_index(connection)

    def _index(
        self, connection: sqlite3.Connection, fact_id: int, content: str, names: Sequence[str]
    ) -> None:
        """Link the entities of a fact and store its claims and its vector."""
        for name, alias in aliases_of(content):
            self._add_alias(connection, name, alias)
        given = [kept for name in names if (kept := storable(name)) and len(kept) <= MAX_NAME_LENGTH]
        keys = []
        for name in (*entities_of(content), *given):
            entity_id, key = self._entity(connection, name)
            self.queries.link(connection, entity_id=entity_id, fact_id=fact_id)
            keys.append(key)
        for claim in claims_of(content):
            self.queries.add_claim(connection, frame=claim.frame, value=claim.value, fact_id=fact_id)
        vector = fact_vector(stems(content), list(dict.fromkeys(keys)))
        self.queries.add_vector(connection, fact_id=fact_id, vector=vector.tobytes())

    def _entity(self, connection: sqlite3.Connection, name: str) -> tuple[int, str]:
        """The id and the key of an entity, which is created when it is missing."""
        key = name_key(name)
        found = self.queries.entity_named(connection, key=key)
        if found is not None:
            return int(found[0]), str(found[1])
        entity_id = int(self.queries.add_entity(connection, key=key, name=name))
        self.queries.add_entity_name(connection, key=key, entity_id=entity_id)
        return entity_id, key

    def _add_alias(self, connection: sqlite3.Connection, name: str, alias: str) -> None:
        entity_id, _ = self._entity(connection, name)
        other = self.queries.entity_named(connection, key=name_key(alias))
        if other is None:
            self.queries.add_entity_name(connection, key=name_key(alias), entity_id=entity_id)
        elif other[0] != entity_id:
            self.queries.move_links(connection, old=other[0], new=entity_id)
            self.queries.move_names(connection, old=other[0], new=entity_id)
            self.queries.drop_links(connection, entity_id=other[0])
            self.queries.drop_entity(connection, id=other[0])

    def _mark_forgotten(self, connection: sqlite3.Connection, content: str) -> None:
        for key in (content_key(content), likeness_key(content)):
            self.queries.mark_forgotten(connection, key=key)

    def _fact(self, connection: sqlite3.Connection, fact_id: int) -> Fact | None:
        rows = self.queries.facts_with(connection, ids=json.dumps([fact_id]))
        return next((fact_of(row) for row in rows), None)

    def now(self) -> int:
        """The time as the file has it, in microseconds."""
        return int(self._clock.now() * MICRO)
