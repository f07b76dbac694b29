"""A recall reads and computes only what can be among the best, and finds the same as if it had done all."""

import sqlite3
from pathlib import Path

from holdfast.providers.local import LocalMemory
from holdfast.providers.local.recall import HybridRecall
from holdfast.providers.local.store import PassageStore
from holdfast.sessions.contract import OWNER
from holdfast.testing import FakeClock
from tests.providers.local.completed_turns import turn


def steps(store: PassageStore, query: str) -> int:
    """How many instructions SQLite runs for a recall in the session."""
    counted: list[int] = []

    def count(connection: sqlite3.Connection) -> None:
        connection.set_progress_handler(lambda: counted.append(1), 1)

    store.read(count)
    recall = HybridRecall(store, None, None)
    assert recall.search(query, 5, session_id="s1", in_context=2, scope=OWNER)
    store.read(lambda connection: connection.set_progress_handler(None, 0))
    return len(counted)


def test_a_recall_does_not_read_the_whole_session_in_which_it_is_asked(path: Path) -> None:
    store = PassageStore(str(path), clock=FakeClock())
    store.add_turns([turn(1, "the zebra is striped"), *(turn(each, "hm") for each in range(2, 20))], OWNER)
    before = steps(store, "which animal is a zebra?")
    store.add_turns([turn(each, "hm") for each in range(20, 400)], OWNER)
    assert steps(store, "which animal is a zebra?") <= before
    store.close()


def test_a_question_that_was_asked_before_in_the_session_is_not_recalled_with_its_answer(
    memory: LocalMemory,
) -> None:
    asked = "which animal is a zebra?"
    memory.sync_turns([turn(1, asked, "a zebra is a horse"), turn(2, "a zebra eats grass")])
    memory.sync_turns([turn(1, asked, "a zebra is striped", session="s2")])
    here = {each.text for each in memory.search(asked, session_id="s1")}
    assert not here & {"a zebra is a horse"}
    assert {"a zebra is striped", asked} <= here
