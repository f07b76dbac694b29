"""Which facts contradict each other: those that fill one frame with values that exclude each other."""

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, groupby
from operator import itemgetter
from typing import Any

from holdfast.memory.providers.holographic.claims import exclude_each_other

DISPUTES = 200
MOST_IN_ONE_FRAME = 50
# However many facts fill one frame, looking at it takes no longer.
MOST_COMPARED = 500
REASONS = {
    "polar": "one says the opposite of the other",
    "number": "they give different numbers or dates for the same thing",
    "slot": "they give different values for what has one value at a time",
}


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Two facts that can hardly both be true; the newer one is more likely to hold."""

    older: int
    newer: int
    reason: str


def contradictions(connection: sqlite3.Connection, queries: Any) -> list[Contradiction]:  # noqa: ANN401 - aiosql's are dynamic
    """Every pair, the newest disputes first, each pair once."""
    found: dict[tuple[int, int], Contradiction] = {}
    rows = list(queries.disputed_claims(connection, most=DISPUTES))
    for frame, claims in groupby(rows, key=itemgetter(0)):
        newest = list(claims)[-MOST_IN_ONE_FRAME:]
        for (_, value, older, _), (_, other, newer, _) in combinations(newest, 2):
            if older != newer and exclude_each_other(frame, value, other):
                found.setdefault((older, newer), Contradiction(older, newer, _reason(frame)))
    return list(found.values())


def rivals(connection: sqlite3.Connection, queries: Any, fact_id: int) -> list[Contradiction]:  # noqa: ANN401
    """The facts that contradict this one."""
    found: dict[int, Contradiction] = {}
    for frame, mine, theirs, other, is_newer in queries.rival_claims(
        connection, fact_id=fact_id, most=MOST_COMPARED
    ):
        if exclude_each_other(frame, mine, theirs):
            older, newer = (fact_id, other) if is_newer else (other, fact_id)
            found.setdefault(other, Contradiction(older, newer, _reason(frame)))
    return list(found.values())


def superseded(connection: sqlite3.Connection, queries: Any, fact_ids: Sequence[int]) -> dict[int, int]:  # noqa: ANN401
    """Of these facts those that a newer and no less trusted one contradicts, and which."""
    found: dict[int, int] = {}
    for frame, mine, theirs, fact_id, newer in queries.newer_claims(
        connection, ids=json.dumps(list(fact_ids)), most=MOST_COMPARED
    ):
        if exclude_each_other(frame, mine, theirs):
            found[fact_id] = max(newer, found.get(fact_id, 0))
    return found


def _reason(frame: str) -> str:
    return REASONS[frame.partition("|")[0]]
