"""What is OpenViking's own: batches, the ledger of what was sent, commits, and extraction that fails."""

import json
import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from holdfast.core.clock import SystemClock
from holdfast.core.errors import InvalidInput, ProviderUnavailable, SchemaTooNew
from holdfast.memory import MemoryManager
from holdfast.memory.config import ProviderConfig, missing_fields, parse_schema, resolve_config
from holdfast.memory.contract import CompletedTurn
from holdfast.memory.forgetting import ForgetReport, ForgetRequest
from holdfast.providers.openviking import OpenVikingMemory
from holdfast.providers.openviking.api import session_name
from holdfast.providers.openviking.ledger import Ledger, LedgerEntry
from holdfast.providers.openviking.settings import read_settings
from holdfast.sessions import SessionDB
from holdfast.testing.fake_openviking import FakeOpenViking
from holdfast.testing.faulty_server import Fault
from tests.memory.gates import until


@pytest.fixture
def server() -> Iterator[FakeOpenViking]:
    with FakeOpenViking() as serving:
        yield serving


def config(server: FakeOpenViking, **texts: str) -> ProviderConfig:
    return ProviderConfig({"url": server.url, "timeout_s": "5", **texts})


@contextmanager
def life(server: FakeOpenViking, folder: Path) -> Iterator[OpenVikingMemory]:
    """One life of a program with this provider; the ledger in the folder outlives it."""
    provider = OpenVikingMemory(folder, SystemClock())
    provider.initialize("", config=config(server))
    try:
        yield provider
    finally:
        provider.shutdown()


@pytest.fixture
def memory(server: FakeOpenViking, tmp_path: Path) -> Iterator[OpenVikingMemory]:
    with life(server, tmp_path) as provider:
        yield provider


def turn(number: int, text: str = "", session: str = "s1") -> CompletedTurn:
    said = text or f"turn {number}"
    return CompletedTurn(f"{session}/{number}", session, f"t{number}", said, "ok", [], 1_700_000_000.0)


def paths(server: FakeOpenViking, last: str) -> list[str]:
    return [call.request.path for call in server.calls if call.parts[-1] == last]


def in_file(folder: Path, statement: str) -> list[tuple[object, ...]]:
    """Run a statement on the ledger's file, as another program would."""
    with closing(sqlite3.connect(folder / "openviking.db", isolation_level=None)) as connection:
        return connection.execute(statement).fetchall()


def extracted(provider: OpenVikingMemory) -> bool:
    counts = provider.describe()
    return not (counts.extracting or counts.uncommitted or counts.unsent)


def test_messages_go_in_batches_that_the_server_takes(
    server: FakeOpenViking, memory: OpenVikingMemory
) -> None:
    memory.sync_turns([turn(number) for number in range(120)])
    assert len(paths(server, "batch")) == 3
    assert [text for text in server.live("s1") if text != "ok"] == [f"turn {number}" for number in range(120)]


@pytest.mark.clause("D2")
def test_what_was_sent_is_remembered_over_a_restart(server: FakeOpenViking, tmp_path: Path) -> None:
    with life(server, tmp_path) as provider:
        provider.sync_turns([turn(1)])
    with life(server, tmp_path) as provider:
        provider.sync_turns([turn(1), turn(2)])
    assert server.live("s1") == ["turn 1", "ok", "turn 2", "ok"]


@pytest.mark.clause("D2")
def test_only_a_turn_in_doubt_is_asked_for(server: FakeOpenViking, memory: OpenVikingMemory) -> None:
    memory.sync_turns([turn(1)])
    assert not paths(server, "context")
    server.plan(Fault("batch", "lose"))
    with pytest.raises(ProviderUnavailable):
        memory.sync_turns([turn(2)])
    memory.sync_turns([turn(2), turn(3)])
    assert len(paths(server, "context")) == 1
    assert [text for text in server.live("s1") if text != "ok"] == ["turn 1", "turn 2", "turn 3"]


@pytest.mark.clause("D3")
def test_another_writer_at_the_same_time_is_no_reason_to_give_a_turn_up(
    server: FakeOpenViking, memory: OpenVikingMemory
) -> None:
    server.plan(Fault("batch", "refuse", status=409))
    with pytest.raises(ProviderUnavailable, match="409"):
        memory.sync_turns([turn(1)])
    memory.sync_turns([turn(1)])
    assert server.live("s1") == ["turn 1", "ok"]


@pytest.mark.clause("L2", "L11")
def test_a_boundary_commits_its_own_session_once(server: FakeOpenViking, tmp_path: Path) -> None:
    with SessionDB(tmp_path / "holdfast.db") as db:
        manager = MemoryManager(db)
        provider = OpenVikingMemory(tmp_path, SystemClock())
        manager.add_provider(provider, config=config(server))
        for session in ("one", "two"):
            manager.sync_all(f"said in {session}", "ok", session_id=session)
        for _ in range(2):
            manager.on_session_end([{"role": "user", "content": "x"}], session_id="one")
        assert server.memories() == ["said in one"]
        assert server.live("two") == ["said in two", "ok"]
        assert len(paths(server, "commit")) == 1
        manager.shutdown_all()


@pytest.mark.clause("D7")
def test_a_session_switch_commits_the_session_left_behind(
    server: FakeOpenViking, memory: OpenVikingMemory
) -> None:
    memory.sync_turns([turn(1, session="old")])
    memory.on_session_switch("new", parent_session_id="old")
    memory.sync_turns([turn(2, session="new")])
    assert server.memories() == ["turn 1"]
    assert server.live("new") == ["turn 2", "ok"]


@pytest.mark.slow
@pytest.mark.clause("D3")
def test_what_could_not_be_extracted_is_sent_again(server: FakeOpenViking, memory: OpenVikingMemory) -> None:
    server.failing_extractions = 2
    memory.sync_turns([turn(1), turn(2)])
    memory.on_session_end([], session_id="s1")
    until(lambda: extracted(memory))
    assert server.memories() == ["turn 1", "turn 2"]
    assert server.received().count("turn 1") == 3


@pytest.mark.slow
@pytest.mark.clause("L13")
def test_an_extraction_is_followed_by_the_next_life(tmp_path: Path) -> None:
    with FakeOpenViking(polls=50) as server:
        server.failing_extractions = 1
        with life(server, tmp_path) as provider:
            provider.sync_turns([turn(1)])
            provider.on_session_end([], session_id="s1")
            assert provider.describe().extracting == 1
        assert server.memories() == []
        server.polls = 1
        with life(server, tmp_path) as provider:
            until(lambda: extracted(provider))
        assert server.memories() == ["turn 1"]


@pytest.mark.clause("L13", "D2")
def test_a_commit_whose_answer_was_lost_is_found_again(server: FakeOpenViking, tmp_path: Path) -> None:
    with life(server, tmp_path) as provider:
        provider.sync_turns([turn(1)])
        server.plan(Fault("/commit", "lose"))
        with pytest.raises(ProviderUnavailable):
            provider.on_session_end([], session_id="s1")
    with life(server, tmp_path) as provider:
        until(lambda: extracted(provider))
        assert provider.describe().done == 1
    assert server.memories() == ["turn 1"]


def test_a_server_that_lost_everything_gets_it_again(server: FakeOpenViking, tmp_path: Path) -> None:
    with life(server, tmp_path) as provider:
        provider.sync_turns([turn(1)])
    with FakeOpenViking() as fresh, life(fresh, tmp_path) as provider:
        provider.on_session_end([], session_id="s1")
        until(lambda: extracted(provider))
        assert fresh.memories() == ["turn 1"]


@pytest.mark.slow
def test_a_task_that_the_server_forgot_is_not_trusted(tmp_path: Path) -> None:
    with FakeOpenViking(polls=10**9) as server, life(server, tmp_path) as provider:
        provider.sync_turns([turn(1)])
        provider.on_session_end([], session_id="s1")
        server.polls = 1
        server.forget_tasks()
        until(lambda: extracted(provider))
        assert server.memories() == ["turn 1"]


def test_the_words_are_kept_until_they_were_extracted_and_no_longer(
    server: FakeOpenViking, tmp_path: Path
) -> None:
    with life(server, tmp_path) as provider:
        provider.sync_turns([turn(1, "a secret of mine")])
        provider.on_session_end([], session_id="s1")
        until(lambda: extracted(provider))
    rows = in_file(tmp_path, "select key, state, payload from turns")
    assert rows == [("s1/1", "done", None)]
    assert (tmp_path / "openviking.db").stat().st_mode & 0o077 == 0


def test_a_forgotten_session_takes_along_what_was_made_of_it_alone(
    server: FakeOpenViking, memory: OpenVikingMemory, tmp_path: Path
) -> None:
    gone, kept = turn(1, "my heron is called Quetzalina"), turn(3, "my otter is called Bart", "s2")
    memory.sync_turns([gone, turn(2, "I live in Porto"), kept])
    for session in ("s1", "s2"):
        memory.on_session_end([], session_id=session)
    until(lambda: extracted(memory))
    server.change_memory("I live in Porto", "They live in Porto, and move to Lisbon")
    memory.sync_turns([turn(4, "still to be extracted")])
    server.polls = 1000
    memory.on_session_end([], session_id="s1")
    request = ForgetRequest("f", (("s1", "t1"), ("s1", "t2"), ("s1", "t4")), ("s1",))
    with pytest.raises(ProviderUnavailable, match="still makes memories"):
        memory.forget_selected(request)
    server.polls = 1
    until(lambda: extracted(memory))
    report = memory.forget_selected(request)
    # Two memories and the session.
    assert report.forgotten == 3
    assert report.kept.startswith("1 memory stays that it made of other conversations too")
    assert server.memories() == ["They live in Porto, and move to Lisbon", "my otter is called Bart"]
    assert memory.forget_selected(request) == ForgetReport(0)
    files = b"".join(each.read_bytes() for each in tmp_path.glob("openviking.db*"))
    assert b"Quetzalina" not in files


def test_recall_and_the_tool_find_what_was_extracted(
    server: FakeOpenViking, memory: OpenVikingMemory
) -> None:
    assert memory.prefetch("the cat") == ""
    memory.sync_turns([turn(1, "my cat is called Miso")])
    memory.on_session_end([], session_id="s1")
    until(lambda: extracted(memory))
    assert memory.prefetch("the cat").endswith("- my cat is called Miso")
    found = json.loads(memory.handle_tool_call("openviking_search", {"query": "cat"}))
    assert found == {"found": ["my cat is called Miso"]}
    assert "error" in json.loads(memory.handle_tool_call("openviking_search", {"nonsense": 1}))
    assert server.calls[-1].request.json()["limit"] == 10


def test_two_sessions_never_share_a_name_on_the_server() -> None:
    names = ["a/b", "a-b", "a b", "..", ".", "a" * 10, "é"]
    assert len({session_name(name) for name in names}) == len(names)
    assert session_name("0199-abc_d.e") == "0199-abc_d.e"


def test_a_stretch_is_followed_by_one_process_alone(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "openviking.db")
    entry = LedgerEntry("k", "t", [{"role": "user", "content": "x"}])
    ledger.add("s1", entry)
    ledger.mark_sending(["k"])
    ledger.mark_sent(["k"])
    batch = ledger.begin_commit("s1")
    assert batch is not None
    hold = "update stretches set held_until = 100.0, holder = "
    in_file(tmp_path, hold + str(os.getppid()))
    assert not ledger.hold(batch, now=99.0, seconds=10)
    assert ledger.hold(batch, now=101.0, seconds=10)
    # No process has this number.
    in_file(tmp_path, hold + str(2**22 + 1))
    assert ledger.hold(batch, now=99.0, seconds=10)
    ledger.close()


def test_a_ledger_of_a_newer_release_is_left_alone(tmp_path: Path) -> None:
    Ledger(tmp_path / "openviking.db").close()
    in_file(tmp_path, "pragma user_version = 99")
    with pytest.raises(SchemaTooNew):
        Ledger(tmp_path / "openviking.db")


def test_the_schema_needs_nothing_but_an_address(tmp_path: Path) -> None:
    fields = parse_schema(OpenVikingMemory(tmp_path, SystemClock()).get_config_schema())
    assert missing_fields(fields, resolve_config(fields)) == []
    assert read_settings(resolve_config(fields)).url == "http://127.0.0.1:1933"
    with pytest.raises(InvalidInput, match="recall_limit"):
        read_settings(ProviderConfig({"recall_limit": "0"}))


def test_the_check_says_which_server_it_found_and_why_one_does_not_work(
    server: FakeOpenViking, tmp_path: Path
) -> None:
    provider = OpenVikingMemory(tmp_path, SystemClock())
    assert provider.check(config(server)) == f"OpenViking 0.5.2 at {server.url}"
    server.plan(Fault("sessions", "refuse", status=403))
    with pytest.raises(ProviderUnavailable, match="refused the key"):
        provider.check(config(server))
    assert not [each for each in threading.enumerate() if each.name.startswith("memory-openviking")]
    assert not (tmp_path / "openviking.db").exists()


@pytest.mark.clause("D5", "D12")
def test_a_provider_whose_file_was_moved_away_closes_as_any_other(
    server: FakeOpenViking, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    home, away = tmp_path / "home", tmp_path / "away"
    home.mkdir()
    with life(server, home) as memory:
        memory.sync_turns([turn(1)])
        home.rename(away)
        memory.shutdown()
    assert [each.message for each in caplog.records] == []
    assert not home.exists()
    away.rename(home)
    with life(server, home) as again:
        assert again.describe().uncommitted == 1
