"""mem0 and Honcho: backends without keys, which refuse, lose answers, want other keys or answer nonsense."""

import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.core.clock import SystemClock
from holdfast.core.errors import ProviderNotWorking
from holdfast.memory import MemoryManager
from holdfast.memory.provider_check import ProviderCheck
from holdfast.memory.provider_gate import gate_provider
from holdfast.memory.retry import RetryPolicy
from holdfast.providers.delivered_keys import DeliveredKeys
from holdfast.sessions import SessionDB
from holdfast.testing import ProviderCase
from holdfast.testing.provider_case import resolved
from tests.memory.gates import DEADLINE, until
from tests.providers.contract_suite.honcho_case import HonchoCase
from tests.providers.contract_suite.mem0_case import Mem0LocalCase, Mem0PlatformCase
from tests.providers.contract_suite.threaded_backend import ThreadedBackend

# The libraries take seconds to import.
pytestmark = pytest.mark.slow

QUICK = RetryPolicy(initial_delay_seconds=0.001, max_delay_seconds=0.01)
SEND = {"honcho": "/messages", "mem0": "/memories/add/"}

Place = tuple[ProviderCase, MemoryManager, ThreadedBackend]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Callable[[type[ProviderCase]], Place]]:
    """A provider on lanes, with the backend of its case."""
    undo: list[Callable[[], object]] = []

    def start(kind: type[ProviderCase]) -> Place:
        case = kind(tmp_path)
        case.start()
        store = SessionDB(tmp_path / "store.db")
        memory = MemoryManager(store, policy=QUICK)
        provider = case.make()
        memory.add_provider(provider, config=resolved(provider, case.config()))
        undo.extend([memory.shutdown_all, store.close, case.stop])
        return case, memory, case._server.backend  # type: ignore[attr-defined]  # noqa: SLF001 - the case's own

    yield start
    for each in undo:
        each()


over_http = pytest.mark.parametrize("kind", [HonchoCase, Mem0PlatformCase])


@pytest.mark.clause("D2")
@over_http
def test_a_turn_that_was_stored_while_its_answer_got_lost_is_found_and_not_sent_again(
    run: Callable[[type[ProviderCase]], Place], kind: type[ProviderCase]
) -> None:
    case, memory, backend = run(kind)
    memory.sync_all("warm up", "ok", session_id="s1")
    assert memory.flush_pending(DEADLINE)
    backend.lose_answers_of = SEND[memory.provider_names[0]]
    memory.sync_all("said once", "ok", session_id="s1")
    assert memory.flush_pending(DEADLINE)
    assert not backend.lose_answers_of
    assert list(case.stored()) == ["warm up", "said once"]


@over_http
def test_a_turn_handed_over_without_a_key_is_sent_once(tmp_path: Path, kind: type[ProviderCase]) -> None:
    case = kind(tmp_path)
    case.start()
    provider = case.make()
    provider.initialize("s1", config=resolved(provider, case.config()))
    try:
        for _ in range(2):
            provider.sync_turn("by hand", "ok", session_id="s1")
        assert list(case.stored()) == ["by hand"]
    finally:
        provider.shutdown()
        case.stop()


@over_http
def test_a_backend_that_is_busy_says_when_to_come_again(
    run: Callable[[type[ProviderCase]], Place], kind: type[ProviderCase]
) -> None:
    case, memory, backend = run(kind)
    memory.sync_all("before", "ok", session_id="s1")
    assert memory.flush_pending(DEADLINE)
    backend.refusal, backend.headers = (429, {"detail": "slow down"}), {"Retry-After": "1"}
    memory.sync_all("in a while", "ok", session_id="s1")
    until(lambda: "ProviderUnavailable" in (memory.status()[0].last_error or ""))
    backend.refusal = None
    assert memory.flush_pending(DEADLINE)
    assert list(case.stored()) == ["before", "in a while"]


@over_http
def test_what_a_backend_will_never_take_is_set_aside_and_the_next_turn_goes_on(
    run: Callable[[type[ProviderCase]], Place], kind: type[ProviderCase]
) -> None:
    case, memory, backend = run(kind)
    memory.sync_all("before", "ok", session_id="s1")
    assert memory.flush_pending(DEADLINE)
    backend.refusal = (400 if kind is Mem0PlatformCase else 422, {"detail": "no such thing"})
    memory.sync_all("never", "ok", session_id="s1")
    until(lambda: memory.status()[0].set_aside == 1)
    backend.refusal = None
    memory.sync_all("after", "ok", session_id="s1")
    assert memory.flush_pending(DEADLINE)
    assert list(case.stored()) == ["before", "after"]


@over_http
def test_a_wrong_key_keeps_every_turn_owed_and_is_named(tmp_path: Path, kind: type[ProviderCase]) -> None:
    case = kind(tmp_path)
    case.start()
    provider = case.make()
    values = {**case.config(), "api_key": "wrong"}
    with pytest.raises(ProviderNotWorking, match=r"(?i)invalid api key"):
        ProviderCheck(gate_provider(provider, SystemClock()), resolved(provider, values)).result()
    assert ProviderCheck(gate_provider(provider, SystemClock()), resolved(provider, case.config())).result()
    with SessionDB(tmp_path / "store.db") as store:
        memory = MemoryManager(store, policy=QUICK, drain_seconds=1)
        memory.add_provider(provider, config=resolved(provider, values))
        memory.sync_all("kept", "ok", session_id="s1")
        until(lambda: "nvalid API key" in (memory.status()[0].last_error or ""))
        assert memory.shutdown_all() == [
            f"1 turn is owed to {provider.name}; it will be sent at the next start"
        ]
    case.stop()


def test_an_answer_of_the_model_that_mem0_cant_read_is_no_success(
    run: Callable[[type[ProviderCase]], Place],
) -> None:
    case, memory, _ = run(Mem0LocalCase)
    case._server.garbage = True  # type: ignore[attr-defined]  # noqa: SLF001 - the case's own
    memory.sync_all("worth keeping", "ok", session_id="s1")
    until(lambda: bool(memory.status()[0].last_error))
    assert memory.status()[0].owed == 1
    case._server.garbage = False  # type: ignore[attr-defined]  # noqa: SLF001
    assert memory.flush_pending(DEADLINE)
    assert list(case.stored()) == ["worth keeping"]


def test_mem0_says_that_another_has_its_folder_and_takes_its_turn_later(
    run: Callable[[type[ProviderCase]], Place], tmp_path: Path
) -> None:
    case, memory, _ = run(Mem0LocalCase)
    memory.sync_all("mine", "ok", session_id="s1")
    assert memory.flush_pending(DEADLINE)
    other = case.make()
    with pytest.raises(ProviderNotWorking, match="another process has"):
        other.initialize("s", config=resolved(other, case.config()))
    memory.shutdown_all()
    until(lambda: not [each for each in threading.enumerate() if each.name == "memory-write-mem0"])
    again = case.make()
    again.initialize("s", config=resolved(again, case.config()))
    assert "mine" in again.prefetch("mine")
    again.shutdown()
    other.shutdown()


def test_dimensions_that_dont_fit_are_told_at_setup(tmp_path: Path) -> None:
    case = Mem0LocalCase(tmp_path)
    case.start()
    provider = case.make()
    way_in = gate_provider(provider, SystemClock())
    with pytest.raises(ProviderNotWorking, match="has 64 dimensions, not 1536; set dimensions=64"):
        ProviderCheck(way_in, resolved(provider, {**case.config(), "dimensions": "1536"})).result()
    assert "64 dimensions" in ProviderCheck(way_in, resolved(provider, case.config())).result()
    case.stop()


def test_a_record_of_what_was_sent_survives_and_tells_what_was_cut_off(tmp_path: Path) -> None:
    keys = DeliveredKeys(tmp_path / "sent.db")
    assert (keys.begin("a"), keys.begin("b")) == ("new", "new")
    keys.settle("a")
    keys.close()
    keys.close()
    again = DeliveredKeys(tmp_path / "sent.db")
    assert (again.begin("a"), again.begin("b"), again.begin("c")) == ("sent", "begun", "new")
    again.close()


def test_a_record_whose_first_opening_failed_is_opened_again(tmp_path: Path) -> None:
    file = tmp_path / "sent.db"
    file.write_bytes(b"no database at all, and longer than a header " * 100)
    keys = DeliveredKeys(file)
    with pytest.raises(sqlite3.DatabaseError):
        keys.begin("a")
    file.unlink()
    assert (keys.begin("a"), keys.begin("a")) == ("new", "begun")
    keys.close()
