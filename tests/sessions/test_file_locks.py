"""Other programs hold the SQLite file: they are waited for, and named when it takes too long."""

import sqlite3
from pathlib import Path

import pytest

from holdfast.core.errors import StoreBusy
from holdfast.sessions import SessionDB
from tests.sessions.store_fixtures import LONG, Outcome, contents, together, until, user


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "holdfast.db"


class Intruder:
    """Another program that holds the write lock of the file."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._connection.execute("begin immediate")

    def leave(self) -> None:
        self._connection.execute("rollback")
        self._connection.close()


def test_a_lock_longer_than_the_patience_is_a_named_error_and_then_all_works_again(
    path: Path,
) -> None:
    with SessionDB(path, patience=0.05) as db:
        db.create_session("s", source="cli")
        db.sessions.append_message("s", user("before"))
        intruder = Intruder(path)
        for _ in range(2):
            with pytest.raises(StoreBusy, match="stored nothing") as busy:
                db.sessions.append_message("s", user("lost"))
            assert "database is locked" not in str(busy.value)
        assert contents(db.get_messages("s")) == ["before"], "reading goes on"
        intruder.leave()
        db.sessions.append_message("s", user("after"))
        assert contents(db.get_messages("s")) == ["before", "after"]


def test_a_lock_shorter_than_the_patience_is_only_waited_for(path: Path) -> None:
    with SessionDB(path, patience=LONG) as db:
        db.create_session("s", source="cli")
        intruder = Intruder(path)
        outcomes = [
            Outcome(lambda n=n: db.sessions.append_message("s", user(str(n))))  # type: ignore[misc]
            for n in range(4)
        ]
        assert all(outcome.is_waiting for outcome in outcomes)
        intruder.leave()
        assert [outcome.wait().error for outcome in outcomes] == [None] * 4
        assert len(db.get_messages("s")) == 4


def test_nobody_waits_for_a_search_index_that_waits_for_the_file(path: Path) -> None:
    db = SessionDB(path, patience=2 * LONG)
    db.create_session("s", source="cli")
    # More than the writer can index before the intruder comes.
    db.sessions.append_messages("s", [user(f"word{number}") for number in range(4_000)])
    intruder = Intruder(path)
    tried: list[str] = []
    db._engine._writer._connection.set_trace_callback(tried.append)  # type: ignore[attr-defined]  # noqa: SLF001
    until(lambda: "begin immediate" in tried)
    Outcome(db.close).wait()
    intruder.leave()
    with SessionDB(path) as again:
        assert len(again.search("word3999")) == 1


@pytest.mark.parametrize("lock", ["begin exclusive", "begin immediate"])
def test_opening_waits_for_a_program_that_holds_the_new_file(path: Path, lock: str) -> None:
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute(lock)
    with pytest.raises(StoreBusy):
        SessionDB(path, patience=0.05)
    opening = Outcome(lambda: SessionDB(path, patience=LONG))
    opening._thread.join(0.2)  # noqa: SLF001 - time enough to give up too early
    assert opening.is_waiting
    holder.execute("rollback")
    holder.close()
    assert opening.wait().error is None
    opening.result.create_session("s", source="cli")
    opening.result.close()


def test_many_open_a_fresh_file_at_once(path: Path) -> None:
    outcomes = together(*(lambda: SessionDB(path) for _ in range(8)))
    stores = [outcome for outcome in outcomes if isinstance(outcome, SessionDB)]
    assert len(stores) == 8, outcomes
    for number, store in enumerate(stores):
        store.create_session(str(number), source="cli")
    assert all(stores[0].get_session(str(number)) for number in range(8))
    for store in stores:
        store.close()
