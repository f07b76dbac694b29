"""Calls that are wrong, come at a bad moment or from a bad place: a clear error, and nothing lost."""

import multiprocessing
import os
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, ClassVar, cast

import pytest

from holdfast.core.clock import SystemClock
from holdfast.core.errors import BackupRefused, InvalidInput, StoreUnopenable
from holdfast.sessions import SessionDB
from holdfast.sessions.queries import load_queries
from holdfast.sessions.sqlite.connection import SqliteFile
from holdfast.sessions.sqlite.open_files import OpenFiles
from holdfast.sessions.sqlite.readers import ReaderPool
from holdfast.sessions.transcripts import find_session
from tests.sessions.store_fixtures import assistant, together, user

DEADLINE = 60


@pytest.mark.parametrize("take", ["abc", b"abc", ["a", "b", "c"], 1.0, True])
def test_what_is_taken_from_the_inbox_is_named_by_its_number(db: SessionDB, take: object) -> None:
    db.create_session("s", source="test")
    with pytest.raises(InvalidInput, match="whole number"):
        db.turns.open("s", take=cast(Any, take))
    assert db.get_messages("s") == []
    assert db.turns.unfinished() == []


@pytest.mark.parametrize("providers", ["local", {"local": 1}, 3])
def test_providers_come_in_a_list(db: SessionDB, providers: object) -> None:
    db.create_session("s", source="test")
    turn = db.turns.open("s", user("hi"))
    with pytest.raises(InvalidInput, match="in a list"):
        db.turns.complete(turn.id, assistant("ho"), providers=cast(Any, providers))
    assert db.turns.complete(turn.id, assistant("ho"), providers=["local"]).state == "completed"
    assert [each.provider for each in db.outbox.list("owed")] == ["local"]


def test_a_store_is_a_regular_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(StoreUnopenable, match="not a regular file"):
        SessionDB(tmp_path / "pipe")


def append_in_a_child(path: str, answer: "multiprocessing.connection.Connection[str, str]") -> None:
    try:
        with SessionDB(path) as db:
            db.sessions.append_message("s", user("from the child"))
        answer.send("stored")
    except StoreUnopenable as refused:
        answer.send(str(refused))


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@pytest.mark.parametrize("open_in_parent", [True, False])
def test_a_forked_child_opens_no_file_that_its_parent_has_open(tmp_path: Path, open_in_parent: bool) -> None:
    path = str(tmp_path / "holdfast.db")
    db = SessionDB(path)
    db.create_session("s", source="test")
    if not open_in_parent:
        db.close()
    here, there = multiprocessing.Pipe()
    child = multiprocessing.get_context("fork").Process(target=append_in_a_child, args=(path, there))
    child.start()
    assert here.poll(DEADLINE)
    said = here.recv()
    child.join(DEADLINE)
    db.close()
    with SessionDB(path) as again:
        texts = [message.get("content") for message in again.get_messages("s")]
    if open_in_parent:
        assert "forked from one that has it open" in said
        assert texts == []
    else:
        assert (said, texts) == ("stored", ["from the child"])


def test_of_two_backups_to_one_name_one_is_refused(tmp_path: Path) -> None:
    with SessionDB(tmp_path / "holdfast.db") as db:
        db.create_session("s", source="test")

        def backup() -> str:
            try:
                db.backup(tmp_path / "copy.db")
            except BackupRefused:
                return "refused"
            return "written"

        for _ in range(5):
            assert sorted(map(str, together(backup, backup))) == ["refused", "written"]
            (tmp_path / "copy.db").unlink()
        assert [each.name for each in tmp_path.iterdir() if "unfinished" in each.name] == []


def test_a_search_ends_while_others_append_without_a_pause(tmp_path: Path) -> None:
    with SessionDB(tmp_path / "holdfast.db") as db:
        db.create_session("s", source="test")
        db.sessions.append_message("s", user("needle"))
        stop = threading.Event()

        def append() -> None:
            while not stop.is_set():
                db.sessions.append_messages("s", [user("hay " * 20)] * 300)

        appending = threading.Thread(target=append)
        appending.start()
        try:
            assert [hit.seq for hit in db.search("needle")] == [0]
        finally:
            stop.set()
            appending.join()


class Interrupted(BaseException):
    pass


class InterruptedConnection(sqlite3.Connection):
    """Begins a transaction, and is interrupted, once, before anybody hears of it."""

    interrupted = False

    def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:  # noqa: ANN401 - as sqlite3 has it
        result = super().execute(sql, *parameters)
        if sql == "begin" and not self.interrupted:
            self.interrupted = True
            raise Interrupted
        return result


class InterruptedFile(SqliteFile):
    """Its first connection is interrupted, the later ones are whole."""

    made: ClassVar[list[sqlite3.Connection]] = []

    def connect(self, *, read_only: bool = False) -> sqlite3.Connection:
        if self.made:
            return super().connect(read_only=read_only)
        self.made.append(sqlite3.connect(self.path, factory=InterruptedConnection, isolation_level=None))
        return self.made[0]


def test_an_interrupt_in_a_read_leaves_later_reads_whole(tmp_path: Path) -> None:
    path = str(tmp_path / "holdfast.db")
    with SessionDB(path) as db:
        db.create_session("s", source="test")
    file = InterruptedFile(path, SystemClock(), 5)
    looking = sqlite3.connect(path)
    readers = ReaderPool(file, OpenFiles(looking, path), load_queries("sqlite", "sqlite3"))
    looking.close()
    with pytest.raises(Interrupted):
        readers.read(lambda tx: find_session(tx, "s"))
    assert readers.read(lambda tx: find_session(tx, "s")) is not None
    readers.close()


LATE = {
    "a write": "self.db.sessions.append_message('s', {'role': 'user', 'content': 'late'})",
    "a close": "self.db.close()",
    "a close that holds a lock": "self.db.close()",
}


@pytest.mark.slow
@pytest.mark.clause("X1")
@pytest.mark.parametrize("late", LATE)
def test_a_call_from_a_destructor_at_exit_does_not_hold_the_process(late: str, tmp_path: Path) -> None:
    script = f"""
from holdfast import SessionDB
db = SessionDB({str(tmp_path / "holdfast.db")!r})
db.create_session("s", source="test")
{"db.try_acquire_compression_lock('s', 'me')" if "lock" in late else ""}
class Late:
    def __init__(self, db): self.db = db
    def __del__(self): {LATE[late]}
late = Late(db)
print("ready", flush=True)
"""
    child = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=DEADLINE, check=False
    )
    assert child.stdout == "ready\n"
    with SessionDB(tmp_path / "holdfast.db") as db:
        assert db.get_session("s") is not None


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf"), 1e12])
def test_a_claim_and_a_lease_last_a_sensible_time(db: SessionDB, seconds: float) -> None:
    lease = db.leases.acquire("name", "me", ttl_seconds=10)
    assert lease is not None
    for call in (
        lambda: db.outbox.claim("p", lease_seconds=seconds),
        lambda: db.leases.acquire("other", "me", ttl_seconds=seconds),
        lambda: db.leases.renew(lease, ttl_seconds=seconds),
    ):
        with pytest.raises(InvalidInput, match="more than 0 s"):
            call()
    assert db.leases.current("name") == lease
