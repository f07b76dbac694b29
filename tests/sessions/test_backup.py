"""A backup is one consistent file, taken while writers go on, and never replaces anything."""

import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from holdfast.core.errors import BackupRefused, StoreClosed, StoreFailure
from holdfast.sessions import SessionDB
from tests.sessions.databases import sqlite_database
from tests.sessions.store_fixtures import LONG, assistant, completed_turn, contents, user


@pytest.fixture
def db(tmp_path: Path) -> SessionDB:
    db = sqlite_database(tmp_path).open()
    db.create_session("s", source="cli")
    completed_turn(db, "s", "question", providers=["p"])
    return db


def others(folder: Path) -> set[str]:
    return {each.name for each in folder.iterdir() if not each.name.startswith("holdfast.db")}


def test_a_backup_is_one_file_that_opens_as_a_store(db: SessionDB, tmp_path: Path) -> None:
    target = tmp_path / "copy.db"
    db.backup(target)
    assert others(tmp_path) == {"copy.db"}
    assert target.stat().st_mode & 0o077 == 0
    db.sessions.append_message("s", user("after the backup"))
    with SessionDB(target) as copy:
        assert copy.get_messages("s") == db.get_messages("s")[:2]
        assert copy.check() == []
        assert len(copy.search("question")) == 2
        assert len(copy.outbox.list("owed")) == 1
        copy.sessions.append_message("s", user("only here"))
    db.close()


def test_a_backup_never_replaces_a_file(db: SessionDB, tmp_path: Path) -> None:
    existing = tmp_path / "precious.txt"
    existing.write_text("precious")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for target in (existing, tmp_path, tmp_path / "link", Path(db.location)):
        with pytest.raises(BackupRefused, match="exists"):
            db.backup(target)
    assert existing.read_text() == "precious"
    assert others(tmp_path) == {"precious.txt", "link"}
    db.close()


@pytest.mark.parametrize("below", ["missing/copy.db", "file/copy.db", "x" * 300])
def test_a_backup_that_can_not_be_written_is_refused_and_leaves_nothing(
    db: SessionDB, tmp_path: Path, below: str
) -> None:
    (tmp_path / "file").write_text("a file")
    with pytest.raises(BackupRefused, match="no backup was written"):
        db.backup(tmp_path / below)
    assert others(tmp_path) == {"file"}
    assert len(db.get_messages("s")) == 2
    db.close()


def test_a_closed_store_makes_no_backup(db: SessionDB, tmp_path: Path) -> None:
    db.close()
    with pytest.raises((BackupRefused, StoreClosed), match="closed"):
        db.backup(tmp_path / "copy.db")
    assert others(tmp_path) == set()


def test_a_backup_under_writers_is_consistent(db: SessionDB, tmp_path: Path) -> None:
    stop = threading.Event()
    written: list[int] = []

    def write() -> None:
        while not stop.is_set():
            turn = db.turns.open("s", user("q"))
            db.turns.complete(turn.id, assistant("a"), providers=["p", "q"])
            written.append(len(written))

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    for number in range(5):
        before = len(written)
        db.backup(tmp_path / f"copy{number}.db")
        with SessionDB(tmp_path / f"copy{number}.db") as copy:
            assert copy.check() == []
            session = copy.get_session("s")
            assert session is not None
            completed = session.generation
            assert completed >= before + 1, "all that was acknowledged before is in it"
            assert len(copy.get_messages("s")) >= 2 * completed
            assert copy.outbox.backlog("q").owed == completed - 1
    stop.set()
    writer.join(LONG)
    db.close()


def test_a_backup_reads_with_plain_sqlite_and_needs_no_log(db: SessionDB, tmp_path: Path) -> None:
    db.backup(tmp_path / "copy.db")
    connection = sqlite3.connect(f"file:{tmp_path}/copy.db?mode=ro&immutable=1", uri=True)
    assert connection.execute("select count(*) from messages").fetchone() == (2,)
    assert connection.execute("pragma journal_mode").fetchone() == ("delete",)
    connection.close()
    db.close()


def test_a_store_in_memory_refuses_a_backup_by_name(tmp_path: Path) -> None:
    # In a process of its own: a copy that waits for itself could not be stopped.
    program = """
import sys
from holdfast.core.errors import StoreFailure
from holdfast.sessions import SessionDB
with SessionDB(":memory:") as db:
    db.create_session("s", source="cli")
    try:
        db.backup(sys.argv[1])
    except StoreFailure as refused:
        print(type(refused).__name__)
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "copy.db")],
        capture_output=True,
        text=True,
        timeout=20,
        check=True,
    )
    assert done.stdout.strip() == BackupRefused.__name__
    assert others(tmp_path) == set()


def test_a_damaged_database_is_not_copied_as_if_it_were_sound(tmp_path: Path) -> None:
    place = sqlite_database(tmp_path)
    db = place.open()
    db.create_session("s", source="cli")
    db.sessions.append_messages("s", [user("x" * 2_000) for _ in range(200)])
    db.close()
    path = tmp_path / "holdfast.db"
    connection = sqlite3.connect(path)
    [(root,)] = connection.execute("select rootpage from sqlite_schema where name = 'messages'")
    [(size,)] = connection.execute("pragma page_size")
    connection.close()
    with path.open("r+b") as file:
        file.seek((root - 1) * size)
        file.write(b"\xff" * size)
    with SessionDB(path) as damaged:
        with pytest.raises(StoreFailure):
            damaged.backup(tmp_path / "copy.db")
        assert contents(damaged.get_messages("nobody")) == []
    assert others(tmp_path) == set()
