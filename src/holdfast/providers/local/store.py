"""The file of the local memory: passages, their index and their vectors. Safe for threads and processes.

The tables, and the triggers that update index and vectors, are in `schema.sql`; `../provider_file.py` opens,
reads and writes the file.
"""

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import tzinfo

from holdfast.core.contract import Clock
from holdfast.core.errors import InvalidInput, Undeliverable
from holdfast.memory.contract import CompletedTurn, MemoryItem
from holdfast.providers.local.codes_file import CodesFile
from holdfast.providers.local.passages import MICRO, NOTE, Passage, passage, storable, turn_passages
from holdfast.providers.provider_file import FileFormat, ProviderFile
from holdfast.sessions.contract import OWNER

FORMAT = FileFormat(application_id=0x484F4C4D, schema=2, package="holdfast.providers.local")
NOTES_SESSION = ""
SCOPED_NOTES = "\x1fnotes\x1f"
"""What the session of the notes of another scope begins with."""
MAX_NOTE_LENGTH = 4000
# Wider than any neighbourhood, so that no note has neighbours.
NOTE_STRIDE = 10


class PassageStore(ProviderFile):
    """Reads and writes the file."""

    def __init__(self, path: str, *, clock: Clock, zone: tzinfo | None = None) -> None:
        super().__init__(path, FORMAT, clock=clock)
        self._zone = zone
        self.codes = CodesFile(path)
        self.mark = str(
            self.read(lambda connection: self.queries.meta_value(connection, key="store"))
        ).encode()
        """Names this database, also in the file of codes that belongs to it."""
        if self.read(self.queries.is_erasing):
            self._erase_codes()  # a process was killed before it came to this

    @contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """One transaction. The codes of the vectors that it removes are erased from their file at once."""
        with super().write() as connection:
            yield connection
            is_erasing = self.queries.is_erasing(connection)
        if is_erasing:
            self._erase_codes()

    def _erase_codes(self) -> None:
        # In a transaction of its own, so that nobody writes to the file meanwhile.
        with super().write() as connection:
            self.codes.erase([row[0] for row in self.queries.to_erase(connection)])
            self.queries.forget_erased(connection)

    def add_turns(self, turns: Sequence[CompletedTurn], scope: str) -> int:
        """Store the turns of a scope in one transaction; returns the number of their passages.

        A turn with a known key is overwritten.
        """
        with self.write() as connection:
            return sum(self._add_turn(connection, turn, scope) for turn in turns)

    def add_note(self, text: str, scope: str) -> int:
        """Store a note of a scope and return its id."""
        note = self._note(text)
        with self.write() as connection:
            name = f"{SCOPED_NOTES}{scope}" if scope != OWNER else NOTES_SESSION
            session = self._session_no(connection, name, scope)
            number = int(self.queries.next_note(connection))
            self._insert(connection, note, session_no=session, place=number * NOTE_STRIDE)
            return number

    def change_note(self, note_id: int, text: str, scope: str) -> bool:
        """Change the text of a note; False when the scope has none of that id."""
        note = self._note(text)
        with self.write() as connection:
            changed = self.queries.change_note(
                connection,
                id=note_id,
                text=note.text,
                day=note.day,
                unspaced=note.unspaced,
                created=note.created,
                scope=scope,
            )
            if changed:
                self.queries.merge_index(connection)
        if changed:
            self.clean_log()
        return bool(changed)

    def forget_all(
        self,
        ids: Iterable[int],
        turn_keys: Iterable[str],
        period: tuple[float, float] | None = None,
        *,
        scope: str | None = None,
    ) -> int:
        """Delete notes, turns, and all of a period, with their vectors; returns the number of passages.

        With a scope, only ids of that scope are known. Turns and a period are a person's choice in any scope.
        A turn that is deleted is never stored again under its key.
        """
        with self.write() as connection:
            dropped = sum(self._forget(connection, each, scope) for each in ids)
            dropped += sum(self._forget_turn(connection, each) for each in turn_keys)
            if period is not None:
                ends = {"after": int(period[0] * MICRO), "before": int(period[1] * MICRO)}
                keys = [row[0] for row in self.queries.turn_keys_between(connection, **ends)]
                dropped += sum(self._forget_turn(connection, each) for each in keys)
                dropped += int(self.queries.drop_notes_between(connection, **ends))
            self.queries.merge_index(connection)
        # Also when nothing was left to delete: who deleted it may have been killed before this.
        self.clean_log()
        return dropped

    def _forget(self, connection: sqlite3.Connection, passage_id: int, scope: str | None) -> int:
        found = self.queries.turn_key_of(connection, id=passage_id, scope=scope)
        if found is None:
            return 0
        if found[1] is None:
            return int(self.queries.drop_passage(connection, id=passage_id))
        return self._forget_turn(connection, found[1])

    def _forget_turn(self, connection: sqlite3.Connection, turn_key: str) -> int:
        self.queries.mark_forgotten(connection, turn_key=turn_key)
        return int(self.queries.drop_turn(connection, turn_key=turn_key))

    def turns_said_by(self, speaker: str) -> list[tuple[str, str]]:
        """The session and the id of each turn in which the speaker spoke."""
        rows = self.read(lambda connection: list(self.queries.turns_said_by(connection, speaker=speaker)))
        return [(row[0], row[1]) for row in rows]

    def with_ids(self, ids: Sequence[int]) -> list[MemoryItem]:
        """The passages and notes with these ids, as far as they exist."""
        wanted = json.dumps(list(ids))
        rows = self.read(lambda connection: list(self.queries.passages_with(connection, ids=wanted)))
        return [
            MemoryItem(number, created / MICRO, kind, text, speaker if kind == "turn" else "", session, turn)
            for number, kind, text, speaker, session, turn, created in rows
        ]

    def count_uses(self, shown: Iterable[int], used: Iterable[int]) -> None:
        """Count that passages were recalled for a turn, and which of them its answer used."""
        now = int(self._clock.now() * MICRO)
        with self.write() as connection:
            for passage_id in shown:
                self.queries.count_shown(connection, passage_id=passage_id)
            for passage_id in used:
                self.queries.count_used(connection, passage_id=passage_id, now=now)

    def uses_of(self, ids: Sequence[int]) -> dict[int, tuple[int, int]]:
        """How often each passage was shown and used."""
        wanted = json.dumps(list(ids))
        rows = self.read(lambda connection: list(self.queries.uses_of(connection, ids=wanted)))
        return {row[0]: (row[1], row[2]) for row in rows}

    def await_vectors(self, model: str) -> None:
        """Queue the passages with vectors of another model for new ones."""
        with self.write() as connection:
            self.queries.await_vectors(connection, model=model)

    def without_vector(self, most: int) -> list[tuple[int, str, str]]:
        """The newest passages that have no vector yet: id, speaker and text."""
        return self.read(lambda connection: list(self.queries.without_vector(connection, most=most)))

    def add_vector(
        self, connection: sqlite3.Connection, passage_id: int, text: str, model: str, vector: bytes
    ) -> bool:
        """Store a vector in a transaction of the caller; False when the text has changed meanwhile."""
        self.queries.drop_vector(connection, passage_id=passage_id)
        added = self.queries.add_vector(
            connection, passage_id=passage_id, text=text, model=model, vector=vector
        )
        if added:
            self.queries.mark_embedded(connection, passage_id=passage_id)
            self.queries.keep_code(connection, passage_id=passage_id)
        return bool(added)

    def counts(self) -> tuple[int, int]:
        """The number of passages of turns, of which a turn has one or more, and of notes."""
        passages, notes = self.read(self.queries.count_passages)
        return passages, notes

    def count_without_vector(self) -> int:
        return int(self.read(self.queries.count_without_vector))

    def _add_turn(self, connection: sqlite3.Connection, turn: CompletedTurn, scope: str) -> int:
        if self.queries.is_forgotten(connection, turn_key=turn.key):
            return 0
        fresh = turn_passages(turn, self._zone)
        stored = list(self.queries.turn_parts(connection, turn_key=turn.key))
        session = self._session_no(connection, turn.session_id, scope)
        for part, each in enumerate(fresh):
            if part >= len(stored):
                place = int(self.queries.next_place(connection, session_no=session))
                self._insert(connection, each, session_no=session, place=place, turn=turn, part=part)
            elif stored[part][2:] != (each.speaker, each.text):
                self.queries.change_passage(
                    connection,
                    id=stored[part][0],
                    speaker=each.speaker,
                    text=each.text,
                    day=each.day,
                    unspaced=each.unspaced,
                    created=each.created,
                )
        for passage_id, *_ in stored[len(fresh) :]:
            self.queries.drop_passage(connection, id=passage_id)
        return len(fresh)

    def _insert(
        self,
        connection: sqlite3.Connection,
        each: Passage,
        *,
        session_no: int,
        place: int,
        turn: CompletedTurn | None = None,
        part: int = 0,
    ) -> None:
        self.queries.add_passage(
            connection,
            kind="note" if turn is None else "turn",
            session_no=session_no,
            place=place,
            turn_key=None if turn is None else turn.key,
            part=part,
            turn_id=None if turn is None else turn.turn_id,
            speaker=each.speaker,
            text=each.text,
            day=each.day,
            unspaced=each.unspaced,
            created=each.created,
        )

    def _session_no(self, connection: sqlite3.Connection, session_id: str, scope: str) -> int:
        is_new = self.queries.add_session(connection, id=session_id)
        number = int(self.queries.session_no(connection, id=session_id))
        if is_new and scope != OWNER:
            self.queries.add_scope(connection, session_no=number, scope=scope)
        if self.queries.scope_of_session(connection, session_no=number) != scope:
            raise Undeliverable(f"session {session_id!r} belongs to somebody else")
        return number

    def _note(self, text: str) -> Passage:
        kept = storable(text)
        if not kept or len(kept) > MAX_NOTE_LENGTH:
            raise InvalidInput(f"a note has 1 to {MAX_NOTE_LENGTH} characters, not {len(kept)}")
        return passage(NOTE, kept, self._clock.now(), self._zone)
