"""A `Host` of a program's own parts."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from holdfast import AgentOptions, Host, SessionDB, Settings, errors, events, tool
from holdfast.agent import Pools
from holdfast.core.settings import MemorySettings
from holdfast.testing import Call, ScriptedModel
from holdfast.testing.providers import RecordingProvider
from tests.agent.agent_fixtures import until

Wait = Callable[[Awaitable[Any]], Any]


@tool(needs_approval=True)
def refund(order: int) -> str:
    """Pay an order back."""
    return f"order {order} is paid back"


def test_a_host_of_parts_answers_remembers_and_leaves_what_it_was_given_open(wait: Wait) -> None:
    remembered = RecordingProvider("mine")

    async def scenario() -> None:
        model = ScriptedModel(["hello", "again"])
        with SessionDB("chats.db") as db:
            async with Host(model=model, memory=["local", remembered], store=db) as host:
                first = await host.ask("monday", "one")
                assert (first.final_response, first.session_id) == ("hello", "monday")
                assert (await host.ask("monday", "two")).final_response == "again"
                assert len(model.requests[1].messages) == 3
            assert len(db.get_messages("monday")) == 4, "the store was given, so it stays open"
        assert not model.closed
        offered = [each.name for each in model.requests[0].tools]
        assert offered, "local memory offers tools"
        assert all(name.startswith("memory_") for name in offered), "and there are no others"

    wait(scenario())
    assert [turn.user_content for turn in remembered.turns] == ["one", "two"]


def test_parts_take_the_place_of_those_of_the_settings(wait: Wait) -> None:
    async def scenario() -> None:
        settings = Settings(memory=MemorySettings(providers=()))
        model = ScriptedModel(["hello"])
        async with Host(settings, model=model, tools=[refund], store="sqlite:///chats.db") as host:
            assert (await host.ask("s", "hi")).final_response == "hello"
        offered = {each.name for each in model.requests[0].tools}
        assert {"refund", "read_file"} <= offered

    wait(scenario())


def test_a_reader_may_come_before_the_first_message(wait: Wait) -> None:
    async def scenario() -> None:
        async with Host(model=ScriptedModel(["two words"]), store="sqlite:///chats.db") as host:
            following = asyncio.Event()

            async def read() -> list[events.Event]:
                seen: list[events.Event] = []
                async with aclosing(host.follow("monday")) as happening:
                    following.set()
                    async for event in happening:
                        seen.append(event)
                        if isinstance(event, events.TurnCompleted):
                            break
                return seen

            reading = asyncio.create_task(read())
            await following.wait()
            await until(lambda: bool(host._conversations._awaited))  # noqa: SLF001
            await host.send("monday", "hi")
            seen = await reading
        assert isinstance(seen[0], events.MessageAccepted)
        assert "".join(each.text for each in seen if isinstance(each, events.TextDelta)) == "two words"

    wait(scenario())


def test_a_reader_that_waits_in_vain_ends_with_the_host(wait: Wait) -> None:
    async def scenario() -> None:
        async with Host(model=ScriptedModel()) as host:

            async def read() -> list[events.Event]:
                return [event async for event in host.follow("never")]

            reading = asyncio.create_task(read())
            await until(lambda: bool(host._conversations._awaited))  # noqa: SLF001
        assert await reading == []

    wait(scenario())


def test_an_approval_is_asked_for_and_given(wait: Wait) -> None:
    async def scenario() -> None:
        model = ScriptedModel([Call("refund", {"order": 7}), "done"])
        async with Host(model=model, tools=[refund]) as host:
            await host.send("s", "pay it back")
            async for event in host.follow("s", after=0):
                if isinstance(event, events.ApprovalAsked):
                    assert (event.subject_kind, event.subject) == ("refund", 'refund {"order":7}')
                    assert await host.approve("s", event.ask_id, "yes")
                if isinstance(event, events.TurnCompleted):
                    break
        assert model.requests[1].messages[-1]["content"] == "order 7 is paid back"

    wait(scenario())


def test_the_policy_of_the_options_decides_in_a_host_too(wait: Wait) -> None:
    async def yes(request: Any) -> bool | None:  # noqa: ANN401
        return True

    async def scenario() -> None:
        model = ScriptedModel([Call("refund", {"order": 7}), "done"])
        async with Host(model=model, tools=[refund], options=AgentOptions(approve=yes)) as host:
            await host.ask("s", "pay it back")
        assert model.requests[1].messages[-1]["content"] == "order 7 is paid back"

    wait(scenario())


def test_the_same_key_asks_once_and_answers_twice(wait: Wait) -> None:
    async def scenario() -> None:
        asked_again = ScriptedModel(["another answer"])
        for model in (ScriptedModel(["the only answer"]), asked_again):
            async with Host(model=model, store="sqlite:///chats.db", after_crash="resume") as host:
                assert (await host.ask("s", "once", key="k")).final_response == "the only answer"
        assert asked_again.played == 0

    wait(scenario())


def test_the_host_has_as_many_agents_and_threads_as_it_is_given(wait: Wait) -> None:
    async def scenario() -> None:
        options = AgentOptions(pools=Pools(store_threads=2, tool_threads=3))
        async with Host(model=ScriptedModel(), options=options, agents=5) as host:
            assert host._parts.options.agents == 5  # noqa: SLF001
            assert host._parts.pools is options.pools  # noqa: SLF001
            await asyncio.gather(*(host.ask(f"s{number}", "hi") for number in range(20)))

    wait(scenario())


def test_a_model_that_can_not_be_opened_leaves_nothing_open(wait: Wait) -> None:
    async def scenario() -> None:
        with pytest.raises(errors.ModelMissing):
            async with Host(model="openai:gpt-5-mini", store="sqlite:///chats.db"):
                pass

    wait(scenario())


def test_a_reader_in_one_process_sees_a_session_that_begins_in_another(wait: Wait) -> None:
    async def scenario() -> None:
        reader = Host(model=ScriptedModel(), store="sqlite:///chats.db")
        writer = Host(model=ScriptedModel(["hello", "hello again"]), store="sqlite:///chats.db")
        async with reader, writer:

            async def read() -> list[events.Event]:
                seen: list[events.Event] = []
                async with aclosing(reader.follow("monday")) as happening:
                    async for event in happening:
                        seen.append(event)
                        if isinstance(event, events.SessionSnapshot):
                            await writer.send("monday", "and again")
                        if isinstance(event, events.TurnCompleted):
                            break
                return seen

            reading = asyncio.create_task(read())
            await until(lambda: bool(reader._conversations._awaited))  # noqa: SLF001
            await writer.ask("monday", "hi")
            seen = await reading
        assert isinstance(seen[0], events.SessionSnapshot)
        assert isinstance(seen[-1], events.TurnCompleted)

    wait(scenario())


def test_the_memory_of_a_program_is_not_that_of_the_persons_assistant(wait: Wait, tmp_path: Path) -> None:
    plugins = tmp_path / "data" / "holdfast" / "memory_providers"
    plugins.mkdir(parents=True)
    (plugins / "spy.py").write_text("raise SystemExit('a plugin of the person ran')")

    async def scenario() -> None:
        for store in ("sqlite:///chats.db", None):
            async with Host(model=ScriptedModel(), memory=["local"], store=store) as host:
                await host.ask("s", "The key is under the mat")

    wait(scenario())
    assert list((tmp_path / "chats.db-memory").iterdir())
    kept = [each.name for each in (tmp_path / "data" / "holdfast").iterdir()]
    assert sorted(kept) == ["library", "memory_providers"]
