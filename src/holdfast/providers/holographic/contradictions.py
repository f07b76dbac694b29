"""Finds facts that contradict each other: they give one frame values that exclude each other."""

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, groupby
from operator import itemgetter
from typing import Any

from holdfast.providers.holographic.claims import exclude_each_other

DISPUTES = 200
MAX_PER_FRAME = 50
# Limits the time for a frame with many facts.
MAX_COMPARED = 500
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


def all_contradictions(connection: sqlite3.Connection, queries: Any) -> list[Contradiction]:  # noqa: ANN401 - aiosql's are dynamic
    """All pairs of facts that contradict each other, newest first, each pair once."""
    found: dict[tuple[int, int], Contradiction] = {}
    rows = list(queries.disputed_claims(connection, most=DISPUTES))
    for frame, claims in groupby(rows, key=itemgetter(0)):
        newest = list(claims)[-MAX_PER_FRAME:]
        for (_, value, older, _), (_, other, newer, _) in combinations(newest, 2):
            if older != newer and exclude_each_other(frame, value, other):
                found.setdefault((older, newer), Contradiction(older, newer, _reason(frame)))
    return list(found.values())


def contradictions_of(connection: sqlite3.Connection, queries: Any, fact_id: int) -> list[Contradiction]:  # noqa: ANN401
    """The facts that contradict this one."""
    found: dict[int, Contradiction] = {}
    for frame, mine, theirs, other, is_newer in queries.rival_claims(
        connection, fact_id=fact_id, most=MAX_COMPARED
    ):
        if exclude_each_other(frame, mine, theirs):
            older, newer = (fact_id, other) if is_newer else (other, fact_id)
            found.setdefault(other, Contradiction(older, newer, _reason(frame)))
    return list(found.values())


def superseded_facts(connection: sqlite3.Connection, queries: Any, fact_ids: Sequence[int]) -> dict[int, int]:  # noqa: ANN401
    """The facts that a newer, equally trusted fact contradicts, each with the newest such fact."""
    found: dict[int, int] = {}
    for frame, mine, theirs, fact_id, newer in queries.newer_claims(
        connection, ids=json.dumps(list(fact_ids)), most=MAX_COMPARED
    ):
        if exclude_each_other(frame, mine, theirs):
            found[fact_id] = max(newer, found.get(fact_id, 0))
    return found


def _reason(frame: str) -> str:
    return REASONS[frame.partition("|")[0]]
