"""The file of the local memory: passages, their index and their vectors. Safe for threads and processes.

The tables, and the triggers that update index and vectors, are in `schema.sql`; `../provider_file.py` opens,
reads and writes the file.
"""

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from typing import Any, TypeVar

from holdfast.core.contract import Clock
from holdfast.core.errors import InvalidInput
from holdfast.memory.contract import CompletedTurn
from holdfast.providers import provider_file
from holdfast.providers.local.passages import NOTE, Passage, passage, storable, turn_passages
from holdfast.providers.provider_file import FileFormat, ProviderFile

T = TypeVar("T")

PACKAGE = "holdfast.providers.local"
FORMAT = FileFormat(application_id=0x484F4C4D, schema=1, package=PACKAGE)
NOTES_SESSION = ""
MAX_NOTE_LENGTH = 4000
# Wider than any neighbourhood, so that no note has neighbours.
NOTE_STRIDE = 10


def load_queries() -> Any:  # noqa: ANN401 - aiosql's are dynamic
    return provider_file.load_queries(PACKAGE)


@dataclass(frozen=True, slots=True)
class PassageCounts:
    """The number of passages and notes."""

    turns: int
    """Passages of turns; a turn has one or more."""
    notes: int


class PassageStore:
    """Reads and writes the file."""

    def __init__(
        self, path: str, *, clock: Clock, zone: tzinfo | None = None, patience: float = 30.0
    ) -> None:
        self._clock = clock
        self._zone = zone
        self._queries = load_queries()
        self._file = ProviderFile(path, FORMAT, clock=clock, patience=patience)

    @property
    def path(self) -> str:
        return self._file.path

    def add_turns(self, turns: Sequence[CompletedTurn]) -> int:
        """Store the turns in one transaction; returns the number of their passages.

        A turn with a known key is overwritten.
        """
        with self._file.write() as connection:
            return sum(self._add_turn(connection, turn) for turn in turns)

    def add_note(self, text: str) -> int:
        """Store a note and return its id."""
        note = self._note(text)
        with self._file.write() as connection:
            session = self._session_no(connection, NOTES_SESSION)
            number = int(self._queries.next_note(connection))
            self._insert(connection, note, session_no=session, place=number * NOTE_STRIDE)
            return number

    def change_note(self, note_id: int, text: str) -> bool:
        """Change the text of a note; False when it does not exist."""
        note = self._note(text)
        with self._file.write() as connection:
            changed = self._queries.change_note(
                connection,
                id=note_id,
                text=note.text,
                day=note.day,
                unspaced=note.unspaced,
                created=note.created,
            )
            if changed:
                self._queries.merge_index(connection)
        if changed:
            self._file.clean_log()
        return bool(changed)

    def forget(self, passage_id: int) -> bool:
        """Delete a note, or the whole turn of a passage, with its vectors; False when it does not exist."""
        with self._file.write() as connection:
            found = self._queries.turn_key_of(connection, id=passage_id)
            if found is None:
                return False
            if found[1] is None:
                self._queries.drop_passage(connection, id=passage_id)
            else:
                self._queries.drop_turn(connection, turn_key=found[1])
                self._queries.mark_forgotten(connection, turn_key=found[1])
            self._queries.merge_index(connection)
        self._file.clean_log()
        return True

    def await_vectors(self, model: str) -> None:
        """Queue the passages with vectors of another model for new ones."""
        with self._file.write() as connection:
            self._queries.await_vectors(connection, model=model)

    def without_vector(self, most: int) -> list[tuple[int, str, str]]:
        """The newest passages that have no vector yet: id, speaker and text."""
        return self.read(lambda connection: list(self._queries.without_vector(connection, most=most)))

    def add_vectors(self, model: str, made: Sequence[tuple[int, str, bytes]]) -> None:
        """Store vectors, each with its passage and the text that was embedded."""
        with self._file.write() as connection:
            for passage_id, text, vector in made:
                self._queries.drop_vector(connection, passage_id=passage_id)
                added = self._queries.add_vector(
                    connection, passage_id=passage_id, text=text, model=model, vector=vector
                )
                if added:
                    self._queries.mark_embedded(connection, passage_id=passage_id)

    def counts(self) -> PassageCounts:
        return PassageCounts(*self.read(self._queries.count_passages))

    def count_without_vector(self) -> int:
        return int(self.read(self._queries.count_without_vector))

    def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run a read on one snapshot."""
        return self._file.read(work)

    def close(self) -> None:
        """Close the file after the running calls. May be called again."""
        self._file.close()

    def _add_turn(self, connection: sqlite3.Connection, turn: CompletedTurn) -> int:
        if self._queries.is_forgotten(connection, turn_key=turn.key):
            return 0
        fresh = turn_passages(turn, self._zone)
        stored = list(self._queries.turn_parts(connection, turn_key=turn.key))
        session = self._session_no(connection, turn.session_id)
        for part, each in enumerate(fresh):
            if part >= len(stored):
                place = int(self._queries.next_place(connection, session_no=session))
                self._insert(connection, each, session_no=session, place=place, turn=turn, part=part)
            elif stored[part][2:] != (each.speaker, each.text):
                self._queries.change_passage(
                    connection,
                    id=stored[part][0],
                    speaker=each.speaker,
                    text=each.text,
                    day=each.day,
                    unspaced=each.unspaced,
                    created=each.created,
                )
        for passage_id, *_ in stored[len(fresh) :]:
            self._queries.drop_passage(connection, id=passage_id)
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
        self._queries.add_passage(
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

    def _session_no(self, connection: sqlite3.Connection, session_id: str) -> int:
        self._queries.add_session(connection, id=session_id)
        return int(self._queries.session_no(connection, id=session_id))

    def _note(self, text: str) -> Passage:
        kept = storable(text)
        if not kept or len(kept) > MAX_NOTE_LENGTH:
            raise InvalidInput(f"a note has 1 to {MAX_NOTE_LENGTH} characters, not {len(kept)}")
        return passage(NOTE, kept, self._clock.now(), self._zone)
