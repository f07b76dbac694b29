"""Finds the passages whose vectors are nearest to a question's. Needs numpy.

First the bits of the question are compared with the code of every passage: 48 bytes each, in a file that all
processes map into memory (`codes_file.py`). Then the vectors of the best, one byte for each dimension, are
read from the database. Nothing is copied into the process, and what the database lacks is not found.
"""

import hashlib
import json
import mmap
import os
import sqlite3
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from holdfast.providers.local.codes_file import (
    HEAD_BYTES,
    HEAD_LENGTH,
    ROWS,
    WORD_BYTES,
    CodesHead,
    read_head,
)
from holdfast.providers.local.full_text import Position
from holdfast.providers.local.store import PassageStore
from holdfast.sessions.contract import OWNER

CANDIDATES = 500
"""How many passages with the nearest codes are compared by their vectors."""
NEAREST = 100
"""How many of them, with their neighbours, are candidates for the best."""
NEIGHBOUR_WEIGHTS = (0.3, 0.1)
ROWS_AT_ONCE = 10_000
BLOCKS_AT_ONCE = 8
# Pages of the database are read from the system's own memory, not copied into each process.
MAPPED_BYTES = 1 << 32
LARGEST_BYTE = 127
# The first dimension's bit is always set: an empty place in the file has none.
MARK = np.uint64(0x80)
EMPTY = np.uint16(0xFFFF)
UNKNOWN = 0xFFFFFFFF
"""The number of a scope without a passage."""

Floats = np.ndarray[Any, np.dtype[np.float32]]
Words = np.ndarray[Any, np.dtype[np.uint64]]
Numbers = np.ndarray[Any, np.dtype[np.int64]]


class PassageScopes:
    """Which passages are of a scope: one number for each passage, read once, since none ever changes."""

    def __init__(self, queries: Any) -> None:  # noqa: ANN401 - aiosql's are dynamic
        self._queries = queries
        # The number of each scope, and by passage id that of its scope (0: no passage). Both are replaced
        # together and never changed, so that threads need no lock.
        self._known: tuple[dict[str, int], Any] = {}, np.zeros(1, dtype=np.uint32)

    def mine(self, connection: sqlite3.Connection, scope: str) -> Any:  # noqa: ANN401 - an array of booleans
        """For each passage id whether it is of the scope; None when all are."""
        if scope == OWNER and not self._queries.has_scopes(connection):
            return None
        numbers, known = self._known
        newer = _rows(connection, self._queries.scopes_after, id=len(known) - 1)
        if newer:
            numbers = {**numbers}
            known = np.concatenate([known, np.zeros(newer[-1][0] + 1 - len(known), dtype=np.uint32)])
            for passage_id, name in newer:
                known[passage_id] = numbers.setdefault(name, len(numbers) + 1)
            self._known = numbers, known
        return known == numbers.get(scope, UNKNOWN)


class VectorIndex:
    """Searches the vectors of one model in one store."""

    def __init__(self, store: PassageStore, model: str) -> None:
        self._store = store
        self._queries = store.queries
        self._model = model
        self._digest = hashlib.sha256(model.encode()).digest()
        self._lock = threading.Lock()  # guards _map and _inode
        self._map: mmap.mmap | None = None
        self._inode = 0
        self._scopes = PassageScopes(store.queries)
        store.read(lambda connection: connection.execute(f"pragma mmap_size = {MAPPED_BYTES}"))

    def add(self, made: Sequence[tuple[int, str]], vectors: Floats) -> None:
        """Store the vectors of passages, each with the text that was embedded."""
        codes, stored = as_codes(vectors), as_bytes(vectors)
        with self._store.write() as connection:
            before = self._newest(connection)
            added = [
                (passage_id, codes[row])
                for row, (passage_id, text) in enumerate(made)
                if self._store.add_vector(connection, passage_id, text, self._model, stored[row].tobytes())
            ]
            head = self._head()
            # A file that is behind stays behind: `refresh` reads it all from the database.
            if added and head is not None and head.applied >= before:
                self._store.codes.add(added, head, self._newest(connection))

    def refresh(self) -> None:
        """Make what the file of codes lacks; all of it when it is missing, damaged or of another model."""
        if self._is_behind(self._store.read(self._newest)):
            while self._convert_float16() or self._add_codes():
                pass

    def nearest(
        self,
        connection: sqlite3.Connection,
        query: Floats,
        most: int,
        also: Iterable[Position] = (),
        *,
        least: float = -1.0,
        scope: str | None,
    ) -> dict[Position, float]:
        """The best positions for a query, and those in `also`, with scores that include their neighbours.

        A position that is not in `also` needs a similarity of its own of at least `least`. Only passages of
        the scope are looked at; None: all.
        """
        mine = None if scope is None else self._scopes.mine(connection, scope)
        best = self._nearest_positions(connection, query, self._nearest_codes(query, mine))
        named = set(also)
        wanted = np.array(
            sorted(named.union(*((best + step).tolist() for step in (-1, 0, 1)))), dtype=np.int64
        )
        around = np.unique(wanted[:, None] + np.arange(-2, 3)).tolist()
        rows = _rows(connection, self._queries.vectors_at, positions=json.dumps(around), model=self._model)
        own = _Similarities.of(rows, query)
        kept = np.array([each in named for each in wanted.tolist()], dtype=bool)
        similar = own.at(wanted, unknown=-np.inf)
        listed = (similar >= least) | (kept & (similar > -np.inf))
        wanted, kept = wanted[listed], kept[listed]
        mixed = own.with_neighbours(wanted)
        kept[np.argsort(-mixed, kind="stable")[:most]] = True
        return dict(zip(wanted[kept].tolist(), mixed[kept].tolist(), strict=True))

    def _nearest_positions(self, connection: sqlite3.Connection, query: Floats, ids: list[int]) -> Numbers:
        """Where the passages are whose vectors are nearest, of those with these ids."""
        read = self._queries.vectors_of
        own = _Similarities.of(_rows(connection, read, ids=json.dumps(ids), model=self._model), query)
        best = own.keys[np.argsort(-own.scores)[:NEAREST]].tolist()
        rows = _rows(connection, self._queries.positions_of, ids=json.dumps(best), scope=None)
        return np.array([position for _, position in rows], dtype=np.int64)

    def _nearest_codes(self, query: Floats, mine: Any) -> list[int]:  # noqa: ANN401 - an array of booleans
        """The ids of the passages with the nearest codes, of those that are `mine`; None: of all."""
        wanted = np.frombuffer(as_codes(query[None, :])[0], dtype=np.uint64)
        codes = self._mapped(len(wanted))
        if codes is None:
            return []
        distances = _distances(codes, wanted)
        if mine is not None:
            distances[len(mine) :] = EMPTY
            distances[: len(mine)][~mine[: len(distances)]] = EMPTY
        counts = np.cumsum(np.bincount(distances))
        cut = min(int(np.searchsorted(counts, CANDIDATES)), 64 * len(wanted))
        found: list[int] = np.flatnonzero(distances <= cut)[: 2 * CANDIDATES].tolist()
        return found

    def _mapped(self, words: int) -> Words | None:
        """The codes as blocks of columns; None when the file has none for this model."""
        with self._lock:
            try:
                status = self._store.codes.path.stat()
                if self._map is None or status.st_ino != self._inode or status.st_size != len(self._map):
                    file = os.open(self._store.codes.path, os.O_RDONLY)
                    try:
                        self._inode = os.fstat(file).st_ino
                        self._map = mmap.mmap(file, 0, access=mmap.ACCESS_READ)
                    finally:
                        os.close(file)
            except (OSError, ValueError):
                return None
            mapped = self._map
        head = read_head(mapped[:HEAD_LENGTH], len(mapped))
        if head is None or not self._is_ours(head) or head.words != words:
            return None
        blocks = (head.size - HEAD_BYTES) // (words * ROWS * WORD_BYTES)
        codes = np.frombuffer(mapped, dtype=np.uint64, count=blocks * words * ROWS, offset=HEAD_BYTES)
        return codes.reshape(blocks, words, ROWS)

    def _add_codes(self) -> bool:
        """Write the codes of some vectors that the file lacks; False when it has all."""
        with self._store.write() as connection:
            newest, head = self._newest(connection), self._head()
            applied = 0 if head is None else head.applied
            read = self._queries.vectors_after
            rows = _rows(connection, read, stamp=applied, model=self._model, most=ROWS_AT_ONCE)
            if not rows:
                return False
            codes = as_codes(_matrix([vector for _, _, vector in rows]))
            if head is None:
                head = CodesHead(len(codes[0]) // WORD_BYTES, self._store.mark, self._digest)
                self._store.codes.replace(head)
            added = [(passage_id, code) for (_, passage_id, _), code in zip(rows, codes, strict=True)]
            is_all = len(rows) < ROWS_AT_ONCE
            self._store.codes.add(added, head, newest if is_all else rows[-1][0])
            return not is_all

    def _convert_float16(self) -> bool:
        """Turn some vectors of the first version of the schema into bytes; False when none is left."""
        with self._store.write() as connection:
            left = self._queries.meta_value(connection, key="float16")
            if left is None:
                return False
            after, last = map(int, left.split())
            rows = _rows(connection, self._queries.float16_vectors, after=after, last=last, most=ROWS_AT_ONCE)
            for stamp, vector in rows:
                wide = np.frombuffer(vector, dtype=np.float16).astype(np.float32)
                narrow = as_bytes(wide[None, :]).tobytes()
                self._queries.change_vector(connection, stamp=stamp, vector=narrow)
            if len(rows) == ROWS_AT_ONCE:
                self._queries.set_meta(connection, key="float16", value=f"{rows[-1][0]} {last}")
            else:
                self._queries.drop_meta(connection, key="float16")
            return True

    def _is_behind(self, newest: int) -> bool:
        head = self._head()
        return newest > (0 if head is None else head.applied)

    def _head(self) -> CodesHead | None:
        """The head of the file, if it is one of this store and this model."""
        head = self._store.codes.head()
        return head if head is not None and self._is_ours(head) else None

    def _is_ours(self, head: CodesHead) -> bool:
        return head.model == self._digest and head.store == self._store.mark

    def _newest(self, connection: sqlite3.Connection) -> int:
        return int(self._queries.newest_stamp(connection, model=self._model))


def as_bytes(vectors: Floats) -> Any:  # noqa: ANN401 - a matrix of signed bytes
    """Rows as signed bytes; only their directions count, so each has its own scale."""
    largest = np.abs(vectors).max(axis=1, keepdims=True)
    return np.rint(vectors * (LARGEST_BYTE / np.maximum(largest, 1e-12))).astype(np.int8)


def as_codes(vectors: Floats) -> list[bytes]:
    """The bits of each row: whether a dimension is positive, filled up to whole words."""
    positive = vectors > 0
    positive[:, 0] = True
    bits = np.packbits(positive, axis=1)
    return [row.tobytes() for row in np.pad(bits, ((0, 0), (0, -bits.shape[1] % WORD_BYTES)))]


def _distances(codes: Words, wanted: Words) -> Any:  # noqa: ANN401 - an array of 16-bit numbers
    """In how many bits each place of the file differs."""
    found = np.empty((len(codes), ROWS), dtype=np.uint16)
    # Used again for each part: fresh memory for each took twice as long as the comparison.
    mixed = np.empty((BLOCKS_AT_ONCE, len(wanted), ROWS), dtype=np.uint64)
    counts = np.empty(mixed.shape, dtype=np.uint8)
    for begin in range(0, len(codes), BLOCKS_AT_ONCE):
        part = slice(begin, begin + BLOCKS_AT_ONCE)
        block = codes[part]
        used = slice(len(block))
        np.bitwise_xor(block, wanted[None, :, None], out=mixed[used])
        np.bitwise_count(mixed[used], out=counts[used])
        counts[used].sum(axis=1, dtype=np.uint16, out=found[part])
        found[part][(block[:, 0] & MARK) == 0] = EMPTY
    return found.ravel()


def _matrix(vectors: Sequence[bytes]) -> Floats:
    rows = np.frombuffer(b"".join(vectors), dtype=np.int8)
    return rows.reshape(len(vectors), -1).astype(np.float32)


@dataclass(frozen=True, slots=True)
class _Similarities:
    """The cosine of vectors with a question, by the ids or the positions of passages."""

    keys: Numbers
    """In ascending order."""
    scores: Any

    @classmethod
    def of(cls, rows: Sequence[Any], query: Floats) -> "_Similarities":
        """From rows of a number and a vector."""
        if not rows:
            return cls(np.zeros(0, dtype=np.int64), np.zeros(0))
        keys = np.array([row[0] for row in rows], dtype=np.int64)
        matrix = _matrix([row[1] for row in rows])
        lengths = np.sqrt(np.einsum("ij,ij->i", matrix, matrix))
        scores = (matrix @ query / np.maximum(lengths, 1e-12)).astype(np.float64)
        order = np.argsort(keys)
        return cls(keys[order], scores[order])

    def at(self, wanted: Numbers, unknown: float = 0.0) -> Any:  # noqa: ANN401 - an array of numbers
        if not len(self.keys):
            return np.full(len(wanted), unknown)
        at = np.minimum(np.searchsorted(self.keys, wanted), len(self.keys) - 1)
        return np.where(self.keys[at] == wanted, self.scores[at], unknown)

    def with_neighbours(self, wanted: Numbers) -> Any:  # noqa: ANN401 - an array of numbers
        return self.at(wanted) + sum(
            weight * (self.at(wanted - distance) + self.at(wanted + distance))
            for distance, weight in enumerate(NEIGHBOUR_WEIGHTS, 1)
        )


def _rows(connection: sqlite3.Connection, query: Any, **bound: object) -> list[Any]:  # noqa: ANN401 - aiosql's are dynamic
    # One fetchall is faster than the row-by-row iteration of aiosql.
    return connection.execute(query.sql, bound).fetchall()
