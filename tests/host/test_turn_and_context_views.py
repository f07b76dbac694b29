"""A turn as a timeline and a conversation's context, while it runs, after it, and after a restart."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from holdfast.agent import AgentOptions
from holdfast.core.errors import SessionNotFound, TurnNotFound
from holdfast.core.events import TurnStarted
from holdfast.host import SessionHost, TurnDetails
from holdfast.memory import MemoryManager
from holdfast.models.contract import ModelTraits
from holdfast.sessions import SessionDB
from holdfast.testing.scripted_model import Call, Tokens
from tests.agent.agent_fixtures import Hold, echo
from tests.agent.test_recalled import Knowing
from tests.host.host_fixtures import a_host, until_turns_end

Wait = Callable[[Awaitable[Any]], Any]


def kinds(view: TurnDetails) -> list[str]:
    return [each.kind for each in view.spans]


def memory_with(db: SessionDB) -> MemoryManager:
    memory = MemoryManager(db, drain_seconds=1.0)
    memory.add_provider(Knowing("notes", "likes tea"))
    return memory


async def one_turn(host: SessionHost, session: str, text: str = "go") -> str:
    await host.send(session, text)
    events = await until_turns_end(host, session)
    return next(event.turn_id for event in events if isinstance(event, TurnStarted))


def test_a_turn_is_a_timeline_also_after_a_restart(store_url: str, wait: Wait) -> None:
    async def first_life() -> TurnDetails:
        with SessionDB.open(store_url) as db:
            script = [[Tokens(30, 4), Call("echo", {"x": 1})], [Tokens(50, 6, 20), "done"]]
            async with a_host(db, script, tools=[echo()], memory=memory_with(db)) as host:
                turn_id = await one_turn(host, "s")
                assert host._parts.memory.flush_pending(10)  # noqa: SLF001 - until memory has it
                return await host.overview.turn(turn_id)

    async def second_life(turn_id: str) -> TurnDetails:
        with SessionDB.open(store_url) as db:
            async with a_host(db) as host:
                return await host.overview.turn(turn_id)

    view = wait(first_life())
    assert kinds(view) == ["recall", "model", "tool", "model", "storing", "delivery"]
    assert [(each.provider, each.text) for each in view.recalled] == [("notes", "likes tea")]
    assert (view.input_tokens, view.output_tokens, view.cached_tokens) == (80, 10, 20)
    assert (view.state, view.root_id) == ("completed", "s")
    *told, delivery = view.spans
    assert all(each.ok for each in told)
    times = [moment for each in told for moment in (each.started_ms, each.ended_ms or 0)]
    assert times == sorted(times)
    assert view.started_ms <= times[0] + 50
    assert times[-1] == view.ended_ms
    assert next(each for each in told if each.kind == "tool").name == "echo"
    assert (delivery.name, delivery.state, delivery.attempts, delivery.ok) == ("notes", "delivered", 1, True)
    assert wait(second_life(view.turn_id)) == view


def test_a_running_turn_shows_how_far_it_is(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        hold = Hold()
        script = [Call("hold"), "done"]
        async with a_host(db, script, tools=[hold.tool()], memory=memory_with(db)) as host:
            await host.send("s", "go")
            await hold.reached.wait()
            turn_id = (await host.overview.session_status("s")).turn_id or ""
            view = await host.overview.turn(turn_id)
            assert kinds(view) == ["recall", "model", "tool"]
            assert (view.state, view.ended_ms, view.recalled[0].text) == ("running", None, "likes tea")
            hold.opened.set()
            await until_turns_end(host, "s")
            assert "storing" in kinds(await host.overview.turn(turn_id))
            with pytest.raises(TurnNotFound):
                await host.overview.turn("nowhere")

    wait(scenario())


def test_a_turn_without_an_account_is_read_off_its_messages(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        db.create_session("s", source="test")
        turn = db.turns.open("s", {"role": "user", "content": "go"})
        function = {"name": "look", "arguments": "{}"}
        calls = [{"id": name, "type": "function", "function": function} for name in ("a", "b")]
        db.turns.append(turn.id, [{"role": "assistant", "content": "", "tool_calls": calls}])  # type: ignore[typeddict-item]
        db.turns.append(turn.id, [{"role": "tool", "tool_call_id": "a", "content": "seen"}])
        async with a_host(db) as host:
            view = await host.overview.turn(turn.id)
            assert [(each.kind, each.name, each.ok) for each in view.spans] == [
                ("model", "", True),
                ("tool", "look", True),
                ("tool", "look", None),
            ]
            assert view.spans[-1].ended_ms is None
            await host.commands.resume("s")
            resumed = await host.overview.turn(turn.id)
            assert kinds(resumed)[:2] == ["model", "tool"]
            assert kinds(resumed)[-2:] == ["model", "storing"]

    wait(scenario())


def test_a_delivery_that_fails_says_how_often_and_why(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        db.create_session("s", source="test")
        turn = db.turns.open("s", {"role": "user", "content": "go"})
        db.turns.complete(turn.id, {"role": "assistant", "content": "ok"}, providers=["far"])
        [delivery] = db.outbox.claim("far", lease_seconds=5)
        db.outbox.defer(delivery, delay_seconds=0, error="no route")
        async with a_host(db) as host:
            span = (await host.overview.turn(turn.id)).spans[-1]
            assert (span.kind, span.name, span.state) == ("delivery", "far", "owed")
            assert (span.attempts, span.error, span.ended_ms, span.ok) == (1, "no route", None, None)

    wait(scenario())


def test_the_context_is_weighed_part_by_part(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        hold = Hold()
        script = [[Call("echo", {"x": "y" * 400})], hold]
        async with a_host(db, script, tools=[echo()], memory=memory_with(db)) as host:
            await host.new_session(session_id="s")
            empty = await host.overview.context("s")
            assert {part.name for part in empty.parts if part.count} == {"system", "tools"}
            await host.send("s", "w" * 4_000)
            await hold.reached.wait()
            view = await host.overview.context("s")
            parts = {part.name: part for part in view.parts}
            assert parts["recalled"].count == 1
            assert parts["recalled"].tokens > 10
            assert (parts["person"].count, parts["assistant"].count, parts["tool_results"].count) == (1, 1, 1)
            assert 1_000 <= parts["person"].tokens < 1_010
            assert view.window > 0
            assert view.tokens >= parts["person"].tokens
            hold.opened.set()
            await until_turns_end(host, "s")
            while any(
                part.name == "recalled" and part.count for part in (await host.overview.context("s")).parts
            ):
                pass  # until the turn that was just shown to be over has left the prompt
            with pytest.raises(SessionNotFound):
                await host.overview.context("nowhere")

    wait(scenario())


def test_compactions_are_listed_with_what_they_took(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        options = AgentOptions()
        async with a_host(db, ["one", "two", "a summary"], agent_options=options) as host:
            await one_turn(host, "s", "first " * 200)
            await host.send("s", "second " * 200)
            await until_turns_end(host, "s", 2)
            child = await host.commands.compact("s")
            assert child != "s"
            view = await host.overview.context("s")
            [compaction] = view.compactions
            assert (compaction.session_id, compaction.child_id, compaction.messages) == ("s", child, 4)
            assert compaction.at_ms > 1_600_000_000_000
            assert {part.name: part.count for part in view.parts}["summary"] == 1
            assert view.session_id == child

    wait(scenario())


def test_the_context_of_a_conversation_that_nobody_has_opened_yet_is_read_from_the_store(
    db: SessionDB, wait: Wait
) -> None:
    async def scenario() -> None:
        db.create_session("s", source="test")
        for number in range(3):
            db.sessions.append_message("s", {"role": "user", "content": f"{number} " * 100})
            db.sessions.append_message("s", {"role": "assistant", "content": "ok"})
        async with a_host(db) as host:
            parts = {part.name: part.count for part in (await host.overview.context("s")).parts}
            assert (parts["person"], parts["assistant"]) == (3, 3)

    wait(scenario())


def test_the_models_own_count_is_taken_where_it_gave_one(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        async with a_host(db, [[Tokens(1_234, 5), "hi"]]) as host:
            await one_turn(host, "s")
            assert 1_234 <= (await host.overview.context("s")).tokens < 1_300

    wait(scenario())


def test_the_window_is_the_models(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        async with a_host(db) as host:
            host.model = ModelTraits(name="m", context_window=123_456)
            await host.new_session(session_id="s")
            assert (await host.overview.context_size("s")).window == 123_456

    wait(scenario())
