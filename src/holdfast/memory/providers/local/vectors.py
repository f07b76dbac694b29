"""The vectors of all passages in one matrix, kept in step with the file: only what is new is read.

Brute force: at a hundred thousand passages one product takes a few milliseconds, less than an index that
approximates would save. Needs numpy, which comes with the `embeddings` extra.
"""

import sqlite3
import threading
from collections.abc import Iterable
from typing import Any

import numpy as np

from holdfast.memory.providers.local.lexical import Place

ROWS_AT_ONCE = 10_000
FIRST_CAPACITY = 1024
GROWTH = 1.3
NOBODY = -1
NEIGHBOUR_WEIGHTS = (0.3, 0.1)

# How many are looked at closer: one of the best has mostly a near neighbour, or is near by itself.
NEAREST = 300

Floats = np.ndarray[Any, np.dtype[np.float32]]
Rows = np.ndarray[Any, np.dtype[np.int64]]


class VectorMatrix:
    """Rows of length one. Row numbers stay as they are; the row of a forgotten passage is zero."""

    def __init__(self, queries: Any, model: str) -> None:  # noqa: ANN401 - aiosql's are dynamic
        self._queries = queries
        self._model = model
        self._lock = threading.Lock()  # guards everything below
        self._rows: Floats = np.zeros((0, 0), dtype=np.float32)
        self._links = np.full((2, 0), NOBODY, dtype=np.int64)
        self._alive = np.zeros(0, dtype=bool)
        self._places: list[Place] = []
        self._row_of: dict[Place, int] = {}
        self._row_of_passage: dict[int, int] = {}
        self._read_to = 0
        self._removed_to = 0

    def __len__(self) -> int:
        with self._lock:
            return len(self._row_of)

    def refresh(self, connection: sqlite3.Connection) -> None:
        """Take in what any process has added or removed since the last look."""
        with self._lock:
            while True:
                read = self._queries.vectors_after(
                    connection, stamp=self._read_to, model=self._model, most=ROWS_AT_ONCE
                )
                fresh = list(read)
                if fresh:
                    self._take_in(fresh)
                if len(fresh) < ROWS_AT_ONCE:
                    break
            for stamp, passage_id in self._queries.removals_after(connection, stamp=self._removed_to):
                self._drop(passage_id)
                self._removed_to = stamp

    def nearest(self, query: Floats, most: int, also: Iterable[Place] = ()) -> dict[Place, float]:
        """The best places for a query and their scores, their neighbours counted in; also these places."""
        with self._lock:
            count = len(self._places)
            if not count:
                return {}
            own = np.append(self._rows[:count] @ query, np.float32(0))
            best = np.argpartition(-own[:count], min(NEAREST, count) - 1)[:NEAREST]
            named = [self._row_of[place] for place in also if place in self._row_of]
            rows = np.unique(np.concatenate([best, *self._links[:, best], np.array(named, dtype=np.int64)]))
            rows = rows[rows != NOBODY]
            rows = rows[self._alive[rows]]
            scores = self._mixed(own, rows)
            kept = {int(rows[place]) for place in np.argsort(-scores)[:most]}.union(named)
            return {
                self._places[row]: float(score)
                for row, score in zip(rows, scores, strict=True)
                if row in kept
            }

    def _mixed(self, own: Floats, rows: Rows) -> Floats:
        """These rows' scores with their neighbours' share. The extra last score is nobody's: nothing."""
        mixed = own[rows]
        for links in self._links:
            near = links[rows]
            next_to_near = np.where(near == NOBODY, NOBODY, links[near])
            mixed += NEIGHBOUR_WEIGHTS[0] * own[near] + NEIGHBOUR_WEIGHTS[1] * own[next_to_near]
        return mixed

    def _take_in(self, fresh: list[Any]) -> None:
        vectors = np.frombuffer(b"".join(row[4] for row in fresh), dtype=np.float16).reshape(len(fresh), -1)
        self._make_room(len(self._places) + len(fresh), vectors.shape[1])
        for (stamp, passage_id, session, place, _), vector in zip(fresh, vectors, strict=True):
            self._read_to = stamp
            row = self._row_of_passage.get(passage_id)
            if row is None:
                row = self._new_row(passage_id, (session, place))
            self._rows[row] = vector

    def _new_row(self, passage_id: int, where: Place) -> int:
        row = len(self._places)
        self._places.append(where)
        self._row_of[where] = self._row_of_passage[passage_id] = row
        self._alive[row] = True
        session, place = where
        for direction, step in enumerate((-1, 1)):
            other = self._row_of.get((session, place + step), NOBODY)
            self._links[direction, row] = other
            if other != NOBODY:
                self._links[1 - direction, other] = row
        return row

    def _drop(self, passage_id: int) -> None:
        row = self._row_of_passage.pop(passage_id, None)
        if row is None:
            return
        # The place may belong to a newer passage by now.
        if self._row_of.get(self._places[row]) == row:
            del self._row_of[self._places[row]]
        self._rows[row] = 0
        self._alive[row] = False

    def _make_room(self, needed: int, width: int) -> None:
        have = len(self._alive)
        if needed <= have:
            return
        room = max(FIRST_CAPACITY, needed, int(have * GROWTH))
        rows = np.zeros((room, width), dtype=np.float32)
        links = np.full((2, room), NOBODY, dtype=np.int64)
        alive = np.zeros(room, dtype=bool)
        count = len(self._places)
        if count:
            rows[:count], links[:, :count], alive[:count] = (
                self._rows[:count],
                self._links[:, :count],
                self._alive[:count],
            )
        self._rows, self._links, self._alive = rows, links, alive
