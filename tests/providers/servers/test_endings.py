"""A program that ends at any moment ends quietly and in time, and no turn is lost or doubled; for both."""

import random
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.core.errors import MemoryClosed
from holdfast.memory import CompletedTurn
from holdfast.testing.faulty_server import Fault
from tests.memory.gates import until
from tests.providers.servers.conftest import Life
from tests.providers.servers.memory_servers import Backend
from tests.providers.servers.process_exits import ENDINGS, SAID, deliver_the_rest, ended, noise

Live = Callable[..., Life]


@pytest.mark.slow
@pytest.mark.clause("D1", "D2", "D5", "D6")
@pytest.mark.soak_cases("hindsight-(error|plain|handled signal|terminate)")
@pytest.mark.parametrize("ending", ENDINGS)
def test_a_process_that_ends_at_a_random_moment_ends_quietly_and_loses_nothing(
    backend: Backend, ending: str, tmp_path: Path
) -> None:
    seconds = random.uniform(0.0, 2.5)
    err = ended(backend, tmp_path, ending, seconds)
    assert not noise(err), f"after {seconds} s: {err}"
    deliver_the_rest(backend, tmp_path)
    assert backend.heard("s1") == SAID, f"after {seconds} s"


@pytest.mark.slow
@pytest.mark.clause("D5", "D6", "M5")
@pytest.mark.soak_cases("hindsight-(handled signal|signal)|openviking-sys.exit")
@pytest.mark.parametrize("ending", ["sys.exit", "handled signal", "signal"])
def test_a_server_that_never_answers_holds_up_no_exit(backend: Backend, ending: str, tmp_path: Path) -> None:
    stuck = backend.server.plan(Fault(backend.writes, "wait", times=1000))
    err = ended(backend, tmp_path, ending, 2.5)
    stuck.times = 0
    stuck.gate.set()
    assert not noise(err), err
    assert "owed to" in err or ending == "handled signal"
    deliver_the_rest(backend, tmp_path)
    assert backend.heard("s1") == SAID


@pytest.mark.clause("D4", "D6")
def test_a_provider_that_was_shut_down_asks_the_server_nothing_more(backend: Backend, tmp_path: Path) -> None:
    provider = backend.make(tmp_path)
    provider.initialize("", config=backend.config())
    provider.sync_turn("kept", "You said: kept", session_id="s1")
    assert backend.heard("s1") == ["kept"]
    provider.shutdown()
    provider.shutdown()
    asked = len(backend.server.calls)
    provider.sync_turn("refused", "You said: refused", session_id="s1")
    provider.queue_prefetch("refused", session_id="s1")
    with pytest.raises(MemoryClosed):
        provider.prefetch("refused", session_id="s1")
    turn = CompletedTurn("k", "s1", "t", "refused", "ok", [], 1.0)
    with pytest.raises(MemoryClosed):
        provider.sync_turns([turn])  # type: ignore[attr-defined]
    assert len(backend.server.calls) == asked
    assert not [each for each in threading.enumerate() if each.name == f"memory-{backend.name}"]


@pytest.mark.clause("D4", "D9")
def test_what_a_closing_provider_refused_stays_owed(backend: Backend, live: Live) -> None:
    life = live()
    life.say("first")
    assert life.memory.flush_pending(20)
    life.provider.shutdown()
    life.say("second")
    until(lambda: life.last_error.startswith("MemoryClosed"))
    assert life.end() == [f"1 turn is owed to {backend.name}; it will be sent at the next start"]
    again = live()
    assert again.memory.flush_pending(20)
    assert backend.heard("s1") == ["first", "second"]


@pytest.mark.clause("D5")
def test_a_write_under_way_may_end_before_the_client_is_closed(backend: Backend, tmp_path: Path) -> None:
    provider = backend.make(tmp_path)
    provider.initialize("", config=backend.config())
    slow = backend.server.plan(Fault(backend.writes, "wait"))
    writing = threading.Thread(
        target=provider.sync_turn, args=("kept", "You said"), kwargs={"session_id": "s1"}
    )
    writing.start()
    assert slow.met.wait(20)
    closing = threading.Thread(target=provider.shutdown)
    closing.start()
    slow.gate.set()
    writing.join(20)
    closing.join(20)
    assert not writing.is_alive()
    assert not closing.is_alive()
    assert backend.heard("s1") == ["kept"]


@pytest.mark.clause("D7", "D8")
def test_a_session_switch_leaves_the_old_session_whole_and_its_recall_behind(
    backend: Backend, live: Live
) -> None:
    life = live()
    slow = backend.server.plan(Fault(backend.writes, "wait"))
    life.say("my cat is called Miso", session="old")
    assert slow.met.wait(20)
    life.memory.queue_prefetch_all("my cat", session_id="old")
    life.memory.on_session_switch("new", parent_session_id="old")
    life.say("a new start", session="new")
    slow.gate.set()
    assert life.memory.flush_pending(20)
    written = [call for call in backend.server.calls if backend.writes in call.line]
    assert written
    assert life.memory.prefetch_all("nothing that is known", session_id="new") == ""
