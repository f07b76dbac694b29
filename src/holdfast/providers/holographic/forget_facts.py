"""Deletes facts for a forgetting: by id, by what stated them, and by time."""

import json
import sqlite3
from collections.abc import Sequence

from holdfast.memory.forgetting import ForgetReport, ForgetRequest
from holdfast.providers.holographic.facts import WHOLE_SESSION
from holdfast.providers.holographic.store import FactStore
from holdfast.providers.local.passages import MICRO


def forget_facts(store: FactStore, request: ForgetRequest) -> ForgetReport:
    """Delete facts in one transaction. A fact that something else states too is kept."""
    with store.write() as connection:
        doomed = dict.fromkeys(_of_turns(store, connection, request))
        doomed |= dict.fromkeys(_of_sessions(store, connection, request.sessions))
        if request.period is not None:
            after, before = (int(each * MICRO) for each in request.period)
            rows = store.queries.facts_between(connection, after=after, before=before)
            doomed |= dict.fromkeys(row[0] for row in rows)
        named = [int(each) for each in request.memory_ids]
        forgotten = sum(store.drop_in(connection, each, for_good=True) for each in named)
        forgotten += sum(store.drop_in(connection, each, for_good=False) for each in doomed)
        concerned = sorted({session_id for session_id, _ in request.turns})
        store.queries.drop_queued_conversations(connection, sessions=json.dumps(concerned))
        left = sum(
            int(store.queries.facts_of_whole_session(connection, session_id=each))
            for each in {session_id for session_id, _ in request.turns_of_other_sessions()}
        )
        if forgotten:
            store.queries.merge_index(connection)
    # Also when nothing was left to delete: who deleted it may have been killed before this.
    store.clean_log()
    return ForgetReport(forgotten, _kept(left))


def _of_turns(store: FactStore, connection: sqlite3.Connection, request: ForgetRequest) -> list[int]:
    found = []
    for session_id, turn_id in request.turns:
        rows = list(store.queries.facts_stated_in(connection, session_id=session_id, turn_id=turn_id))
        for (fact_id,) in rows:
            store.queries.drop_source(connection, fact_id=fact_id, session_id=session_id, turn_id=turn_id)
            # What was extracted from a conversation as a whole may come from this very turn.
            if not store.queries.is_stated_elsewhere(connection, fact_id=fact_id, whole=0):
                found.append(fact_id)
    return found


def _of_sessions(store: FactStore, connection: sqlite3.Connection, sessions: Sequence[str]) -> list[int]:
    found = []
    for session_id in sessions:
        where = {"session_id": session_id, "turn_id": WHOLE_SESSION}
        for (fact_id,) in list(store.queries.facts_stated_in(connection, **where)):
            store.queries.drop_source(connection, fact_id=fact_id, **where)
            if not store.queries.is_stated_elsewhere(connection, fact_id=fact_id, whole=1):
                found.append(fact_id)
    return found


def _kept(left: int) -> str:
    if not left:
        return ""
    facts = "1 fact was" if left == 1 else f"{left} facts were"
    return (
        f"{facts} extracted from conversations of which other turns stay, and can't be told apart by turn;"
        " forget the whole conversation, or search for them and forget them one by one"
    )
