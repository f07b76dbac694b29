"""Holographic vectors: words, names and facts as vectors of phases, and a matrix of all facts.

A vector has 1024 phases in steps of 1/256 of a turn, so an atom is just the bytes of a hash, binding is
addition that wraps around, and a fact takes a kilobyte. Similarity is the mean cosine of the differences: 1
for the same vector, about 0 for unrelated ones. Needs numpy, which comes with the `holographic` extra.
"""

import hashlib
import sqlite3
import threading
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

DIMENSIONS = 1024
STEPS = 256
ROLE_CONTENT, ROLE_ENTITY = "role:content", "role:entity"
ROWS_AT_ONCE = 5_000
COMPARED_AT_ONCE = 1_024
FIRST_CAPACITY = 1_024
GROWTH = 1.5

Phases = np.ndarray[Any, np.dtype[np.uint8]]
Floats = np.ndarray[Any, np.dtype[np.float32]]

_ANGLES = np.arange(STEPS) * (2 * np.pi / STEPS)
COSINES: Floats = np.cos(_ANGLES).astype(np.float32)
SINES: Floats = np.sin(_ANGLES).astype(np.float32)


@lru_cache(maxsize=4_096)
def atom(name: str) -> Phases:
    """The vector of one symbol: the same in every process and on every machine."""
    made = np.frombuffer(hashlib.shake_256(name.encode("utf-8", "replace")).digest(DIMENSIONS), np.uint8)
    made.flags.writeable = False
    return made


def bind(one: Phases, other: Phases) -> Phases:
    """Bind two vectors; the result is similar to neither."""
    return one + other


def bundle(vectors: Sequence[Phases]) -> Phases:
    """Bundle vectors by their circular mean; the result is similar to each of them."""
    if len(vectors) == 1:
        return vectors[0]
    together = np.stack(vectors)
    x, y = COSINES[together].sum(axis=0), SINES[together].sum(axis=0)
    mean: Phases = np.rint(np.arctan2(y, x) * (STEPS / (2 * np.pi))).astype(np.int16).astype(np.uint8)
    return mean


def text_vector(stems: Iterable[str]) -> Phases | None:
    """A text as the bundle of its stems; None when it has none."""
    atoms = [atom(f"word:{each}") for each in dict.fromkeys(stems)]
    return bundle(atoms) if atoms else None


def content_vector(stems: Iterable[str]) -> Phases | None:
    """The vector of a text, bound to the role that the text of a fact has."""
    text = text_vector(stems)
    return None if text is None else bind(text, atom(ROLE_CONTENT))


def entity_vector(key: str) -> Phases:
    """The vector of an entity, bound to the role that the entities of a fact have."""
    return bind(atom(f"entity:{key}"), atom(ROLE_ENTITY))


def fact_vector(stems: Iterable[str], entity_keys: Sequence[str]) -> Phases:
    """A fact: its text and its names, each bound with its role."""
    content = content_vector(stems)
    parts = [] if content is None else [content]
    parts += [entity_vector(key) for key in entity_keys]
    return bundle(parts or [atom(ROLE_CONTENT)])


class FactMatrix:
    """The vectors of all facts; a refresh reads only the changes in the file."""

    def __init__(self, queries: Any) -> None:  # noqa: ANN401 - aiosql's are dynamic
        self._queries = queries
        self._lock = threading.Lock()  # guards everything below
        self._rows: Phases = np.zeros((0, DIMENSIONS), dtype=np.uint8)
        self._row_of: dict[int, int] = {}
        self._free: list[int] = []
        self._read_to = 0
        self._removed_to = 0

    def __len__(self) -> int:
        with self._lock:
            return len(self._row_of)

    def refresh(self, connection: sqlite3.Connection) -> None:
        """Apply the additions, changes and deletions of any process since the last refresh."""
        with self._lock:
            while True:
                fresh = list(self._queries.vectors_after(connection, stamp=self._read_to, most=ROWS_AT_ONCE))
                for stamp, fact_id, blob in fresh:
                    row = self._row(fact_id)
                    self._rows[row] = np.frombuffer(blob, np.uint8)
                    self._read_to = stamp
                if len(fresh) < ROWS_AT_ONCE:
                    break
            for stamp, fact_id in self._queries.removals_after(connection, stamp=self._removed_to):
                self._removed_to = stamp
                gone = self._row_of.pop(fact_id, None)
                if gone is not None:
                    self._free.append(gone)

    def similarities(self, query: Phases, fact_ids: Sequence[int]) -> dict[int, float]:
        """The similarity of each of these facts to the query."""
        with self._lock:
            known = [fact_id for fact_id in fact_ids if fact_id in self._row_of]
            rows = np.array([self._row_of[fact_id] for fact_id in known], dtype=np.int64)
            scores: list[float] = []
            for begin in range(0, len(rows), COMPARED_AT_ONCE):
                some = self._rows[rows[begin : begin + COMPARED_AT_ONCE]]
                scores.extend(COSINES.take(some - query).mean(axis=1).tolist())
        return dict(zip(known, scores, strict=True))

    def _row(self, fact_id: int) -> int:
        row = self._row_of.get(fact_id)
        if row is None:
            row = self._free.pop() if self._free else len(self._row_of)
            self._row_of[fact_id] = row
            if row >= len(self._rows):
                self._make_room(row + 1)
        return row

    def _make_room(self, needed: int) -> None:
        room = max(FIRST_CAPACITY, needed, int(len(self._rows) * GROWTH))
        rows = np.zeros((room, DIMENSIONS), dtype=np.uint8)
        rows[: len(self._rows)] = self._rows
        self._rows = rows
