"""A process that stands still longer than its lease fails nothing that nobody else took."""

import json
import sqlite3
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from holdfast.sessions import Lease, SessionDB
from holdfast.sessions.contract import SECOND
from tests.agent.agent_fixtures import until
from tests.host.host_processes import HostProcess, Start, host_processes
from tests.host.test_two_processes import said, sound

# Each test is several processes.
pytestmark = pytest.mark.slow

LEASE = 1.0
Scenario = Callable[[SessionDB, Start], Awaitable[None]]
Play = Callable[[Scenario], None]


@pytest.fixture
def play(store_url: str, tmp_path: Path, wait: Callable[[Awaitable[Any]], Any]) -> Play:
    """Plays a scenario with a look at the store and a way to start processes on it."""

    async def played(scenario: Scenario) -> None:
        with SessionDB.open(store_url) as db:
            async with host_processes(store_url, tmp_path) as start:
                await scenario(db, start)

    return lambda scenario: wait(played(scenario))


async def held(db: SessionDB) -> Lease:
    """The conversation's lease, once it is in force."""
    await until(lambda: db.leases.current("session:s") is not None)
    lease = db.leases.current("session:s")
    return lease or await held(db)


async def running(db: SessionDB, node: HostProcess, text: str) -> Lease:
    """A turn runs in the node; returns the lease that it runs under."""
    await node.do("new_session", session_id="s")
    await node.do("follow", session_id="s")
    await node.do("send", session_id="s", text=text)
    await until(lambda: bool(db.turns.unfinished()))
    return await held(db)


async def lease_ran_out(db: SessionDB) -> None:
    await until(lambda: db.session_holder("s") is None)


async def slept_past_its_lease(db: SessionDB, node: HostProcess) -> None:
    """Pause a process until its lease has run out, also one that it was about to renew.

    A process that stopped between a renewal and its commit commits when it goes on: the store shows the
    earlier end until then.
    """
    node.pause()

    def both_ran_out() -> bool:
        last = db.leases.last("session:s")
        return last is not None and time.time() > last.expires / SECOND + LEASE

    await until(both_ran_out)


def nothing_tells_of(holder: str, db: SessionDB, *nodes: HostProcess) -> None:
    """No transcript, event or answer names a holder or a lease."""
    shown = json.dumps([db.get_messages("s"), *(node.told for node in nodes)])
    assert holder not in shown
    assert "session:s" not in shown
    assert "lease" not in shown


@pytest.mark.clause("D11")
@pytest.mark.parametrize("says", ["hold", "tool"])
def test_a_turn_whose_process_slept_longer_than_its_lease_goes_on_to_its_answer(
    play: Play, tmp_path: Path, says: str
) -> None:
    async def scenario(db: SessionDB, start: Start) -> None:
        a, gate = await start(lease=LEASE), tmp_path / "gate"
        first = await running(db, a, f"{says} {gate}")
        await slept_past_its_lease(db, a)
        gate.touch()  # the answer and the next renewal come in the same moment
        a.wake()
        (done,) = await a.shows("s", "TurnCompleted")
        assert done["final_response"] == (f"held {gate}" if says == "hold" else "the tool is done")
        assert said(db, "s", "assistant")[-1] == done["final_response"]
        assert a.events("s", "TurnFailed", "TurnInterrupted") == []
        assert db.turns.unfinished() == []
        await lease_ran_out(db)  # it lets go when it has looked for more
        again = db.hold_session("s", "next")
        assert again is not None
        assert again.token > first.token + 1, "it was taken up with a token of its own"
        db.let_go_of_session("s", "next")
        nothing_tells_of(first.holder, db, a)
        sound(db, "s")
        await a.close()

    play(scenario)


@pytest.mark.clause("D11")
def test_a_process_that_wakes_holds_its_conversation_again_before_anything_is_said(
    play: Play, tmp_path: Path
) -> None:
    async def scenario(db: SessionDB, start: Start) -> None:
        a, gate = await start(lease=LEASE), tmp_path / "gate"
        before = await running(db, a, f"tool {gate}")
        for _ in range(2):
            await slept_past_its_lease(db, a)
            a.wake()
            now = await held(db)
            assert now.holder == before.holder
            assert now.token > before.token
            before = now
        gate.touch()
        await a.shows("s", "TurnCompleted")
        sound(db, "s")
        await a.close()

    play(scenario)


@pytest.mark.clause("D11")
def test_what_another_process_took_while_one_slept_stays_with_it_and_is_said_in_words(
    play: Play, tmp_path: Path
) -> None:
    async def scenario(db: SessionDB, start: Start) -> None:
        a, b, gate = await start(lease=LEASE), await start(lease=LEASE), tmp_path / "gate"
        lost = await running(db, a, f"hold {gate}")
        await slept_past_its_lease(db, a)
        await b.do("follow", session_id="s")
        await b.do("send", session_id="s", text="are you there?")
        await b.shows("s", "TurnCompleted")
        taken = db.get_messages("s")
        gate.touch()
        a.wake()
        (failed,) = await a.shows("s", "TurnFailed")
        assert "another process" in failed["error"]
        await a.do("send", session_id="s", text="and you?")
        completed = await a.shows("s", "TurnCompleted", 2)
        assert [each["final_response"] for each in completed] == ["echo are you there?", "echo and you?"]
        assert db.get_messages("s")[: len(taken)] == taken, "who lost it wrote nothing more"
        assert said(db, "s", "assistant")[-1] == "echo and you?"
        nothing_tells_of(lost.holder, db, a, b)
        sound(db, "s")
        await a.close()
        await b.close()

    play(scenario)


@pytest.mark.clause("D11")
def test_a_question_that_was_open_during_the_pause_can_still_be_answered_by_another_process(
    play: Play,
) -> None:
    async def scenario(db: SessionDB, start: Start) -> None:
        a, b = await start(lease=LEASE), await start(lease=LEASE)
        before = await running(db, a, "ask which way?")
        (asked,) = await a.shows("s", "QuestionAsked")
        await slept_past_its_lease(db, a)
        a.wake()
        assert (await held(db)).holder == before.holder
        assert await b.do("answer", session_id="s", ask_id=asked["ask_id"], text="left")
        await a.shows("s", "TurnCompleted")
        assert "the person says left" in json.dumps(db.get_messages("s"))
        sound(db, "s")
        await a.close()
        await b.close()

    play(scenario)


@contextmanager
def locked_by_another_program(url: str) -> Iterator[None]:
    """Nobody else can write to the store while inside."""
    scheme, _, path = url.partition(":///")
    if scheme == "sqlite":
        connection = sqlite3.connect(path, isolation_level=None)
        connection.execute("begin immediate")
        try:
            yield
        finally:
            connection.execute("rollback")
            connection.close()
        return
    with psycopg.connect(url) as server:
        server.execute("lock table messages, turns, leases in exclusive mode")
        yield
        server.rollback()


@pytest.mark.clause("D11")
@pytest.mark.parametrize("says", ["hold", "tool"])
def test_a_lock_that_outlasts_the_stores_patience_and_the_lease_fails_no_turn(
    play: Play, tmp_path: Path, store_url: str, says: str
) -> None:
    async def scenario(db: SessionDB, start: Start) -> None:
        a, gate = await start(lease=LEASE, patience=0.2), tmp_path / "gate"
        await running(db, a, f"{says} {gate}")
        with locked_by_another_program(store_url):
            await lease_ran_out(db)
            gate.touch()
            (waiting,) = await a.shows("s", "Notice")
            assert "other processes locked" in waiting["text"]
        (done,) = await a.shows("s", "TurnCompleted")
        assert said(db, "s", "assistant")[-1] == done["final_response"]
        assert "cut off" not in json.dumps(db.get_messages("s"))
        assert a.events("s", "TurnFailed", "TurnInterrupted") == []
        sound(db, "s")
        await a.close()

    play(scenario)
