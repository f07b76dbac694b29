"""Two host processes on one store: any accepts a word, one runs it, and the other goes on when it dies."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.agent.transcript import Transcript
from holdfast.sessions import SessionDB
from tests.agent.company import require_valid, until
from tests.host.fleet import Start, fleet

LEASE = 2.0
Scenario = Callable[[SessionDB, Start], Awaitable[None]]
Play = Callable[[Scenario], None]


@pytest.fixture
def play(store_url: str, tmp_path: Path, wait: Callable[[Awaitable[Any]], Any]) -> Play:
    """Plays a scenario with a look at the store and a way to start processes on it."""

    async def played(scenario: Scenario) -> None:
        with SessionDB.open(store_url) as db:
            async with fleet(store_url, tmp_path) as start:
                await scenario(db, start)

    return lambda scenario: wait(played(scenario))


def said(db: SessionDB, session: str, role: str = "user") -> list[Any]:
    return [m["content"] for m in db.get_messages(db.live_end(session)) if m["role"] == role]


def sound(db: SessionDB, session: str) -> None:
    """At most one live turn, one live end, and a transcript that every model takes."""
    assert db.check() == []
    require_valid(Transcript(db.get_messages(db.live_end(session))).messages)
    running = [turn for turn in db.turns.unfinished() if turn.session_id in db.lineage(session)]
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


@pytest.mark.slow
@pytest.mark.clause("I1")
def test_a_host_that_takes_over_finds_what_waits_in_a_dead_process_without_being_asked(
    play: Play, tmp_path: Path
) -> None:
    async def scenario(db: SessionDB, start: Start) -> None:
        a, b = await start(lease=LEASE), await start(lease=LEASE, host={"take_over": True})
        await a.do("send", session_id="s", text=f"hold {tmp_path / 'never'}")
        await until(lambda: bool(db.turns.unfinished()))
        await a.do("send", session_id="s", text="and then")
        await a.kill()
        await until(lambda: said(db, "s", "assistant")[-1:] == ["echo and then"])
        sound(db, "s")
        await b.close()

    play(scenario)


@pytest.mark.slow
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
            for session in db.lineage("s")
            for stored in db.read_messages(session)
            if stored.message["role"] == "user" and stored.turn_id and not stored.carried
        ]
        assert sorted(taken) == sorted(words)
        assert len(db.lineage("s")) > 1
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
        assert "state='elsewhere'" in await b.do("session_status", session_id="s")
        await a.kill()
        assert db.session_holder("s") is not None
        assert "state='unfinished'" in await b.do("session_status", session_id="s")
        assert "hold" in await b.do("unfinished", session_id="s")
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
        await until(lambda: db.uncommitted_sessions() == [])
        assert (tmp_path / "commits").read_text() == '["remember me", "echo remember me"]\n'
        await b.close()

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
        await a.shows("s", "TurnCompleted")
        assert said(db, "s", "assistant")[-1] == "echo next"
        sound(db, "s")
        await a.close()

    play(scenario)


def taken_from(db: SessionDB) -> bool:
    held = db.leases.current("session:s")
    if held is not None:
        db.leases.release(held)
    return db.hold_session("s", "thief") is not None
