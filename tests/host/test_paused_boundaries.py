"""What a living process has yet to commit to memory is left to it, also while it stands still."""

import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast import Agent
from holdfast.host.holders import host_lease
from holdfast.sessions import SessionDB
from holdfast.sessions.contract import SECOND
from holdfast.testing import ScriptedModel
from tests.agent.agent_fixtures import until
from tests.host.host_processes import HostProcess, Start, host_processes
from tests.host.host_program import FileProvider
from tests.host.test_two_processes import recovered, said
from tests.polling import until_seen

# Each test is several processes.
pytestmark = [pytest.mark.slow, pytest.mark.clause("L14")]

LEASE = 1.0
REMEMBERED = '["remember me", "echo remember me"]\n'
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


async def slept_past(db: SessionDB, lease: str, node: HostProcess) -> None:
    """Pause a process until a lease has run out, also one that it was about to renew."""
    node.pause()

    def ran_out() -> bool:
        last = db.leases.last(lease)
        return last is not None and time.time() > last.expires / SECOND + LEASE

    await until(ran_out)


async def uncommitted_turn(db: SessionDB, node: HostProcess) -> None:
    await node.do("send", session_id="s", text="remember me")
    await until(lambda: db.sessions.uncommitted() == ["s"] and db.session_holder("s") is None)


def committed_turns(db: SessionDB) -> int:
    session = db.get_session("s")
    return 0 if session is None else session.committed_generation


def test_a_conversation_of_a_process_that_stands_still_is_left_to_its_own_boundary(
    play: Play, tmp_path: Path
) -> None:
    async def scenario(db: SessionDB, start: Start) -> None:
        commits = tmp_path / "commits"
        a = await start(lease=LEASE, memory=True)
        await uncommitted_turn(db, a)
        (holder,) = db.sessions.uncommitted_holders("s")
        await slept_past(db, host_lease(holder), a)
        b = await start(lease=LEASE, memory=True)
        await until_seen(lambda: recovered(b))
        assert not commits.exists()
        a.wake()
        await a.do("new_session", prev_session_id="s")
        await until(lambda: db.sessions.uncommitted() == [])
        await a.close()
        await b.close()
        assert commits.read_text() == REMEMBERED

    play(scenario)


@pytest.mark.clause("L13")
def test_a_conversation_of_a_process_that_stood_still_and_was_killed_is_committed_by_another(
    play: Play, tmp_path: Path
) -> None:
    async def scenario(db: SessionDB, start: Start) -> None:
        a = await start(lease=LEASE, memory=True)
        await uncommitted_turn(db, a)
        (holder,) = db.sessions.uncommitted_holders("s")
        await slept_past(db, host_lease(holder), a)
        b = await start(lease=LEASE, memory=True)
        await until_seen(lambda: recovered(b))
        await a.kill()
        await until(lambda: db.sessions.uncommitted() == [])
        await b.close()
        assert (tmp_path / "commits").read_text() == REMEMBERED

    play(scenario)


def test_turns_that_a_process_hands_over_as_it_stands_still_are_handed_over_once(
    play: Play, tmp_path: Path
) -> None:
    async def scenario(db: SessionDB, start: Start) -> None:
        commits, gate = tmp_path / "commits", tmp_path / "commit-gate"
        a, b = [await start(lease=LEASE, memory=True, commit_gate=str(gate)) for _ in range(2)]
        await uncommitted_turn(db, a)
        await a.do("new_session", prev_session_id="s")
        await until(commits.exists)
        await slept_past(db, "boundary:s", a)
        gate.touch()
        # B said something in it as well, so its own boundary and its end have turns to commit.
        await b.do("send", session_id="s", text="and me")
        await until(lambda: said(db, "s", "assistant") == ["echo remember me", "echo and me"])
        await b.do("new_session", prev_session_id="s")
        await b.close()
        assert commits.read_text() == REMEMBERED
        a.wake()
        await until(lambda: committed_turns(db) == 1)
        await a.close()
        c = await start(lease=LEASE, memory=True)
        await until(lambda: db.sessions.uncommitted() == [])
        await c.close()
        assert commits.read_text() == f'{REMEMBERED}["and me", "echo and me"]\n'

    play(scenario)


def test_a_conversation_of_a_living_program_without_a_host_is_left_to_it(
    play: Play, store_url: str, tmp_path: Path
) -> None:
    async def scenario(db: SessionDB, start: Start) -> None:
        model = ScriptedModel(["echo remember me"])
        provider = FileProvider(tmp_path, "")
        async with Agent(model, store=store_url, session="s", memory=[provider]) as agent:
            await agent.run("remember me")
            assert db.sessions.uncommitted() == ["s"]
            b = await start(lease=LEASE, memory=True)
            await until_seen(lambda: recovered(b))
            assert not (tmp_path / "commits").exists()
        await until(lambda: db.sessions.uncommitted() == [])
        await b.close()
        assert (tmp_path / "commits").read_text() == REMEMBERED

    play(scenario)
