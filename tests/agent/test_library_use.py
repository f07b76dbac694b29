"""An `Agent` in the hands of a program of one's own: called twice at once, on loop after loop, and closed."""

import asyncio
import gc
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from holdfast import Agent, SessionDB
from holdfast.agent import AgentOptions, Pools
from holdfast.agent.transcript import Transcript
from holdfast.core.clock import SystemClock
from holdfast.core.contract import Message
from holdfast.core.errors import DiskFull, InvalidInput, LeaseLost, StoreBusy, StoreFault, TurnAlreadyRunning
from holdfast.core.events import Event, Notice
from holdfast.models.contract import ModelRequest, TextPiece
from holdfast.sessions.lease_keeper import LeaseKeeper
from holdfast.sessions.sqlite import SqliteEngine
from holdfast.testing import Call, ScriptedModel
from tests.agent.agent_fixtures import FailingEngine, Hold, HoldingEngine, a_step, echo, require_valid, until

Wait = Callable[[Awaitable[Any]], Any]


def same_as_stored(agent: Agent, db: SessionDB) -> bool:
    return list(agent.messages) == Transcript(db.get_messages(agent.session_id)).messages


@pytest.fixture
def engine() -> FailingEngine:
    return FailingEngine(SqliteEngine(":memory:", clock=SystemClock(), patience=5.0))


@pytest.fixture
def store(engine: FailingEngine) -> Any:  # noqa: ANN401
    with SessionDB.on(engine) as db:
        yield db


def test_of_two_runs_at_once_one_is_refused_and_the_other_can_be_interrupted(
    store: SessionDB, wait: Wait
) -> None:
    async def scenario() -> None:
        hold = Hold()
        agent = Agent(ScriptedModel([hold, "fine"]), store, "s")
        one, two = asyncio.create_task(agent.run("one")), asyncio.create_task(agent.run("two"))
        await hold.reached.wait()
        await until(two.done)
        with pytest.raises(TurnAlreadyRunning):
            two.result()
        assert agent.running_turn is not None
        agent.interrupt()
        assert (await one).interrupted
        assert same_as_stored(agent, store)
        assert (await agent.run("three")).final_response == "fine"
        await agent.close()

    wait(scenario())


@pytest.mark.parametrize("other", ["stream", "resume", "drop", "compact", "retry"])
def test_nothing_else_begins_while_a_turn_begins(store: SessionDB, wait: Wait, other: str) -> None:
    async def scenario() -> None:
        hold = Hold()
        agent = Agent(ScriptedModel([hold]), store, "s")

        async def read(events: Any) -> None:  # noqa: ANN401
            async for _ in events:
                pass

        begin: dict[str, Callable[[], Awaitable[Any]]] = {
            "stream": lambda: read(agent.stream("two")),
            "resume": agent.resume,
            "drop": agent.drop,
            "compact": lambda: agent.compact(lambda _: None),
            "retry": agent.retry,
        }
        one = asyncio.create_task(agent.run("one"))
        await a_step()
        with pytest.raises(TurnAlreadyRunning):
            await begin[other]()
        await hold.reached.wait()
        hold.opened.set()
        assert (await one).final_response == "held"
        assert same_as_stored(agent, store)
        await agent.close()

    wait(scenario())


@pytest.mark.clause("I6")
def test_an_interrupt_that_comes_while_a_turn_begins_stops_it(store: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        model = ScriptedModel(["never said"])
        agent = Agent(model, store, "s")
        turn = asyncio.create_task(agent.run("do X"))
        await a_step()
        assert agent.running_turn is None
        agent.interrupt()
        assert (await turn).interrupted
        assert store.get_messages("s")[0]["content"] == "do X"
        assert (await agent.run("again")).final_response == "never said"
        await agent.close()

    wait(scenario())


@pytest.mark.clause("I4")
def test_an_interrupt_of_a_turn_that_never_began_touches_no_other(store: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        agent = Agent(ScriptedModel(["fine"]), store, "s")
        turn = asyncio.create_task(agent.run(None))
        await a_step()
        agent.interrupt()
        with pytest.raises(InvalidInput):
            await turn
        assert not (await agent.run("go")).interrupted
        await agent.close()

    wait(scenario())


@pytest.mark.clause("I3")
def test_an_interrupt_before_the_first_turn_is_its_own_turn(store: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        model = ScriptedModel()
        agent = Agent(model, store, "new")
        agent.interrupt("my first word")
        await agent.run()
        assert model.requests[0].messages[-1]["content"] == "my first word"
        await agent.close()

    wait(scenario())


@pytest.mark.clause("I6")
def test_an_interrupt_whose_message_can_not_be_stored_still_stops_the_turn(
    store: SessionDB, engine: FailingEngine, wait: Wait
) -> None:
    async def scenario() -> None:
        hold = Hold()
        agent = Agent(ScriptedModel([hold]), store, "s")
        turn = asyncio.create_task(agent.run("go"))
        await hold.reached.wait()
        engine.fail_next_write(StoreBusy("the store", 5.0))
        with pytest.raises(StoreBusy):
            agent.interrupt("do Y")
        assert (await turn).interrupted
        await agent.close()

    wait(scenario())


def test_a_message_that_its_owner_changes_later_stays_as_it_was_said(store: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        model = ScriptedModel()
        agent = Agent(model, store, "s")
        message: Message = {"role": "user", "content": [{"type": "text", "text": "one"}]}
        await agent.run(message)
        message["content"][0]["text"] = "two"  # type: ignore[index]
        await agent.run(message)
        assert same_as_stored(agent, store)
        await agent.close()

    wait(scenario())


@pytest.mark.parametrize(
    "wrong",
    [
        {"role": "assistant", "content": "I said"},
        {"role": "tool", "content": "x"},
        {"content": "x"},
        7,
        [],
        {},
    ],
)
def test_what_is_no_persons_message_is_refused_and_nothing_is_stored(
    store: SessionDB,
    wait: Wait,
    wrong: Any,  # noqa: ANN401
) -> None:
    async def scenario() -> None:
        agent = Agent(ScriptedModel(), store, "s")
        with pytest.raises(InvalidInput):
            await agent.run(wrong)
        await agent.run("fine")
        assert len(store.get_messages("s")) == 2
        await agent.close()

    wait(scenario())


def test_one_agent_on_loop_after_loop(store: SessionDB, wait: Wait) -> None:
    model = ScriptedModel([Call("echo"), "one", "two", "three"])
    agent = Agent(model, store, "s", tools=[echo()])
    assert [wait(agent.run(text)).final_response for text in "abc"] == ["one", "two", "three"]
    require_valid(model.requests[-1].messages)
    wait(agent.close())


def test_a_loop_that_closes_in_the_middle_of_a_step_leaves_a_closed_record() -> None:
    engine = HoldingEngine(SqliteEngine(":memory:", clock=SystemClock(), patience=5.0))
    db = SessionDB.on(engine)

    def last_word(_: ModelRequest) -> str:
        engine.hold_next_write()
        return "done"

    agent = Agent(ScriptedModel([last_word, "fine"]), db, "s")
    running: set[Any] = set()

    async def main() -> None:
        running.add(asyncio.create_task(agent.run("go")))
        await until(engine.reached.is_set)
        asyncio.get_running_loop().call_later(0.05, engine.opened.set)

    asyncio.run(main())
    assert db.turns.running("s") is None
    assert db.get_messages("s")[-1]["content"] == "done"
    assert agent.running_turn is None
    assert asyncio.run(agent.run("again")).final_response == "fine"
    asyncio.run(agent.close())
    db.close()


def test_a_reader_that_leaves_while_the_turn_can_not_open_loses_no_exception(engine: FailingEngine) -> None:
    complaints: list[dict[str, Any]] = []
    held = HoldingEngine(engine)

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, said: complaints.append(said))
        agent = Agent(ScriptedModel(), SessionDB.on(held), "s")
        await agent.run("one")
        engine.fail_next_write(StoreBusy("the store", 5.0))
        held.hold_next_write()
        turn = asyncio.create_task(agent.run("two"))
        await until(held.reached.is_set)
        turn.cancel()
        held.opened.set()
        await asyncio.wait([turn])
        assert turn.cancelled()
        await agent.close()

    asyncio.run(main())
    gc.collect()
    assert complaints == []
    engine.close()


def test_a_turn_that_could_not_be_opened_leaves_its_message_waiting(
    store: SessionDB, engine: FailingEngine, wait: Wait
) -> None:
    async def scenario() -> None:
        agent = Agent(ScriptedModel(["fine", "and fine", "still fine"]), store, "s")
        await agent.run("one")
        store.inbox.put("s", {"role": "user", "content": "two"})
        engine.fail_next_write(StoreBusy("the store", 5.0))
        with pytest.raises(StoreBusy):
            await agent.run()
        assert store.turns.running("s") is None
        assert [each.message["content"] for each in store.inbox.waiting("s")] == ["two"]
        assert (await agent.run()).final_response == "and fine"
        assert (await agent.run("three")).final_response == "still fine"
        assert same_as_stored(agent, store)
        await agent.close()

    wait(scenario())


class StuckKeeper:
    """Leases that can't be let go of."""

    def __init__(self, keeper: LeaseKeeper, failure: Exception) -> None:
        self._keeper = keeper
        self._failure = failure

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        return getattr(self._keeper, name)

    def release(self, name: str, holder: str) -> None:
        raise self._failure


@pytest.mark.parametrize(
    "failure", [RuntimeError("a plugin's"), StoreFault("db", "broken"), OSError(5, "I/O")]
)
def test_a_lease_that_can_not_be_let_go_of_does_not_fail_a_turn_that_succeeded(
    tmp_path: Path, wait: Wait, failure: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        with SessionDB(tmp_path / "holdfast.db") as db:
            db.keeper = StuckKeeper(db.keeper, failure)  # type: ignore[assignment]
            agent = Agent(ScriptedModel(["done", "again"]), db, "s")
            assert (await agent.run("one")).final_response == "done"
            await agent.close()

    with caplog.at_level(logging.WARNING):
        wait(scenario())
    assert "agent.lease_not_released" in [record.message for record in caplog.records]


def test_a_lease_that_is_lost_before_the_turn_opens_is_raised(store: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        agent = Agent(ScriptedModel(), store, "s")
        await agent.run("one")
        agent.lease = store.hold_session("s", "me")
        store.let_go_of_session("s", "me")
        with pytest.raises(LeaseLost):
            await anext(agent.stream("two"))
        await agent.close()

    wait(scenario())


@pytest.mark.parametrize("failures", [1, 2, 3])
@pytest.mark.parametrize("failing", range(4))
def test_whichever_writes_fail_the_next_turn_sees_what_is_stored(
    store: SessionDB, engine: FailingEngine, wait: Wait, failing: int, failures: int
) -> None:
    async def scenario() -> None:
        store.create_session("s", source="test")
        model = ScriptedModel([["first ", Call("echo")], "one", "two", "three", "four"])
        agent = Agent(model, store, "s", tools=[echo()], options=AgentOptions(store_seconds=0))
        engine.fail_next_write(*[None] * failing, *[StoreBusy("the store", 5.0)] * failures)
        for text in ("go", "again", "once more", "and again"):
            with suppress(StoreBusy):
                await agent.run(text)
        assert store.turns.running("s") is None
        require_valid(model.requests[-1].messages)
        assert same_as_stored(agent, store)
        record = str(store.get_messages("s"))
        assert "and again" in record
        assert "first " in record
        await agent.close()

    wait(scenario())


def test_words_that_could_not_be_stored_at_the_end_of_a_turn_are_stored_before_the_next(
    store: SessionDB, engine: FailingEngine, wait: Wait
) -> None:
    async def scenario() -> None:
        def full(_: ModelRequest) -> str:
            engine.fail_next_write(*[DiskFull("the store")] * 2)
            return "What I found out"

        agent = Agent(ScriptedModel([full, "fine"]), store, "s", options=AgentOptions(store_seconds=0))
        with pytest.raises(DiskFull):
            await agent.run("find out")
        assert await agent.unfinished() is None
        assert store.get_messages("s")[-1]["content"] == "What I found out", "the answer was whole"
        assert (await agent.run("go on")).final_response == "fine"
        await agent.close()

    wait(scenario())


def test_an_interrupt_while_a_step_waits_for_the_store_keeps_what_the_model_said(
    store: SessionDB, engine: FailingEngine, wait: Wait
) -> None:
    async def scenario() -> None:
        def busy(_: ModelRequest) -> list[Any]:
            engine.fail_next_write(*[StoreBusy("the store", 5.0)] * 5)
            return ["I look first. ", Call("echo")]

        def stop_the_wait(event: Event) -> None:
            if isinstance(event, Notice):
                engine.fail_next_write()
                agent.interrupt()

        agent = Agent(ScriptedModel([busy]), store, "s", tools=[echo()])
        await agent.run_turn(stop_the_wait, "go")
        assert "I look first." in str(store.get_messages("s")[-1]["content"])
        assert same_as_stored(agent, store)
        await agent.close()

    wait(scenario())


def test_a_second_interrupt_stops_a_model_that_swallowed_the_first(store: SessionDB, wait: Wait) -> None:
    class Deaf(ScriptedModel):
        """Swallows one cancellation."""

        async def stream(self, request: ModelRequest) -> Any:  # noqa: ANN401
            hold, again = Hold(), Hold()
            self.holds = hold, again
            yield TextPiece("still ")
            with suppress(asyncio.CancelledError):
                await hold()
            await again()

    async def scenario() -> None:
        model = Deaf()
        agent = Agent(model, store, "s")
        turn = asyncio.create_task(agent.run("go"))
        await until(lambda: hasattr(model, "holds"))
        hold, again = model.holds
        await hold.reached.wait()
        agent.interrupt(reason="the first")
        await again.reached.wait()
        agent.interrupt(reason="the second")
        assert (await turn).interrupted
        assert "still" in str(store.get_messages("s")[-1]["content"])
        assert "the first" in str(store.get_messages("s")[-1]["content"])
        await agent.close()

    wait(scenario())


@pytest.mark.clause("C5")
def test_a_turn_goes_on_when_another_agent_compacts_under_it(store: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        for place in range(6):
            await Agent(ScriptedModel(["answer " * 40]), store, "s").run(f"question {place} " * 30)
        hold = Hold()
        one = Agent(ScriptedModel([hold, "fine"]), store, "s")
        turn = asyncio.create_task(one.run("go"))
        await hold.reached.wait()
        two = Agent(ScriptedModel(["the sum"]), store, "s")
        await two.compress_context(store.get_messages("s"), "")
        assert two.session_id != "s"
        hold.opened.set()
        assert (await turn).final_response == "held"
        assert one.session_id == two.session_id
        assert (await one.run("again")).final_response == "fine"
        assert same_as_stored(one, store)
        for agent in (one, two):
            await agent.close()

    wait(scenario())


def test_closing_twice_and_before_anything_began_does_no_harm(wait: Wait) -> None:
    async def scenario() -> None:
        agent = Agent(ScriptedModel(), options=AgentOptions(pools=Pools()))
        await agent.close()
        await agent.close()

    wait(scenario())
