"""Every wrong use says what is right."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from holdfast import Agent, AgentOptions, Host, Pools, SessionDB, errors, open_model
from holdfast.testing import Call, ScriptedModel

Wait = Callable[[Awaitable[Any]], Any]


@pytest.mark.parametrize(
    ("name", "right"),
    [
        ("gpt-5-mini", "write openai:gpt-5-mini"),
        ("claude-sonnet-5", "write anthropic:claude-sonnet-5"),
        ("openai", "write openai:NAME"),
        ("openai:", "write openai:NAME"),
        ("mistral:large", "'mistral' in 'mistral:large' is no provider of models: write openai:NAME"),
        ("", "openai:NAME"),
        (7, "7 is no model: it has no traits"),
        (None, "None is no model"),
        (ScriptedModel, "pass an object of it"),
    ],
)
def test_what_is_no_model_is_refused_at_once(name: Any, right: str) -> None:  # noqa: ANN401
    with pytest.raises(errors.ModelNameInvalid, match=right):
        Agent(name)
    if name is not None:
        with pytest.raises(errors.ModelNameInvalid, match=right):
            Host(model=name)


@pytest.mark.parametrize(
    ("name", "variable"),
    [("openai:gpt-5-mini", "OPENAI_API_KEY"), ("anthropic:claude-x", "ANTHROPIC_API_KEY")],
)
def test_a_missing_key_is_named(name: str, variable: str, wait: Wait) -> None:
    async def scenario() -> None:
        with pytest.raises(errors.ModelMissing, match=f"set {variable}.*api_key"):
            async with Agent(name):
                pass
        with pytest.raises(errors.ModelMissing, match=variable):
            await open_model(name)

    wait(scenario())


def untyped(currency):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """The price."""


def silent(currency: str) -> float:
    return 1.0


@pytest.mark.parametrize(
    ("given", "right"),
    [
        ([untyped], "has no type: write currency: str"),
        ([silent], "no docstring"),
        ([7], "it is no function"),
        (silent, "tools is a list"),
        ("rate", "tools is a list"),
    ],
)
def test_what_is_no_tool_is_refused_with_what_it_lacks(given: Any, right: str) -> None:  # noqa: ANN401
    with pytest.raises(errors.InvalidInput, match=right):
        Agent(ScriptedModel(), tools=given)
    with pytest.raises(errors.InvalidInput, match=right):
        Host(model=ScriptedModel(), tools=given)


def test_a_keyword_that_a_call_does_not_take_is_refused_with_the_one_that_was_meant(wait: Wait) -> None:
    make: Any = Agent  # a type checker would say it first
    with pytest.raises(TypeError, match="Agent takes no argument 'tols'; did you mean 'tools'"):
        make(ScriptedModel(), tols=[])
    with pytest.raises(
        TypeError, match="Agent takes no argument 'x'; it takes model, store, session, memory"
    ):
        make(ScriptedModel(), x=1)
    make = Host
    with pytest.raises(TypeError, match="Host takes no argument 'after_crsh'; did you mean 'after_crash'"):
        make(model=ScriptedModel(), after_crsh="resume")
    named: Any = open_model
    with pytest.raises(TypeError, match="open_model takes no argument 'base_ulr'; did you mean 'base_url'"):
        wait(named("openai:gpt-5-mini", base_ulr="http://127.0.0.1:1/v1"))


@pytest.mark.parametrize(
    ("store", "right"),
    [
        ("chats.db", "not 'chats.db': write sqlite:///chats.db"),
        ("/srv/chats.db", "not '/srv/chats.db': write sqlite:////srv/chats.db"),
        ("sqlite://chats.db", "not 'sqlite://': write sqlite:///chats.db"),
        ("mysql://me:secret@here/chats", "not 'mysql://'$"),
    ],
)
def test_what_is_no_address_of_a_store_is_refused_with_the_one_that_was_meant(store: str, right: str) -> None:
    with pytest.raises(errors.InvalidInput, match=right):
        SessionDB.open(store)


@pytest.mark.parametrize("name", ["", "  ", 7])
def test_a_session_without_a_name_is_refused(name: Any) -> None:  # noqa: ANN401
    with pytest.raises(errors.InvalidInput, match='such as session="monday"'):
        Agent(ScriptedModel(), session=name)


def test_a_call_before_async_with_says_so(wait: Wait) -> None:
    async def scenario() -> None:
        agent = Agent("openai:gpt-5-mini")
        for call in (agent.run("hi"), anext(agent.stream("hi")), agent.unfinished()):
            with pytest.raises(errors.AgentNotStarted, match="async with Agent"):
                await call
        with pytest.raises(errors.AgentNotStarted):
            _ = agent.session_id
        host = Host(model=ScriptedModel())
        with pytest.raises(errors.HostNotStarted, match="async with host"):
            await host.ask("s", "hi")

    wait(scenario())


def test_a_closed_agent_says_so_and_is_not_opened_again(wait: Wait) -> None:
    async def scenario() -> None:
        agent = Agent(ScriptedModel(), store="sqlite:///chats.db")
        async with agent:
            with pytest.raises(errors.InvalidInput, match="started already"):
                await agent.__aenter__()
        for call in (agent.run("hi"), agent.__aenter__()):
            with pytest.raises(errors.AgentClosed, match="Make a new Agent"):
                await call
        await agent.close()

    wait(scenario())


def test_an_agent_on_a_second_loop_says_so() -> None:
    agent = Agent(ScriptedModel(), store="sqlite:///chats.db")

    async def start() -> None:
        await agent.__aenter__()

    async def use() -> None:
        with pytest.raises(errors.OtherLoop, match="another event loop"):
            await agent.run("hi")

    with asyncio.Runner() as first:
        first.run(start())
        asyncio.run(use())
        with pytest.raises(errors.InvalidInput, match=r"write `await agent\.run"):
            agent.run_sync("hi")
        first.run(agent.close())


def test_run_sync_where_the_agent_runs_is_refused_and_does_not_hang() -> None:
    said: list[str] = []

    async def impatient() -> str:
        """Ask the agent itself."""
        try:
            agent.run_sync("and you?")
        except errors.InvalidInput as problem:
            said.append(str(problem))
        return "done"

    with Agent(ScriptedModel([Call("impatient"), "fine"]), tools=[impatient]) as agent:
        assert agent.run_sync("go").final_response == "fine"
    assert "write `await agent.run" in said[0]


class NoMemory:
    name = "none"


@pytest.mark.parametrize(
    ("given", "right"),
    [
        ([NoMemory()], "'none' can't be used: it lacks"),
        ([NoMemory], "it is a class; pass an object"),
        ("local", 'memory=\\["local", …\\]'),
        (NoMemory(), "memory is a list"),
    ],
)
def test_what_is_no_memory_is_refused(given: Any, right: str) -> None:  # noqa: ANN401
    with pytest.raises(errors.InvalidInput, match=right):
        Agent(ScriptedModel(), memory=given)
    with pytest.raises(errors.InvalidInput, match=right):
        Host(model=ScriptedModel(), memory=given)


def test_a_memory_that_does_not_exist_keeps_the_agent_from_starting(wait: Wait) -> None:
    async def scenario() -> None:
        for user in (Agent(ScriptedModel(), memory=["locl"]), Host(model=ScriptedModel(), memory=["locl"])):
            with pytest.raises(errors.ProviderInvalid, match="locl"):
                await user.__aenter__()

    wait(scenario())


@pytest.mark.parametrize(
    "given", [str, "Invoice", {"type": "array"}, {}, 7, {"type": "object", "required": 1}]
)
def test_a_result_type_of_a_wrong_kind_is_refused_before_anything_is_stored(given: Any, wait: Wait) -> None:  # noqa: ANN401
    async def scenario() -> None:
        with SessionDB(":memory:") as db:
            async with Agent(ScriptedModel(), db, "s") as agent:
                with pytest.raises(errors.ResultTypeInvalid, match="result_type is"):
                    await agent.run("go", result_type=given)
            assert db.get_session("s") is None

    wait(scenario())


def plain(*_: object) -> None:
    pass


@pytest.mark.parametrize("name", ["approve", "before_tool", "after_tool"])
def test_a_policy_or_hook_that_is_not_async_is_refused(name: str) -> None:
    with pytest.raises(errors.InvalidInput, match="async"):
        AgentOptions(**{name: plain})  # type: ignore[arg-type]


def test_a_size_below_one_is_refused() -> None:
    with pytest.raises(errors.InvalidInput, match="connections is a number from 1 on"):
        SessionDB.open("sqlite:///chats.db", connections=0)
    with pytest.raises(errors.InvalidInput, match="tool_threads"):
        Pools(tool_threads=0)
    with pytest.raises(errors.InvalidInput, match="agents is a number"):
        Host(model=ScriptedModel(), agents=0)


def test_a_path_is_no_address_of_a_store_and_a_host_of_parts_needs_a_model(wait: Wait) -> None:
    async def scenario() -> None:
        with pytest.raises(errors.InvalidInput, match="sqlite:///PATH"):
            async with Agent(ScriptedModel(), store="chats.db"):
                pass
        with pytest.raises(errors.InvalidInput, match="a host needs a model"):
            async with Host(store="sqlite:///chats.db"):
                pass

    wait(scenario())


def test_a_host_on_a_second_loop_says_so() -> None:
    host = Host(model=ScriptedModel(["hi"]))

    async def use() -> None:
        with pytest.raises(errors.OtherLoop, match="this host was started on another event loop"):
            await host.send("s", "hi")
        with pytest.raises(errors.OtherLoop):
            await host.ask("s", "hi")

    with asyncio.Runner() as first:
        first.run(host.__aenter__())
        asyncio.run(use())
        first.run(host.close())
