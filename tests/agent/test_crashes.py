"""After a crash: the unfinished turn is found, told honestly, and resumed, retried or dropped."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast import Agent, SessionDB
from holdfast.core.clock import SystemClock
from holdfast.core.errors import InvalidInput, TurnCutOff, TurnNotRunning
from holdfast.models.contract import ModelRequest
from holdfast.sessions.sqlite import SqliteEngine
from holdfast.testing import Call, ProcessDied, ScriptedModel
from holdfast.tools.contract import ToolContext
from tests.agent.agent_fixtures import DEADLINE, Hold, MortalEngine, a_tool, echo, require_valid, until

Wait = Callable[[Awaitable[Any]], Any]


async def cut_off(db: SessionDB, *answers: Any) -> None:  # noqa: ANN401
    """A turn whose process is gone while the tool `stuck` runs."""
    hold = Hold()
    agent = Agent(ScriptedModel(list(answers)), db, "s", tools=[echo(), hold.tool("stuck")])
    turn = asyncio.create_task(agent.run("delete the old files"))
    await hold.reached.wait()
    running = agent._running  # noqa: SLF001 - what dies with the process
    assert running is not None
    task = running._task  # noqa: SLF001
    # The turn vanishes without a chance to write its end, as in a SIGKILL.
    running.store._run = _never  # type: ignore[method-assign]  # noqa: SLF001
    task.cancel()
    with pytest.raises(ProcessDied):
        await turn


async def _never(*_: object, **__: object) -> Any:  # noqa: ANN401
    raise ProcessDied("before")


@pytest.mark.clause("D10")
def test_a_cut_off_turn_is_found_with_what_was_finished_and_what_was_not(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        await cut_off(db, [Call("echo")], [Call("stuck")])
        found = await Agent(ScriptedModel(), db, "s").unfinished()
        assert found is not None
        assert found.said == "delete the old files"
        assert found.finished_calls == 1
        assert found.open_calls == ("stuck",)

    wait(scenario())


@pytest.mark.clause("D10")
def test_a_resumed_turn_goes_on_without_running_a_call_again(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        await cut_off(db, [Call("echo")], [Call("stuck")])
        ran: list[str] = []

        async def stuck(context: ToolContext, arguments: dict[str, Any]) -> str:
            ran.append("stuck")
            return "again"

        model = ScriptedModel(["I looked; it is done."])
        agent = Agent(model, db, "s", tools=[echo(), a_tool("stuck", stuck)])
        result = await agent.resume()
        assert result.final_response == "I looked; it is done."
        assert ran == []
        sent = model.requests[0].messages
        require_valid(sent)
        assert "cut off by a crash" in str(sent[-1]["content"])
        turn = db.turns.get(result.turn_id)
        assert turn is not None
        assert turn.state == "completed"
        assert await agent.unfinished() is None

    wait(scenario())


@pytest.mark.clause("D10")
def test_a_retried_turn_keeps_the_old_one_on_record(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        await cut_off(db, [Call("stuck")])
        model = ScriptedModel(["done this time"])
        result = await Agent(model, db, "s", tools=[echo()]).retry()
        assert result.final_response == "done this time"
        said = [m["content"] for m in db.get_messages("s") if m["role"] == "user"]
        assert said == ["delete the old files"] * 2
        require_valid(model.requests[0].messages)

    wait(scenario())


@pytest.mark.clause("D10")
def test_a_dropped_turn_stays_on_record_and_the_session_goes_on(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        await cut_off(db, [Call("stuck")])
        model = ScriptedModel(["hello"])
        agent = Agent(model, db, "s")
        with pytest.raises(TurnCutOff, match=r"resume\(\)` goes on with it.*drop\(\)` ends it"):
            await agent.run("hello?")
        await agent.drop()
        with pytest.raises(InvalidInput, match="no turn is unfinished"):
            await agent.drop()
        assert (await agent.run("hello?")).final_response == "hello"
        require_valid(model.requests[0].messages)
        assert db.get_messages("s")[0]["content"] == "delete the old files"

    wait(scenario())


@pytest.mark.clause("D10")
@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("write", range(7))
def test_a_crash_at_any_commit_leaves_a_turn_that_can_be_resumed(
    wait: Wait,
    write: int,
    moment: Any,  # noqa: ANN401
) -> None:
    async def scenario() -> None:
        engine = MortalEngine(SqliteEngine(":memory:", clock=SystemClock(), patience=5.0))
        db = SessionDB.on(engine)
        db.create_session("s", source="test")
        engine.die_at(write, moment)
        agent = Agent(
            ScriptedModel([[Call("echo"), Call("echo")], [Call("echo")], "done"]), db, "s", tools=[echo()]
        )
        with contextlib.suppress(ProcessDied):
            await agent.run("go")
        engine.die_at(None)
        model = ScriptedModel(["done after all", "and on"])
        after = Agent(model, SessionDB.on(engine), "s", tools=[echo()])
        if await after.unfinished() is not None:
            assert (await after.resume()).state == "completed"
        await after.run("next")
        for request in model.requests:
            require_valid(request.messages)

    wait(scenario())


@pytest.mark.clause("D10")
def test_what_had_come_of_an_answer_survives_a_crash_in_mid_stream(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        hold = Hold()

        class Slow(ScriptedModel):
            async def stream(self, request: ModelRequest) -> Any:  # noqa: ANN401
                async for piece in super().stream(request):
                    if self.played == 1 and getattr(piece, "text", "").strip() == "never":
                        await hold()
                    yield piece

        model = Slow(["first second third never said"])
        agent = Agent(model, db, "s")
        turn = asyncio.create_task(agent.run("go"))
        await hold.reached.wait()
        await until(lambda: db.turns.partial(agent.running_turn or "") != "")
        running = agent._running  # noqa: SLF001 - what dies with the process
        assert running is not None
        running.store._run = _never  # type: ignore[method-assign]  # noqa: SLF001
        running._task.cancel()  # noqa: SLF001
        with pytest.raises(ProcessDied):
            await turn
        after = Agent(ScriptedModel(["whole"]), db, "s")
        found = await after.unfinished()
        assert found is not None
        assert found.partial.startswith("first second")
        await after.resume()
        told = [str(m["content"]) for m in db.get_messages("s")]
        assert told[1].startswith("first second")
        assert told[-1] == "whole"
        assert db.turns.partial(found.turn_id) == ""

    wait(scenario())


def test_what_came_before_a_pause_of_the_model_is_saved_during_it(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        agent = Agent(ScriptedModel([["The first words", 60.0, " and more"]]), db, "s")
        running = asyncio.create_task(agent.run("go"))
        await until(lambda: bool(agent.running_turn) and db.turns.partial(agent.running_turn or "") != "")
        assert db.turns.partial(agent.running_turn or "") == "The first words"
        agent.interrupt()
        assert (await running).interrupted
        assert db.turns.unfinished() == []
        await agent.close()

    wait(scenario())


def test_a_partial_answer_counts_only_until_a_message_takes_its_place(db: SessionDB) -> None:
    db.create_session("s", source="test")
    turn = db.turns.open("s", {"role": "user", "content": "go"})
    db.turns.save_partial(turn.id, "half")
    assert db.turns.partial(turn.id) == "half"
    db.turns.append(turn.id, [{"role": "assistant", "content": "half and half"}])
    assert db.turns.partial(turn.id) == ""
    with pytest.raises(InvalidInput):
        db.turns.save_partial(turn.id, "nul\0")
    db.turns.complete(turn.id)
    with pytest.raises(TurnNotRunning):
        db.turns.save_partial(turn.id, "late")


WORKER = """
import asyncio, sys
from holdfast import Agent, SessionDB
from holdfast.testing import Call, ScriptedModel
from holdfast.tools.contract import Tool, ToolResult

async def note(context, arguments):
    open(sys.argv[2], "a").write("ran\\n")
    return ToolResult("noted")

async def stuck(context, arguments):
    print("stuck", flush=True)
    await asyncio.Event().wait()

async def main():
    schema = {"type": "object", "properties": {}}
    tools = [Tool("note", "Notes.", schema, note), Tool("stuck", "Waits.", schema, stuck)]
    model = ScriptedModel([[Call("note")], [Call("stuck")]])
    await Agent(model, SessionDB.open(sys.argv[1]), "s", tools=tools).run("go")

asyncio.run(main())
"""


@pytest.mark.clause("D10")
def test_a_killed_process_leaves_its_turn_to_the_next(store_url: str, tmp_path: Path, wait: Wait) -> None:
    notes = tmp_path / "notes"
    worker = subprocess.Popen(
        [sys.executable, "-c", WORKER, store_url, str(notes)], stdout=subprocess.PIPE, env={**os.environ}
    )
    try:
        assert worker.stdout is not None
        assert worker.stdout.readline().strip() == b"stuck"
        worker.send_signal(signal.SIGKILL)
        worker.wait(DEADLINE)
    finally:
        worker.kill()
        worker.communicate()

    async def scenario() -> None:
        with SessionDB.open(store_url) as db:
            model = ScriptedModel(["I am back."])
            agent = Agent(model, db, "s", tools=[echo()])
            found = await agent.unfinished()
            assert found is not None
            assert (found.finished_calls, found.open_calls) == (1, ("stuck",))
            await agent.resume()
            require_valid(model.requests[0].messages)

    wait(scenario())
    assert notes.read_text() == "ran\n"
