"""The vectors of all passages in one matrix; a refresh reads only the changes in the file.

The search is brute force: with a hundred thousand passages one product takes a few milliseconds, so an
approximate index would not pay. Needs numpy, which comes with the `embeddings` extra.
"""

import sqlite3
import threading
from collections.abc import Iterable
from typing import Any

import numpy as np

from holdfast.providers.local.full_text import Position

ROWS_AT_ONCE = 10_000
FIRST_CAPACITY = 1024
GROWTH = 1.3
NOBODY = -1
NEIGHBOUR_WEIGHTS = (0.3, 0.1)

# How many nearest rows, with their neighbours, are candidates for the best ones.
NEAREST = 300

Floats = np.ndarray[Any, np.dtype[np.float32]]
Rows = np.ndarray[Any, np.dtype[np.int64]]


class VectorMatrix:
    """Normalised rows. Row numbers never change; the row of a deleted passage is zero."""

    def __init__(self, queries: Any, model: str) -> None:  # noqa: ANN401 - aiosql's are dynamic
        self._queries = queries
        self._model = model
        self._lock = threading.Lock()  # guards everything below
        self._rows: Floats = np.zeros((0, 0), dtype=np.float32)
        self._links = np.full((2, 0), NOBODY, dtype=np.int64)
        self._alive = np.zeros(0, dtype=bool)
        self._positions: list[Position] = []
        self._row_of: dict[Position, int] = {}
        self._row_of_passage: dict[int, int] = {}
        self._read_to = 0
        self._removed_to = 0

    def __len__(self) -> int:
        with self._lock:
            return len(self._row_of)

    def refresh(self, connection: sqlite3.Connection) -> None:
        """Apply the additions and deletions of any process since the last refresh."""
        with self._lock:
            while True:
                read = self._queries.vectors_after(
                    connection, stamp=self._read_to, model=self._model, most=ROWS_AT_ONCE
                )
                fresh = list(read)
                if fresh:
                    self._add_rows(fresh)
                if len(fresh) < ROWS_AT_ONCE:
                    break
            for stamp, passage_id in self._queries.removals_after(connection, stamp=self._removed_to):
                self._drop(passage_id)
                self._removed_to = stamp

    def nearest(
        self, query: Floats, most: int, also: Iterable[Position] = (), *, least: float = -1.0
    ) -> dict[Position, float]:
        """The best positions for a query, and those in `also`, with scores that include their neighbours.

        A position that is not in `also` needs a similarity of its own of at least `least`.
        """
        with self._lock:
            count = len(self._positions)
            if not count:
                return {}
            own = np.append(self._rows[:count] @ query, np.float32(0))
            best = np.argpartition(-own[:count], min(NEAREST, count) - 1)[:NEAREST]
            named = [self._row_of[position] for position in also if position in self._row_of]
            rows = np.unique(np.concatenate([best, *self._links[:, best], np.array(named, dtype=np.int64)]))
            rows = rows[rows != NOBODY]
            rows = rows[self._alive[rows] & ((own[rows] >= least) | np.isin(rows, named))]
            scores = self._mixed(own, rows)
            kept = {int(rows[position]) for position in np.argsort(-scores)[:most]}.union(named)
            return {
                self._positions[row]: float(score)
                for row, score in zip(rows, scores, strict=True)
                if row in kept
            }

    def _mixed(self, own: Floats, rows: Rows) -> Floats:
        """The scores of rows including their neighbours. The extra last score, 0, stands for no neighbour."""
        mixed = own[rows]
        for links in self._links:
            near = links[rows]
            next_to_near = np.where(near == NOBODY, NOBODY, links[near])
            mixed += NEIGHBOUR_WEIGHTS[0] * own[near] + NEIGHBOUR_WEIGHTS[1] * own[next_to_near]
        return mixed

    def _add_rows(self, fresh: list[Any]) -> None:
        vectors = np.frombuffer(b"".join(row[4] for row in fresh), dtype=np.float16).reshape(len(fresh), -1)
        self._make_room(len(self._positions) + len(fresh), vectors.shape[1])
        for (stamp, passage_id, session, position, _), vector in zip(fresh, vectors, strict=True):
            self._read_to = stamp
            row = self._row_of_passage.get(passage_id)
            if row is None:
                row = self._new_row(passage_id, (session, position))
            self._rows[row] = vector

    def _new_row(self, passage_id: int, where: Position) -> int:
        row = len(self._positions)
        self._positions.append(where)
        self._row_of[where] = self._row_of_passage[passage_id] = row
        self._alive[row] = True
        session, position = where
        for direction, step in enumerate((-1, 1)):
            other = self._row_of.get((session, position + step), NOBODY)
            self._links[direction, row] = other
            if other != NOBODY:
                self._links[1 - direction, other] = row
        return row

    def _drop(self, passage_id: int) -> None:
        row = self._row_of_passage.pop(passage_id, None)
        if row is None:
            return
        # A newer passage may have this position by now.
        if self._row_of.get(self._positions[row]) == row:
            del self._row_of[self._positions[row]]
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
        count = len(self._positions)
        if count:
            rows[:count], links[:, :count], alive[:count] = (
                self._rows[:count],
                self._links[:, :count],
                self._alive[:count],
            )
        self._rows, self._links, self._alive = rows, links, alive
