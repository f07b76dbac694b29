"""The files and sockets that a store on PostgreSQL takes, beside the reserve that is kept for it."""

import threading
from pathlib import Path

import psycopg
import pytest

from holdfast.core.settings import Settings
from holdfast.process.open_files import MIN_RESERVE
from holdfast.sessions import SessionDB
from tests.sessions.databases import PostgresPlace
from tests.sessions.store_fixtures import LONG, until

WAITING = (
    "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
)


def open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


@pytest.mark.clause("X5")
def test_all_connections_of_a_store_and_a_file_for_each_tool_fit_in_what_others_leave_free(
    postgres: str,
) -> None:
    """Connections to models leave the second half of the reserve free, and clients all of it."""
    settings = Settings()
    place = PostgresPlace(postgres)
    before = open_files()
    with SessionDB.open(place.url, connections=settings.store.connections) as db:
        db.create_session("s", source="test")
        with psycopg.connect(place.url) as locking, psycopg.connect(place.url, autocommit=True) as looking:
            locking.execute("lock table sessions in access exclusive mode")
            readers = [
                threading.Thread(target=db.get_session, args=("s",))
                for _ in range(settings.host.store_threads)
            ]
            for each in readers:
                each.start()

            def waiting() -> int:
                found = looking.execute(WAITING).fetchone()
                assert found is not None
                return int(found[0])

            until(lambda: waiting() == settings.store.connections)
            taken = open_files() - before - 2
            locking.rollback()
            for each in readers:
                each.join(LONG)
    place.drop()
    assert settings.store.connections <= taken <= MIN_RESERVE // 2 - settings.host.tool_threads
