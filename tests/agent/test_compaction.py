"""Compaction: one child whoever asks at once, nothing lost, nothing deleted, and an end to it always."""

import asyncio
import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest

from holdfast import Agent, SessionDB
from holdfast.core.clock import SystemClock
from holdfast.core.contract import Message
from holdfast.core.errors import StoreFault
from holdfast.sessions.sqlite import SqliteEngine
from holdfast.testing import ProcessDied, ScriptedModel
from holdfast.testing.faults import Moment
from tests.agent.agent_fixtures import DEADLINE, Hold, MortalEngine, require_valid, until
from tests.agent.compaction_fixtures import SUMMARY, CountingCompressor, an_agent, conversation

Wait = Callable[[Awaitable[Any]], Any]


@pytest.mark.clause("C8")
def test_the_conversation_goes_on_in_a_child_and_nothing_is_deleted(db: SessionDB, wait: Wait) -> None:
    messages = conversation(db)
    agent = an_agent(db, CountingCompressor())
    compacted, system = wait(agent.compress_context(messages, "be kind", approx_tokens=120_000))
    assert system == "be kind"
    assert compacted == [SUMMARY, messages[-1]]
    assert db.children("s") == [agent.session_id]
    parent = db.get_session("s")
    assert parent is not None
    assert parent.end_reason == "compression"
    assert db.get_messages("s") == messages
    assert db.search("question 0")[0].session_id == "s"
    assert db.get_compression_lock_holder("s") is None


@pytest.mark.clause("C1", "C2")
def test_of_many_threads_at_once_exactly_one_moves(db: SessionDB) -> None:
    messages = conversation(db)
    together = threading.Barrier(6)
    agents = [an_agent(db, CountingCompressor()) for _ in range(6)]
    given: dict[int, list[Message]] = {}

    def compact(place: int) -> None:
        async def work() -> None:
            together.wait(DEADLINE)
            given[place], _ = await agents[place].compress_context(messages, "", approx_tokens=120_000)

        asyncio.run(work())

    threads = [threading.Thread(target=compact, args=(place,)) for place in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE)
    (child,) = db.children("s")
    moved = [place for place, agent in enumerate(agents) if agent.session_id == child]
    assert len(moved) == 1
    for place, agent in enumerate(agents):
        if place not in moved:
            assert agent.session_id == "s"
            assert given[place] == messages
            assert agent.compressor.calls == 0  # type: ignore[attr-defined]
    assert db.get_compression_lock_holder("s") is None


WORKER = """
import asyncio, json, sys
from holdfast import Agent, SessionDB
from holdfast.testing import ScriptedModel

class Compressor:
    calls = 0
    def compress(self, messages):
        self.calls += 1
        return [{"role": "user", "content": "summary"}, *messages[-1:]]

async def main():
    with SessionDB.open(sys.argv[1]) as db:
        messages = db.get_messages("s")
        agent = Agent(ScriptedModel(), db, "s")
        agent.compressor = Compressor()
        print("ready", flush=True)
        sys.stdin.readline()
        given, _ = await agent.compress_context(messages, "", approx_tokens=120000)
        print(json.dumps([agent.session_id, agent.compressor.calls, given == messages]))

asyncio.run(main())
"""


@pytest.mark.clause("C1", "C2")
def test_of_many_processes_at_once_exactly_one_moves(db: SessionDB, store_url: str) -> None:
    conversation(db)
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", WORKER, store_url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ},
            text=True,
        )
        for _ in range(4)
    ]
    for worker in workers:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "ready\n"
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("go\n")
        worker.stdin.flush()
    outcomes = [json.loads(worker.communicate(timeout=DEADLINE)[0]) for worker in workers]
    (child,) = db.children("s")
    assert sorted(calls for _, calls, _ in outcomes) == [0, 0, 0, 1]
    assert [session for session, _, _ in outcomes].count(child) == 1
    assert all(verbatim for session, _, verbatim in outcomes if session == "s")
    assert db.get_compression_lock_holder("s") is None


@pytest.mark.clause("C2")
def test_who_finds_the_lock_taken_gets_its_messages_back(db: SessionDB, wait: Wait) -> None:
    messages = conversation(db)
    assert db.try_acquire_compression_lock("s", "another")
    compressor = CountingCompressor()
    agent = an_agent(db, compressor)
    assert wait(agent.compress_context(messages, "x"))[0] == messages
    assert compressor.calls == 0
    assert agent.session_id == "s"
    assert db.get_compression_lock_holder("s") == "another"


class BrokenLocks:
    """A store whose compression lock is missing or broken; the rest works."""

    def __init__(self, db: SessionDB, failure: Exception) -> None:
        self._db = db
        self._failure = failure

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        if name in ("try_acquire_compression_lock", "release_compression_lock"):
            raise self._failure
        return getattr(self._db, name)


@pytest.mark.clause("C4")
@pytest.mark.parametrize("failure", [AttributeError("no such method"), StoreFault("db", "no such table")])
def test_with_locking_broken_compaction_goes_on_and_says_so_once(
    db: SessionDB, wait: Wait, failure: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    messages = conversation(db)
    agent = an_agent(BrokenLocks(db, failure), CountingCompressor())  # type: ignore[arg-type]
    with caplog.at_level(logging.WARNING):
        compacted, _ = wait(agent.compress_context(messages, ""))
        assert len(compacted) == 2
        assert db.children("s") == [agent.session_id]
        wait(agent.compress_context([*compacted, *compacted, *compacted], ""))
    (said,) = [text for record in caplog.records if "without_lock" in (text := record.message)]
    assert "Update Holdfast" in said, "it says what to do"
    assert "restart" in said
    assert len(db.sessions.lineage("s")) == 3


class StuckLock:
    """A store whose compression lock is taken and can't be let go of."""

    def __init__(self, db: SessionDB, failure: Exception) -> None:
        self._db = db
        self._failure = failure

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        return getattr(self._db, name)

    def release_compression_lock(self, session_id: str, holder: str) -> None:
        raise self._failure


@pytest.mark.clause("C3", "C4")
@pytest.mark.parametrize(
    "failure", [RuntimeError("a plugin's"), StoreFault("db", "broken"), OSError(5, "I/O")]
)
def test_a_lock_that_can_not_be_let_go_of_does_not_fail_a_rotation_that_succeeded(
    db: SessionDB, wait: Wait, failure: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    messages = conversation(db)
    agent = an_agent(StuckLock(db, failure), CountingCompressor())  # type: ignore[arg-type]
    with caplog.at_level(logging.WARNING):
        compacted, _ = wait(agent.compress_context(messages, ""))
    assert len(compacted) == 2
    assert db.children("s") == [agent.session_id]
    assert "compaction.lock_not_released" in [record.message for record in caplog.records]


@pytest.mark.clause("C5")
def test_without_a_lock_the_loser_adopts_the_winners_child(db: SessionDB, wait: Wait) -> None:
    messages = conversation(db)

    def somebody_wins() -> None:
        db.rotate("s", "the winner", [SUMMARY], carry_from=len(messages))

    agent = an_agent(BrokenLocks(db, AttributeError("none")), CountingCompressor(somebody_wins))  # type: ignore[arg-type]
    compacted, _ = wait(agent.compress_context(messages, ""))
    assert db.children("s") == ["the winner"]
    assert agent.session_id == "the winner"
    assert compacted == [SUMMARY]


@pytest.mark.clause("C3")
def test_who_lost_its_lock_while_summarising_can_not_rotate(db: SessionDB, wait: Wait) -> None:
    messages = conversation(db)
    holder: list[str] = []

    def lose() -> None:
        holder.append(str(db.get_compression_lock_holder("s")))
        db.release_compression_lock("s", holder[0])

    agent = an_agent(db, CountingCompressor(lose))
    assert wait(agent.compress_context(messages, ""))[0] == messages
    assert db.children("s") == []
    assert agent.session_id == "s"


@pytest.mark.clause("C3", "N2")
def test_a_node_whose_conversation_another_took_while_it_summarised_can_not_rotate(
    db: SessionDB, wait: Wait
) -> None:
    conversation(db)
    events: list[object] = []

    def pause() -> None:
        """As long as a pause: the lease is another's, while nobody else asked for the compression lock."""
        db.let_go_of_session("s", "me")
        assert db.hold_session("s", "another") is not None

    async def scenario() -> None:
        agent = an_agent(db, CountingCompressor(pause))
        agent.lease = db.hold_session("s", "me")
        await agent.compact(events.append)
        assert agent.session_id == "s"
        await agent.close()

    wait(scenario())
    assert db.children("s") == []
    assert "lost" in str(events[-1])


@pytest.mark.clause("C7")
def test_what_arrives_while_the_summary_is_written_is_carried_over_in_order(
    db: SessionDB, wait: Wait
) -> None:
    messages = conversation(db)
    late: list[Message] = [{"role": "user", "content": f"late {n}"} for n in range(3)]

    def arrive() -> None:
        db.sessions.append_messages("s", late)
        db.inbox.put("s", {"role": "user", "content": "queued"})

    agent = an_agent(db, CountingCompressor(arrive))
    compacted, _ = wait(agent.compress_context(messages, ""))
    assert compacted == [SUMMARY, messages[-1], *late]
    assert [each.message["content"] for each in db.inbox.waiting(agent.session_id)] == ["queued"]


@pytest.mark.clause("C7")
def test_what_arrived_before_the_lock_was_taken_is_carried_over_too(db: SessionDB, wait: Wait) -> None:
    messages = conversation(db)
    db.sessions.append_message("s", {"role": "user", "content": "you did not see this"})
    agent = an_agent(db, CountingCompressor())
    compacted, _ = wait(agent.compress_context(messages, ""))
    assert compacted[-1]["content"] == "you did not see this"


def test_another_host_that_waits_finds_the_session_continued(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        messages = conversation(db)
        hold = Hold()

        class Held:
            async def compress(self, messages: list[Message]) -> list[Message]:
                await hold()
                return [SUMMARY]

        first, second = an_agent(db, Held()), an_agent(db, CountingCompressor())
        compacting = asyncio.create_task(first.compress_context(messages, ""))
        await hold.reached.wait()
        assert (await second.compress_context(messages, ""))[0] == messages
        hold.opened.set()
        await compacting
        await until(lambda: db.get_compression_lock_holder("s") is None)
        assert (await second.compress_context(messages, ""))[0] == messages
        assert second.session_id == "s"
        assert db.children("s") == [first.session_id]
        # Its next turn follows the conversation.
        result = await second.run("where are we?")
        assert result.session_id == first.session_id

    wait(scenario())


@pytest.mark.clause("C6")
@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("write", range(4))
def test_a_crash_at_any_commit_of_a_compaction_leaves_one_session_to_go_on_in(
    wait: Wait, write: int, moment: Moment
) -> None:
    async def scenario() -> None:
        engine = MortalEngine(SqliteEngine(":memory:", clock=SystemClock(), patience=5.0))
        db = SessionDB.on(engine)
        messages = conversation(db)
        agent = an_agent(db, CountingCompressor())
        engine.die_at(write, moment)
        with suppress(ProcessDied):
            await agent.compress_context(messages, "")
        engine.die_at(None)
        after = SessionDB.on(engine)
        assert len(after.children("s")) <= 1
        assert after.get_messages("s") == messages
        end = after.sessions.live_end("s")
        session = after.get_session(end)
        assert session is not None
        assert session.ended is None
        model = ScriptedModel(["going on"])
        result = await Agent(model, after, "s").run("still there?")
        assert result.session_id == end
        require_valid(model.requests[0].messages)

    wait(scenario())
