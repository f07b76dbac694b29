"""A memory in one file: refused by name when it can't be used, and clean when closed; of each provider."""

import gc
import sqlite3
import stat
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from threading import Thread

import pytest

from holdfast.core.errors import (
    DatabaseDamaged,
    NotADatabase,
    SchemaTooNew,
    StoreGone,
    StoreInvalid,
    StoreUnopenable,
)
from holdfast.providers.delivered_keys import DeliveredKeys
from holdfast.providers.holographic import HolographicMemory
from holdfast.providers.local import LocalMemory
from holdfast.providers.openviking.ledger import Ledger, LedgerEntry
from holdfast.testing import FakeClock
from tests.providers.local.completed_turns import turn

Memory = HolographicMemory | LocalMemory
OpenMemory = Callable[[], Memory]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "kept" / "memory.db"


@pytest.fixture(params=["local", "holographic"])
def open_memory(request: pytest.FixtureRequest, path: Path) -> Iterator[OpenMemory]:
    """Opens memories of one kind on the one file, and closes them at the end."""
    path.parent.mkdir()
    opened: list[Memory] = []

    def opener() -> Memory:
        if request.param == "local":
            opened.append(LocalMemory(path, clock=FakeClock(), embedder=None))
        else:
            pytest.importorskip("numpy")
            opened.append(HolographicMemory(path, clock=FakeClock()))
        return opened[-1]

    yield opener
    for memory in opened:
        memory.shutdown()


def fill(open_memory: OpenMemory, count: int = 200) -> None:
    memory = open_memory()
    memory.sync_turns([turn(n, f"Ann owns house number{n} in street number{n * 7}") for n in range(count)])
    memory.shutdown()


def test_a_file_that_is_no_database_is_refused_and_kept(path: Path, open_memory: OpenMemory) -> None:
    path.write_bytes(b"Dear diary, " * 500)
    with pytest.raises(NotADatabase):
        open_memory().initialize("s1")
    assert path.read_bytes() == b"Dear diary, " * 500


def test_somebody_elses_database_is_refused_and_kept(path: Path, open_memory: OpenMemory) -> None:
    with closing(sqlite3.connect(path)) as other:
        other.execute("create table theirs (x)")
    before = path.read_bytes()
    with pytest.raises(NotADatabase):
        open_memory().sync_turns([turn(1, "Ann sings")])
    assert path.read_bytes() == before


def test_a_newer_schema_is_refused_by_name(path: Path, open_memory: OpenMemory) -> None:
    fill(open_memory, 1)
    with closing(sqlite3.connect(path)) as newer:
        newer.execute("update meta set value = '99' where key = 'schema'")
        newer.commit()
    with pytest.raises(SchemaTooNew):
        open_memory().initialize("s1")


def test_a_damaged_file_is_reported_by_name(path: Path, open_memory: OpenMemory) -> None:
    fill(open_memory)
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + b"\x5a" * (len(whole) - 4096))
    with pytest.raises(DatabaseDamaged):
        open_memory().search("house")


def test_a_truncated_file_is_reported_by_name(path: Path, open_memory: OpenMemory) -> None:
    fill(open_memory)
    path.write_bytes(path.read_bytes()[: 5 * 4096])
    with pytest.raises(StoreInvalid):
        open_memory().search("house")


def test_a_folder_is_refused_by_name(path: Path, open_memory: OpenMemory) -> None:
    path.mkdir()
    with pytest.raises(StoreUnopenable):
        open_memory().initialize("s1")


def test_only_its_owner_can_read_the_file(path: Path, open_memory: OpenMemory) -> None:
    open_memory().initialize("s1")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_nothing_is_opened_before_it_is_used(path: Path, open_memory: OpenMemory) -> None:
    assert open_memory().is_available()
    assert not path.exists()


def test_a_memory_that_was_shut_down_leaves_nothing_open(path: Path, open_memory: OpenMemory) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        memory = open_memory()
        memory.sync_turns([turn(1, "Ann sings")])
        memory.prefetch("Ann")
        memory.shutdown()
        del memory
        gc.collect()
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_threads_write_and_recall_at_once(open_memory: OpenMemory) -> None:
    memory = open_memory()
    failures: list[BaseException] = []

    def work(name: str) -> None:
        try:
            for number in range(20):
                memory.sync_turns([turn(number, f"{name} owns garden{number}", session=name)])
                found = memory.prefetch(f"{name} garden{number}", session_id="other")
                assert f"{name} owns garden{number}" in found
        except BaseException as failure:  # noqa: BLE001 - told to the test's own thread
            failures.append(failure)

    threads = [Thread(target=work, args=(name,)) for name in ("Ann", "Bob", "Kim", "Zoe")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failures == []
    described = memory.describe()
    assert getattr(described, "passages", 0) + getattr(described, "facts", 0) == 80


@pytest.mark.clause("D12")
def test_what_was_sent_is_not_noted_in_a_file_that_was_moved_away(tmp_path: Path) -> None:
    home, away = tmp_path / "home", tmp_path / "away"
    home.mkdir()
    keys, ledger = DeliveredKeys(home / "sent.db"), Ledger(home / "openviking.db")
    with closing(keys), closing(ledger):
        keys.begin("k1")
        ledger.add("s1", LedgerEntry("k1", "t1", []))
        home.rename(away)
        for note in (
            lambda: keys.begin("k2"),
            lambda: keys.settle("k1"),
            lambda: ledger.mark_sending(["k1"]),
            lambda: ledger.add("s1", LedgerEntry("k2", "t2", [])),
        ):
            with pytest.raises(StoreGone, match="moved away"):
                note()
        away.rename(home)
        assert keys.begin("k1") == "begun"
        assert [each.in_doubt for each in ledger.unsent(["k1", "k2"])] == [False]


@pytest.mark.clause("D12")
def test_a_file_that_was_moved_away_takes_nothing_until_it_is_back(
    path: Path, open_memory: OpenMemory, tmp_path: Path
) -> None:
    memory = open_memory()
    memory.initialize("s1")
    memory.sync_turns([turn(1, "Ann owns a red house")])
    path.parent.rename(tmp_path / "away")
    with pytest.raises(StoreGone, match="stored nothing"):
        memory.sync_turns([turn(2, "Ann owns a blue house")])
    assert not path.exists()
    (tmp_path / "away").rename(path.parent)
    memory.sync_turns([turn(3, "Ann owns a green house")])
    assert "green" in memory.prefetch("Which house does Ann own?")
