"""A database that is gone under a running program: nothing is acknowledged until it is back."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from holdfast.core.errors import StoreGone
from holdfast.core.ids import new_id
from holdfast.sessions import SessionDB
from tests.sessions.databases import PostgresPlace
from tests.sessions.store_fixtures import contents, together, user


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store" / "holdfast.db"


@pytest.fixture
def db(path: Path) -> Iterator[SessionDB]:
    with SessionDB(path) as opened:
        opened.create_session("s", source="cli")
        opened.sessions.append_message("s", user("before"))
        yield opened


@pytest.mark.clause("D12")
def test_writes_to_a_deleted_file_are_refused_by_name(db: SessionDB, path: Path) -> None:
    shutil.rmtree(path.parent)
    outcomes = together(*[lambda: db.sessions.append_message("s", user("lost"))] * 6)
    assert [type(outcome) for outcome in outcomes] == [StoreGone] * 6
    assert str(path) in str(outcomes[0])
    assert "stored nothing" in str(outcomes[0])
    with pytest.raises(StoreGone):
        db.leases.require_writable()
    assert not path.exists(), "nothing is made in its place"


@pytest.mark.clause("D12")
def test_a_file_that_is_moved_back_is_written_again(db: SessionDB, path: Path) -> None:
    away = path.parent.with_name("away")
    path.parent.rename(away)
    for _ in range(3):
        with pytest.raises(StoreGone, match="Move it back"):
            db.sessions.append_message("s", user("not stored"))
    away.rename(path.parent)
    db.leases.require_writable()
    db.sessions.append_message("s", user("after"))
    assert contents(db.get_messages("s")) == ["before", "after"]
    assert db.check() == []


@pytest.mark.clause("D12")
def test_another_file_in_its_place_is_neither_written_nor_read(db: SessionDB, path: Path) -> None:
    path.parent.rename(path.parent.with_name("away"))
    with SessionDB(path) as other:
        other.create_session("other", source="cli")
        with pytest.raises(StoreGone, match="restart"):
            db.sessions.append_message("s", user("not stored"))
        # More readers than there are connections yet.
        outcomes = together(*[lambda: db.get_session("other")] * 6)
        assert all(found is None or isinstance(found, StoreGone) for found in outcomes)
        assert other.get_session("s") is None
        assert other.check() == []


@pytest.mark.clause("D12")
@pytest.mark.parametrize("suffix", ["-wal", "-shm"])
def test_a_log_that_was_deleted_beside_the_file_is_noticed(db: SessionDB, path: Path, suffix: str) -> None:
    Path(f"{path}{suffix}").unlink()
    with pytest.raises(StoreGone):
        db.sessions.append_message("s", user("lost"))


def test_a_file_behind_a_link_is_watched_where_it_is(tmp_path: Path) -> None:
    real, link = tmp_path / "real.db", tmp_path / "link.db"
    SessionDB(real).close()
    link.symlink_to(real)
    with SessionDB(link) as db:
        db.create_session("s", source="cli")
        db.sessions.append_message("s", user("fine"))
        real.rename(tmp_path / "moved.db")
        with pytest.raises(StoreGone):
            db.sessions.append_message("s", user("lost"))


@pytest.mark.clause("D12")
def test_a_schema_that_was_dropped_is_gone_by_name(postgres: str) -> None:
    place = PostgresPlace(postgres)
    with SessionDB.open(place.url, patience=2) as db:
        db.create_session("s", source="cli")
        place.connection.execute(f"alter schema {place.schema} rename to {place.schema}_away")
        for call in (lambda: db.sessions.append_message("s", user("lost")), db.leases.require_writable):
            with pytest.raises(StoreGone, match="stored nothing"):
                call()
        place.connection.execute(f"alter schema {place.schema}_away rename to {place.schema}")
        db.leases.require_writable()
        db.sessions.append_message("s", user("after"))
        assert contents(db.get_messages("s")) == ["after"]
    place.drop()


@pytest.mark.clause("D12")
def test_a_database_that_was_dropped_is_gone_by_name(postgres: str) -> None:
    name = f"gone_{new_id().lower()}"
    with psycopg.connect(postgres, autocommit=True) as server:
        server.execute(f"create database {name}")
        address = urlsplit(postgres)._replace(path=f"/{name}").geturl()
        with SessionDB.open(address, patience=1) as db:
            db.create_session("s", source="cli")
            server.execute(f"drop database {name} with (force)")
            with pytest.raises(StoreGone, match="stored nothing"):
                db.sessions.append_message("s", user("lost"))
