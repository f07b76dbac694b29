"""Writers in several processes, killed hundreds of times: what they acknowledged is there, and whole."""

import os
import random
import selectors
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event

import psycopg
import pytest

from holdfast.sessions import SessionDB
from tests.postgres_server import PostgresServer, own_server
from tests.sessions.databases import PostgresPlace
from tests.sessions.workers.ledger import Ledger, assert_kept, assert_whole
from tests.sessions.workers.worker_process import DEADLINE, Worker

WRITERS = 4
LONGEST_LIFE = 25
SHARED = "shared"
ROOTS = [SHARED, *(f"own {slot}" for slot in range(WRITERS))]
KILLS_BETWEEN_LOOKS = 50


class Rampage:
    """Writers at work on one database, and the one who kills them."""

    def __init__(self, url: str, seed: int) -> None:
        self.url = url
        self.random = random.Random(seed)
        self.ledger = Ledger()
        self.lives = 0
        with SessionDB.open(url) as db:
            for root in ROOTS:
                db.create_session(root, source="test")
        self.workers = [self.start(slot) for slot in range(WRITERS)]

    def start(self, slot: int) -> Worker:
        self.lives += 1
        return Worker("write", self.url, name=f"w{self.lives}", own=f"own {slot}", shared=SHARED)

    def kill_one(self) -> None:
        """At a random moment: so many words into a life, and up to five milliseconds on."""
        slot = self.random.randrange(WRITERS)
        victim = self.workers[slot]
        enough = self.random.randrange(LONGEST_LIFE)
        deadline = time.monotonic() + DEADLINE
        while len(victim.said) < enough:
            left = deadline - time.monotonic()
            assert left > 0, victim.complaints()
            self.listen(left)
        self.listen(self.random.uniform(0, 0.005))
        assert victim.exit_code is None, victim.complaints()
        self.bury(victim)
        self.workers[slot] = self.start(slot)

    def listen(self, timeout: float) -> None:
        """Hear all writers, so that none is held up by a full pipe."""
        with selectors.DefaultSelector() as selector:
            for worker in self.workers:
                selector.register(worker.output, selectors.EVENT_READ, worker)
            for key, _ in selector.select(timeout):
                speaker: Worker = key.data
                assert speaker.hear(), speaker.complaints()

    def bury(self, worker: Worker) -> None:
        with worker:
            self.ledger.note_death(worker.kill())

    def bury_all(self) -> None:
        while self.workers:
            self.bury(self.workers.pop())

    def restart_all(self) -> None:
        self.workers = [self.start(slot) for slot in range(WRITERS)]


@contextmanager
def rampage(url: str, capsys: pytest.CaptureFixture[str]) -> Iterator[Rampage]:
    """Tells its seed and its numbers; in the end everything acknowledged is there."""
    seed = random.randrange(1 << 32)
    begun = time.monotonic()
    running = Rampage(url, seed)
    try:
        yield running
    finally:
        running.bury_all()
        with capsys.disabled():
            sys.stdout.write(f"\n{running.ledger}, {time.monotonic() - begun:.0f} s, seed {seed}\n")
    with SessionDB.open(url) as db:
        found = assert_kept(db, running.ledger, ROOTS)
        assert db.check() == []
    with capsys.disabled():
        sys.stdout.write(f"{found} messages, words, turns and rotations found whole\n")


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.clause("D1", "D10", "C5", "C6", "I1")
def test_after_300_kills_on_sqlite_every_acknowledged_write_is_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with rampage(f"sqlite:///{tmp_path}/holdfast.db", capsys) as running:
        for number in range(1, 301):
            running.kill_one()
            if number % KILLS_BETWEEN_LOOKS == 0:
                look(running.url, tmp_path / f"after {number}.db")


def look(url: str, copy: Path) -> None:
    """One moment of the live database, copied while the writers go on: already whole."""
    with SessionDB.open(url) as db:
        db.backup(copy)
    with SessionDB(copy) as db:
        assert_whole(db, ROOTS)
        assert db.check() == []


@pytest.mark.clause("D1", "D10", "C5", "C6")
def test_after_a_few_kills_every_acknowledged_write_is_there(
    live_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with rampage(live_url, capsys) as running:
        for _ in range(6):
            running.kill_one()


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.clause("D1", "D10", "C5", "C6", "I1")
def test_after_40_kills_on_postgres_every_acknowledged_write_is_there(
    postgres: str, capsys: pytest.CaptureFixture[str]
) -> None:
    place = PostgresPlace(postgres)
    with rampage(place.url, capsys) as running:
        for _ in range(40):
            running.kill_one()
    place.drop()


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.clause("D1", "D10", "C6")
def test_what_was_acknowledged_survives_the_death_of_the_postgres_server(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with own_server() as server, rampage(server.url, capsys) as running:
        for _ in range(3):
            heard = {id(worker): len(worker.said) for worker in running.workers}
            while any(len(each.said) < heard[id(each)] + 30 for each in running.workers):
                running.listen(DEADLINE)
            end_at_once(server)
            running.bury_all()
            server.start()
            running.restart_all()


def end_at_once(server: PostgresServer) -> None:
    """Immediate shutdown: no checkpoint, no goodbye to the clients."""
    lock = server.folder / "data" / "postmaster.pid"
    os.kill(int(lock.read_text().split()[0]), signal.SIGQUIT)
    deadline = time.monotonic() + DEADLINE
    while lock.exists() or answers(server):
        assert time.monotonic() < deadline
        Event().wait(0.02)


def answers(server: PostgresServer) -> bool:
    try:
        psycopg.connect(server.url, connect_timeout=2).close()
    except psycopg.OperationalError:
        return False
    return True
