"""Two host processes on one store: any accepts a word, one runs it, and the other goes on when it dies."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from holdfast.agent.transcript import Transcript
from holdfast.sessions import SessionDB
from tests.agent.agent_fixtures import require_valid, until
from tests.host.host_processes import HostProcess, Start, host_processes
from tests.polling import until_seen

# Each test is several processes.
pytestmark = pytest.mark.slow

LEASE = 2.0
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


def said(db: SessionDB, session: str, role: str = "user") -> list[Any]:
    return [m["content"] for m in db.get_messages(db.sessions.live_end(session)) if m["role"] == role]


async def recovered(process: HostProcess) -> bool:
    return "recovering=True" not in await process.do("overview.status")


def sound(db: SessionDB, session: str) -> None:
    """At most one live turn, one live end, and a transcript that every model takes."""
    assert db.check() == []
    require_valid(Transcript(db.get_messages(db.sessions.live_end(session))).messages)
    running = [turn for turn in db.turns.unfinished() if turn.session_id in db.sessions.lineage(session)]
    assert len(running) <= 1


@pytest.mark.clause("I1", "I2", "I4")
def test_words_given_to_one_process_reach_the_turn_that_another_runs(play: Play, tmp_path: Path) -> None:
    async def scenario(db: SessionDB, start: Start) -> None:
        a, b = await start(), await start()
        await a.do("new_session", session_id="s")
        await b.do("follow", session_id="s")
        gate = tmp_path / "first"
        await a.do("send", session_id="s", text=f"tool {gate}")
        await b.shows("s", "ToolStarted")

        # A steer through B joins A's turn, and a message through B waits for its end.
        await b.do("send", session_id="s", text="by the way", mode="steer")
        await b.do("send", session_id="s", text=f"hold {tmp_path / 'never'}")
        gate.touch()
        await b.shows("s", "TurnStarted", 2)
        assert said(db, "s") == [f"tool {gate}", "by the way", f"hold {tmp_path / 'never'}"]
        (joined,) = b.events("s", "MessageJoined")
        assert joined["text"] == "by the way"
        (done,) = b.events("s", "TurnCompleted")
        assert done["final_response"] == "echo by the way"
        (turn,) = db.turns.unfinished()
        assert db.session_holder("s") is not None

        # An interrupt through B, without a word, stops that turn; A is the one who ran it.
        assert await b.do("interrupt", session_id="s")
        await b.shows("s", "TurnInterrupted", 1)
        assert b.events("s", "TurnInterrupted")[0]["turn_id"] == turn.id

        # The stop is addressed to that turn: it touches no later one.
        await b.do("send", session_id="s", text="hello again")
        await b.shows("s", "TurnCompleted", 2)
        sound(db, "s")
        await a.close()
        await b.close()

    play(scenario)


@pytest.mark.clause("I2", "I6")
def test_an_interrupt_with_a_word_through_another_process_stops_the_turn_within_a_second(
    play: Play, tmp_path: Path
) -> None:
    async def scenario(db: SessionDB, start: Start) -> None:
        a, b = await start(), await start()
        await a.do("new_session", session_id="s")
        await a.do("follow", session_id="s")
        await a.do("send", session_id="s", text=f"hold {tmp_path / 'never'}")
        await until(lambda: bool(db.turns.unfinished()))
        began = time.monotonic()
        await b.do("send", session_id="s", text="stop, do this", mode="interrupt")
        await a.shows("s", "TurnInterrupted")
        assert time.monotonic() - began < 1.0
        # A held the conversation, so A runs the message right after.
        await a.shows("s", "TurnCompleted")
        assert said(db, "s", "assistant")[-1] == "echo stop, do this"
        sound(db, "s")

    play(scenario)


@pytest.mark.clause("D10", "I1", "C3")
def test_a_killed_process_is_taken_over_and_its_turn_closed_honestly(play: Play, tmp_path: Path) -> None:
    async def scenario(db: SessionDB, start: Start) -> None:
        a, b = await start(lease=LEASE), await start(lease=LEASE)
        await a.do("new_session", session_id="s")
        await b.do("follow", session_id="s")
        await a.do("send", session_id="s", text=f"tool {tmp_path / 'never'}")
        await b.shows("s", "ToolStarted")
        await b.do("send", session_id="s", text="are you there?")
        assert len(b.events("s", "TurnStarted")) == 1
        await a.kill()
        killed = time.monotonic()
        await b.shows("s", "TurnCompleted")
        assert time.monotonic() - killed < LEASE + 5.0
        (cut,) = b.events("s", "TurnInterrupted")
        assert cut["turn_id"] == b.events("s", "TurnStarted")[0]["turn_id"]
        assert [m["role"] for m in db.get_messages("s")] == [
            *("user", "assistant", "tool", "assistant"),
            *("user", "assistant"),
        ]
        assert "cut off by a crash" in str(db.get_messages("s")[2]["content"])
        assert said(db, "s", "assistant")[-1] == "echo are you there?"
        sound(db, "s")
        await b.close()

    play(scenario)


@pytest.mark.clause("I1", "I7")
def test_a_living_server_goes_on_with_what_a_killed_one_left_in_conversations_it_never_touched(
    play: Play, tmp_path: Path
) -> None:
    async def scenario(db: SessionDB, start: Start) -> None:
        resume = {"after_crash": "resume"}
        a, b = await start(lease=600, host=resume), await start(lease=600, host=resume)
        gate = tmp_path / "gate"
        for number in range(3):
            await a.do("send", session_id=f"s{number}", text=f"hold {gate}")
        await until(lambda: len(db.turns.unfinished()) == 3)
        for number in range(3):
            await a.do("send", session_id=f"s{number}", text=f"and then {number}")
        # Its death is proven on this machine: nobody waits for leases of ten minutes.
        await a.kill()
        gate.touch()
        sessions = [f"s{number}" for number in range(3)]
        await until(lambda: all(len(said(db, session, "assistant")) == 2 for session in sessions))
        for number, session in enumerate(sessions):
            assert said(db, session, "assistant") == [f"held {gate}", f"echo and then {number}"]
            assert said(db, session) == [f"hold {gate}", f"and then {number}"]
            sound(db, session)
        await b.close()

    play(scenario)


@pytest.mark.clause("I7")
def test_a_message_that_ends_its_process_each_time_is_given_up_and_the_next_one_runs(
    play: Play, tmp_path: Path
) -> None:
    async def scenario(db: SessionDB, start: Start) -> None:
        resume = {"after_crash": "resume"}
        db.create_session("s", source="test")
        for word in ("die", "and then"):
            db.inbox.put("s", {"role": "user", "content": word})
        for _ in range(4):
            a = await start(lease=LEASE, host=resume)
            await until(partial(getattr, a, "ended"))
        a = await start(lease=LEASE, host=resume)
        await until(lambda: said(db, "s", "assistant")[-1:] == ["echo and then"])
        assert "its process ended 4 times in this turn" in str(said(db, "s", "assistant")[0])
        sound(db, "s")
        await a.close()

    play(scenario)


@pytest.mark.clause("C1")
def test_many_words_through_two_processes_at_once_each_run_once_and_one_at_a_time(
    play: Play, tmp_path: Path
) -> None:
    async def scenario(db: SessionDB, start: Start) -> None:
        a, b = await start(window=1_500), await start(window=1_500)
        await a.do("new_session", session_id="s")
        words = [f"{('long', 'word')[number % 3 != 0]} {number}" for number in range(20)]
        sends = [
            (a, b)[number % 2].do("send", session_id="s", text=word) for number, word in enumerate(words)
        ]
        await asyncio.gather(*sends)

        await until(lambda: not db.inbox.sessions() and not db.turns.unfinished())
        taken = [
            str(stored.message["content"])
            for session in db.sessions.lineage("s")
            for stored in db.sessions.read(session)
            if stored.message["role"] == "user" and stored.turn_id and not stored.carried
        ]
        assert sorted(taken) == sorted(words)
        assert len(db.sessions.lineage("s")) > 1
        sound(db, "s")
        await a.close()
        await b.close()

    play(scenario)


@pytest.mark.clause("I1")
def test_what_a_process_of_this_machine_left_is_taken_over_at_once_when_it_is_killed(
    play: Play, tmp_path: Path
) -> None:
    async def scenario(db: SessionDB, start: Start) -> None:
        a, b = await start(lease=600), await start(lease=600)
        await a.do("send", session_id="s", text=f"hold {tmp_path / 'never'}")
        await until(lambda: bool(db.turns.unfinished()))
        assert "state='elsewhere'" in await b.do("overview.session_status", session_id="s")
        await a.kill()
        assert db.session_holder("s") is not None
        assert "state='unfinished'" in await b.do("overview.session_status", session_id="s")
        assert "hold" in await b.do("commands.unfinished", session_id="s")
        await b.do("send", session_id="s", text="are you there?")
        await until(lambda: said(db, "s", "assistant")[-1:] == ["echo are you there?"])
        sound(db, "s")
        await b.close()

    play(scenario)


@pytest.mark.clause("L13")
def test_what_a_killed_process_had_not_committed_the_next_one_does(play: Play, tmp_path: Path) -> None:
    async def scenario(db: SessionDB, start: Start) -> None:
        a = await start(lease=LEASE, memory=True)
        await a.do("new_session", session_id="s")
        await a.do("follow", session_id="s")
        await a.do("send", session_id="s", text="remember me")
        await a.shows("s", "TurnCompleted")
        await until(lambda: db.outbox.backlog("file").owed == 0)
        await a.kill()
        assert not (tmp_path / "commits").exists()
        b = await start(lease=LEASE, memory=True)
        await until(lambda: db.sessions.uncommitted() == [])
        assert (tmp_path / "commits").read_text() == '["remember me", "echo remember me"]\n'
        await b.close()

    play(scenario)


@pytest.mark.clause("L14")
def test_a_second_process_leaves_a_conversation_to_the_living_one_that_uses_it(
    play: Play, tmp_path: Path
) -> None:
    async def scenario(db: SessionDB, start: Start) -> None:
        a = await start(lease=LEASE, memory=True)
        await a.do("send", session_id="s", text="remember me")
        await until(lambda: db.sessions.uncommitted() == ["s"] and db.session_holder("s") is None)
        b = await start(lease=LEASE, memory=True)
        await until_seen(lambda: recovered(b))
        assert not (tmp_path / "commits").exists()
        # Its own boundary commits it, and whoever comes later finds nothing to do.
        await a.do("new_session", prev_session_id="s")
        await until(lambda: db.sessions.uncommitted() == [])
        await a.close()
        await b.close()
        assert (tmp_path / "commits").read_text() == '["remember me", "echo remember me"]\n'

    play(scenario)


@pytest.mark.clause("L14", "L13")
def test_what_a_process_used_is_committed_by_a_living_one_once_it_is_killed(
    play: Play, tmp_path: Path
) -> None:
    async def scenario(db: SessionDB, start: Start) -> None:
        a = await start(lease=LEASE, memory=True)
        await a.do("send", session_id="s", text="remember me")
        await until(lambda: db.sessions.uncommitted() == ["s"])
        b = await start(lease=LEASE, memory=True)
        await until_seen(lambda: recovered(b))
        await a.kill()
        await until(lambda: db.sessions.uncommitted() == [])
        await b.close()
        assert (tmp_path / "commits").read_text() == '["remember me", "echo remember me"]\n'

    play(scenario)


@pytest.mark.clause("L14")
def test_two_processes_that_reach_a_boundary_at_once_commit_each_turn_once(
    play: Play, tmp_path: Path
) -> None:
    async def scenario(db: SessionDB, start: Start) -> None:
        gate = tmp_path / "commit-gate"
        options = {"memory": True, "commit_gate": str(gate)}
        a, b = await start(**options), await start(**options)
        await a.do("send", session_id="s", text="one")
        await until(lambda: said(db, "s", "assistant") == ["echo one"])
        await b.do("send", session_id="s", text="two")
        await until(lambda: said(db, "s", "assistant") == ["echo one", "echo two"])
        await a.do("new_session", prev_session_id="s")
        await until((tmp_path / "commits").exists)
        # A's commit is under way: B's own boundary, and its end, leave the same turns alone.
        await b.do("new_session", prev_session_id="s")
        await b.close()
        assert (tmp_path / "commits").read_text().count("\n") == 1
        gate.touch()
        await until(lambda: db.sessions.uncommitted() == [])
        await a.close()
        assert (tmp_path / "commits").read_text() == '["one", "echo one", "two", "echo two"]\n'

    play(scenario)


def test_a_process_that_stood_still_too_long_looks_again_and_goes_on(play: Play, tmp_path: Path) -> None:
    async def scenario(db: SessionDB, start: Start) -> None:
        a = await start(lease=LEASE)
        await a.do("new_session", session_id="s")
        await a.do("follow", session_id="s")
        gate = tmp_path / "gate"
        await a.do("send", session_id="s", text=f"hold {gate}")
        await until(lambda: bool(db.turns.unfinished()))
        db.inbox.put("s", {"role": "user", "content": "next"})
        # As if the machine had slept: the lease is out, and for a moment somebody else's.
        await until(lambda: taken_from(db))
        gate.touch()
        await a.shows("s", "TurnFailed")
        db.let_go_of_session("s", "thief")
        await a.shows("s", "TurnCompleted", 2)
        assert said(db, "s", "assistant") == [f"held {gate}", "echo next"], "nobody had touched the turn"
        sound(db, "s")
        await a.close()

    play(scenario)


@pytest.mark.clause("I7")
def test_a_turn_that_another_process_took_and_left_open_as_it_died_is_gone_on_with(
    play: Play, tmp_path: Path
) -> None:
    async def scenario(db: SessionDB, start: Start) -> None:
        a = await start(lease=LEASE, host={"after_crash": "resume"})
        await a.do("new_session", session_id="s")
        await a.do("follow", session_id="s")
        gate = tmp_path / "gate"
        await a.do("send", session_id="s", text=f"hold {gate}")
        await until(lambda: bool(db.turns.unfinished()))
        # A stands still, B goes on with its turn, and B is killed in the middle of it.
        await until(lambda: taken_from(db))
        [turn] = db.turns.unfinished()
        db.turns.append(turn.id, [{"role": "assistant", "content": "(half of it, by another process)"}])
        gate.touch()
        await a.shows("s", "TurnFailed")
        assert db.turns.running("s") is not None
        db.let_go_of_session("s", "thief")
        await until(lambda: db.turns.running("s") is None)
        ended = db.turns.get(turn.id)
        assert ended is not None
        assert (ended.state, ended.reason) == ("completed", None)
        await a.shows("s", "TurnResumed")
        await a.shows("s", "TurnCompleted")
        sound(db, "s")
        await a.close()

    play(scenario)


def taken_from(db: SessionDB) -> bool:
    held = db.leases.current("session:s")
    if held is not None:
        db.leases.release(held)
    return db.hold_session("s", "thief") is not None
