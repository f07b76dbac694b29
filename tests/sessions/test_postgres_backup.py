"""A PostgreSQL store is saved by `pg_dump`, comes back whole by `pg_restore`, and goes on."""

import re
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from holdfast.sessions import SessionDB
from tests.sessions.databases import PostgresPlace
from tests.sessions.store_fixtures import assistant, completed_turn, user

DEADLINE = 120


def tools_of(url: str) -> Path:
    """The folder with the server's own pg_dump; another one may be too old for it."""
    with psycopg.connect(url) as connection:
        row = connection.execute("show data_directory").fetchone()
        version = connection.info.server_version // 10_000
    assert row is not None
    beside = sorted(Path(row[0]).parent.glob(".pg0/installation/*/bin/pg_dump"))
    found = [str(each) for each in beside] or [shutil.which("pg_dump") or ""]
    if not found[0]:
        pytest.skip("there is no pg_dump here")
    said = subprocess.run(
        [found[0], "--version"], capture_output=True, text=True, check=True, timeout=DEADLINE
    )
    number = re.search(r"(\d+)", said.stdout)
    if number is None or int(number[1]) < version:
        pytest.skip(f"pg_dump is older than the server: {said.stdout.strip()}")
    return Path(found[0]).parent


@pytest.fixture
def other_database(postgres: str) -> Iterator[str]:
    """The address of a new, empty database."""
    name = f"restored_{uuid.uuid4().hex}"
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(f"create database {name}".encode())
        yield urlsplit(postgres)._replace(path=f"/{name}").geturl()
        connection.execute(f"drop database {name} with (force)".encode())


def test_what_pg_dump_saved_is_restored_whole_and_goes_on(postgres: str, other_database: str) -> None:
    tools = tools_of(postgres)
    place = PostgresPlace(postgres)
    with SessionDB.open(place.url) as db:
        db.create_session("s", source="cli", title="Ünïcode")
        db.sessions.append_message("s", user("an otter in the harbour"))
        completed_turn(db, "s", providers=["p"])
        db.inbox.put("s", user("waits"))
        expected = db.export_session("s")
        dump = subprocess.run(
            [tools / "pg_dump", "--format=custom", f"--schema={place.schema}", f"--dbname={postgres}"],
            capture_output=True,
            check=True,
            timeout=DEADLINE,
        )
    subprocess.run(
        [tools / "pg_restore", "--exit-on-error", f"--dbname={other_database}"],
        input=dump.stdout,
        capture_output=True,
        check=True,
        timeout=DEADLINE,
    )
    options = urlsplit(place.url).query
    with SessionDB.open(urlsplit(other_database)._replace(query=options).geturl()) as restored:
        assert restored.export_session("s") == expected
        assert restored.check() == []
        assert [hit.session_id for hit in restored.search("otter")] == ["s"]
        assert len(restored.outbox.claim("p", lease_seconds=5.0)) == 1
        restored.sessions.append_message("s", assistant("and it goes on"))
    place.drop()
