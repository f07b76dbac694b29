"""Whatever the server does, each turn reaches it once and in order, or stays owed; for both providers."""

import threading
from collections.abc import Callable

import pytest

from holdfast.testing.faulty_server import Fault
from tests.memory.gates import until
from tests.providers.servers.conftest import Life
from tests.providers.servers.memory_servers import Backend

Live = Callable[..., Life]


@pytest.mark.clause("M2", "M6")
def test_turns_reach_the_server_once_and_in_order(backend: Backend, live: Live) -> None:
    life = live()
    said = [f"turn number {number}" for number in range(7)]
    for text in said:
        life.say(text)
    life.say("elsewhere", session="s2")
    assert life.memory.flush_pending(20)
    assert backend.heard("s1") == said
    assert backend.heard("s2") == ["elsewhere"]


@pytest.mark.clause("D2")
def test_a_turn_whose_answer_was_lost_is_not_doubled(backend: Backend, live: Live) -> None:
    life = live()
    lost = backend.server.plan(Fault(backend.writes, "lose", times=2))
    life.say("only once")
    life.say("and this")
    assert life.memory.flush_pending(20)
    assert lost.met.is_set()
    assert backend.heard("s1") == ["only once", "and this"]


@pytest.mark.clause("D1", "D2")
def test_a_turn_whose_answer_was_lost_to_a_crash_is_not_doubled_by_the_next_life(
    backend: Backend, live: Live
) -> None:
    life = live()
    lost = backend.server.plan(Fault(backend.writes, "lose"))
    gone = backend.server.plan(Fault("", "drop", times=1000))
    life.say("before the crash")
    assert lost.met.wait(20)
    assert gone.met.wait(20)
    assert life.end() == [f"1 turn is owed to {backend.name}; it will be sent at the next start"]
    gone.times = 0
    after = live()
    after.say("after it")
    assert after.memory.flush_pending(20)
    assert backend.heard("s1") == ["before the crash", "after it"]


@pytest.mark.clause("D3", "M6")
@pytest.mark.parametrize("status", [500, 502, 503, 429, 408, 404])
def test_a_server_that_refuses_for_now_is_asked_again(backend: Backend, live: Live, status: int) -> None:
    life = live()
    headers = {"Retry-After": "0"} if status in (429, 503) else {}
    backend.server.plan(Fault(backend.writes, "refuse", status=status, headers=headers, times=4))
    life.say("first")
    life.say("second")
    assert life.memory.flush_pending(20)
    assert backend.heard("s1") == ["first", "second"]
    assert life.memory.status()[0].set_aside == 0


@pytest.mark.clause("D3")
def test_a_server_that_says_when_to_come_again_is_left_alone_until_then(backend: Backend, live: Live) -> None:
    life = live()
    backend.server.plan(Fault(backend.writes, "refuse", status=429, headers={"Retry-After": "600"}))
    life.say("patience")
    until(lambda: "429" in life.last_error)
    asked = len(backend.server.calls)
    assert not life.memory.flush_pending(0.3)
    assert len(backend.server.calls) == asked


@pytest.mark.clause("D3")
@pytest.mark.parametrize("status", [400, 413, 422])
def test_what_the_server_will_never_take_is_set_aside_and_the_rest_goes_on(
    backend: Backend, live: Live, status: int
) -> None:
    life = live()
    backend.server.plan(Fault(backend.writes, "refuse", status=status))
    life.say("not this")
    until(lambda: life.memory.status()[0].set_aside == 1)
    life.say("but this")
    assert life.memory.flush_pending(20)
    assert backend.heard("s1") == ["but this"]


@pytest.mark.clause("D1", "D3", "D9")
def test_a_server_that_is_down_gets_everything_when_it_is_back(backend: Backend, live: Live) -> None:
    life = live()
    life.say("before")
    assert life.memory.flush_pending(20)
    backend.server.stop()
    life.say("while it is down")
    until(lambda: life.last_error != "")
    assert not life.memory.flush_pending(0.2)
    backend.server.start()
    assert life.memory.flush_pending(20)
    assert backend.heard("s1") == ["before", "while it is down"]


@pytest.mark.clause("D3", "D9")
def test_a_wrong_key_is_said_by_name_and_costs_no_turn(backend: Backend, live: Live) -> None:
    life = live(key="wrong")
    life.say("with the wrong key")
    until(lambda: "refused the key" in life.last_error)
    assert "wrong" not in life.last_error.replace("wrong key", "")
    assert f"holdfast memory setup {backend.name}" in life.last_error
    assert life.end() == [f"1 turn is owed to {backend.name}; it will be sent at the next start"]
    mended = live()
    assert mended.memory.flush_pending(20)
    assert backend.heard("s1") == ["with the wrong key"]


@pytest.mark.clause("M1", "M5", "M7", "M9")
def test_a_slow_server_delays_neither_a_turn_nor_recall(backend: Backend, live: Live) -> None:
    life = live()
    life.say("my cat is called Miso")
    assert life.memory.flush_pending(20)
    slow = backend.server.plan(Fault(backend.writes, "wait"))
    try:
        life.say("and my dog Rex")
        assert slow.met.wait(20)
        assert not life.memory.flush_pending(0.1)
        # What is asked meanwhile does not queue behind what is written.
        assert life.memory.prefetch_all("what is my cat called", session_id="s2", timeout=20) is not None
        asked = [call for call in backend.server.calls if "recall" in call.parts or "find" in call.parts]
        assert asked
    finally:
        slow.gate.set()
    assert life.memory.flush_pending(20)


@pytest.mark.clause("M8")
def test_odd_texts_arrive_as_well_as_they_can(backend: Backend, live: Live) -> None:
    life = live()
    life.say("naïve ☃ 日本語 \U0001f980")
    life.say("half a character: \ud83e and a NUL: \x00.")
    life.say("long " * 20_000)
    assert life.memory.flush_pending(20)
    first, second, third = backend.heard("s1")
    assert first == "naïve ☃ 日本語 \U0001f980"
    assert second.startswith("half a character: ")
    assert "\x00" not in second
    assert third.strip() == ("long " * 20_000).strip()


@pytest.mark.clause("M2")
def test_a_turn_in_which_nothing_was_said_is_not_sent(backend: Backend, live: Live) -> None:
    life = live()
    life.memory.sync_all(" ", "", session_id="s1")
    assert life.memory.flush_pending(20)
    assert not [call for call in backend.server.calls if backend.writes in call.line]


def test_a_session_with_a_strange_name_keeps_its_own_turns(backend: Backend, live: Live) -> None:
    life = live()
    for session in ("a/b", "a-b", "..", "a b?c#d"):
        life.say(f"said in {session}", session=session)
    assert life.memory.flush_pending(20)
    assert life.memory.status()[0].set_aside == 0
    everything = [text for call in backend.server.calls for text in [call.request.body.decode()]]
    for session in ("a/b", "a-b", "..", "a b?c#d"):
        assert any(f"said in {session}" in body for body in everything)


def test_the_providers_work_is_done_by_one_thread_of_its_own(backend: Backend, live: Live) -> None:
    life = live()
    for number in range(5):
        life.say(f"turn {number}")
        life.memory.prefetch_all("turn", session_id="s1")
    assert life.memory.flush_pending(20)
    names = [each.name for each in threading.enumerate()]
    assert names.count(f"memory-{backend.name}") == 1
