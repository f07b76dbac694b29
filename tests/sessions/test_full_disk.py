"""A full disk is named, keeps what was written, and the store works again once there is space."""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.core.errors import DiskFull, StoreFailure
from holdfast.sessions import SessionDB, Transaction
from tests.sessions.store_fixtures import contents, user

ROOT = os.geteuid() == 0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "holdfast.db"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1.5 MB."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1536k", "tmpfs", str(place)]
    if not ROOT or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount a file system")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_full_disk_is_named_keeps_what_was_written_and_works_again_later(small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"x" * 600_000)
    with SessionDB(small_disk / "holdfast.db") as db:
        db.create_session("s", source="cli")
        refused: DiskFull | None = None
        written = 0
        while refused is None:
            try:
                db.sessions.append_message("s", user("many words to fill a disk " * 50))
                written += 1
            except DiskFull as full:
                refused = full
        assert "Free some space" in str(refused)
        assert len(db.get_messages("s")) == written > 0
        ballast.unlink()
        db.sessions.append_message("s", user("there is space again"))
        assert len(db.get_messages("s")) == written + 1
        assert db.check() == []
    with SessionDB(small_disk / "holdfast.db") as db:
        assert len(db.get_messages("s")) == written + 1


def test_opening_on_a_full_disk_is_named_and_works_later(small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    with contextlib.suppress(OSError), ballast.open("wb") as file:
        file.write(b"x" * 2_000_000)
    with pytest.raises(StoreFailure) as refused:
        SessionDB(small_disk / "holdfast.db")
    assert isinstance(refused.value, DiskFull), repr(refused.value)
    ballast.unlink()
    with SessionDB(small_disk / "holdfast.db") as db:
        db.create_session("s", source="cli")


def test_a_database_at_its_size_limit_is_full_by_name(path: Path) -> None:
    with SessionDB(path) as db:
        db.create_session("s", source="cli")
        engine = db._engine  # noqa: SLF001 - the limit is set per connection

        def limit(tx: Transaction, pages: int) -> None:
            tx.connection.execute(f"pragma max_page_count = {pages}")

        pages = engine.read(lambda tx: tx.connection.execute("pragma page_count").fetchone()[0])
        engine.write(lambda tx: limit(tx, pages + 5))
        with pytest.raises(DiskFull, match="Free some space"):
            db.sessions.append_messages("s", [user("x" * 1_000) for _ in range(100)])
        assert db.get_messages("s") == [], "all or none"
        engine.write(lambda tx: limit(tx, 2**30))
        db.sessions.append_message("s", user("fits"))
        assert contents(db.get_messages("s")) == ["fits"]
        assert db.check() == []
