"""Scopes on a host: whose conversation it is, and what the agent may do for them."""

from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import pytest

from holdfast.agent import AgentOptions, SessionAgent
from holdfast.agent.scope_policy import EVERYTHING, GUEST, AgentScope, ScopePolicy
from holdfast.core.errors import InvalidInput, SessionNotFound, WrongScope
from holdfast.core.events import SessionTrouble
from holdfast.host import Beginning, HostParts, SessionHost
from holdfast.host.turn_handle import AskOptions
from holdfast.memory import MemoryManager
from holdfast.models.contract import ModelRequest
from holdfast.sessions import SessionDB
from holdfast.testing import Call, RecordingProvider, ScriptedModel, Tokens
from holdfast.tools.decorator import tool
from tests.agent.agent_fixtures import until
from tests.host.host_fixtures import host_parts

Wait = Callable[[Awaitable[Any]], Any]
ANN, ROOM = "telegram-main/person-123", "matrix-home/room-abc"


@tool
def run_command(command: str) -> str:
    """Run a command."""
    return f"ran {command}"


@tool
def todo(text: str) -> str:
    """Note something to do."""
    return f"noted {text}"


TOOLS = (run_command, todo)


def scope_of(db: SessionDB, session_id: str) -> str:
    found = db.get_session(session_id)
    assert found is not None
    return found.scope


def parts(db: SessionDB, script: Any = (), **policies: ScopePolicy) -> HostParts:  # noqa: ANN401 - a script
    """A host's parts with the policies of these scopes; everybody else is a guest."""
    made = host_parts(db, script, tools=TOOLS)
    return replace(made, scope_policy=lambda scope: policies.get(scope, GUEST if scope else EVERYTHING))


def test_every_way_to_begin_takes_a_scope_and_keeps_it(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        async with SessionHost(parts(db)) as host:
            await host.begin("begun", "hi", Beginning(scope=ANN))
            await host.send("sent", "hi", scope=ANN)
            await host.ask("asked", "hi", AskOptions(scope=ANN))
            made = await host.new_session(session_id="made", scope=ANN)
            cleared = await host.commands.clear(made)
            await until(lambda: not db.inbox.sessions())
            branch = await host.records.branch("asked")
            ids = ("begun", "sent", "asked", "made", cleared, branch)
            assert {scope_of(db, each) for each in ids} == {ANN}
            assert [each.session.id for each in await host.records.sessions(scope=ROOM)] == []
            assert {each.session.scope for each in await host.records.sessions()} == {ANN}

    wait(scenario())


def test_who_asks_for_one_scope_gets_no_session_of_another(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        async with SessionHost(parts(db)) as host:
            await host.ask("s", "mine", AskOptions(scope=ANN))
            for wrong in (ROOM, ""):
                with pytest.raises(WrongScope):
                    await host.send("s", "let me in", scope=wrong)
                with pytest.raises(WrongScope):
                    await host.ask("s", "let me in", AskOptions(scope=wrong))
            with pytest.raises(SessionNotFound):
                await host.send("none", "hi", scope=ANN, create=False)
            # The owner's own surfaces name no scope and go on with any conversation.
            await host.ask("s", "the owner was here")
            assert scope_of(db, "s") == ANN

    wait(scenario())


def test_a_key_that_was_used_in_another_scope_shows_nothing_of_it(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        async with SessionHost(parts(db, ["for Ann alone"])) as host:
            await host.ask("anns", "mine", AskOptions(scope=ANN, key="event"))
            made = await host.new_session(key="new", scope=ANN)
            for wrong in (ROOM, ""):
                with pytest.raises(InvalidInput, match="key"):
                    await host.send(f"other {wrong}", "theirs", key="event", scope=wrong)
                with pytest.raises(WrongScope):
                    await host.begin(f"begun {wrong}", "theirs", Beginning(key="event", scope=wrong))
                with pytest.raises(WrongScope):
                    await host.new_session(key="new", scope=wrong)
            assert await host.new_session(key="new", scope=ANN) == made

    wait(scenario())


def test_an_agent_of_one_scope_runs_no_session_of_another(db: SessionDB, wait: Wait) -> None:
    db.create_session("s", source="chat", scope=ANN)
    for name in ("", ROOM):
        agent = SessionAgent(ScriptedModel(["no"]), db, "s", options=AgentOptions(scope=AgentScope(name)))
        with pytest.raises(WrongScope):
            wait(agent.run("hello"))
    assert db.get_messages("s") == []


def test_a_host_whose_agents_ignore_the_scope_answers_nobody_else(db: SessionDB, wait: Wait) -> None:
    """The store says whose conversation it is; what builds agents can't get it wrong unnoticed."""
    good = parts(db, ["an answer with the owner's tools"])
    bad = replace(good, make_agent=lambda session, asks, _: good.make_agent(session, asks, AgentScope()))

    async def scenario() -> str:
        async with SessionHost(bad) as host:
            await host.send("s", "hello", scope=ANN)
            async with aclosing(host.follow("s", after=0)) as events:
                async for event in events:
                    if isinstance(event, SessionTrouble):
                        assert not any(each["role"] == "assistant" for each in db.get_messages("s"))
                        return event.error
        raise AssertionError("the stream ended first")

    assert "belongs to somebody else" in wait(scenario())


def test_tools_that_a_guest_may_not_use_are_not_in_the_models_request(db: SessionDB, wait: Wait) -> None:
    seen: dict[str, set[str]] = {}

    def looks(name: str) -> Callable[[ModelRequest], str]:
        def answer(request: ModelRequest) -> str:
            seen[name] = {schema.name for schema in request.tools}
            return "done"

        return answer

    async def scenario() -> None:
        made = parts(db, lambda session_id: ScriptedModel([looks(session_id)]))
        async with SessionHost(made) as host:
            await host.ask("guest", "what can you do?", AskOptions(scope=ANN))
            await host.ask("owner", "what can you do?")

    wait(scenario())
    assert seen == {"guest": {"todo"}, "owner": {"run_command", "todo"}}


def test_a_call_of_a_tool_that_is_not_offered_runs_nothing(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        made = parts(db, [[Call("run_command", {"command": "id"})], "I could not."])
        async with SessionHost(made) as host:
            await host.ask("s", "run id", AskOptions(scope=ANN))
            [result] = [message for message in db.get_messages("s") if message["role"] == "tool"]
            assert "ran id" not in str(result["content"])

    wait(scenario())


def test_a_policy_that_changes_counts_from_the_next_turn_on(db: SessionDB, wait: Wait) -> None:
    seen: list[set[str]] = []

    def look(request: ModelRequest) -> str:
        seen.append({schema.name for schema in request.tools})
        return "done"

    policies = {ANN: EVERYTHING}

    async def scenario() -> None:
        made = replace(parts(db, [look, look, look]), scope_policy=lambda scope: policies.get(scope, GUEST))
        async with SessionHost(made) as host:
            for policy in (EVERYTHING, GUEST, EVERYTHING):
                policies[ANN] = policy
                await host.ask("s", "go", AskOptions(scope=ANN))

    wait(scenario())
    assert seen == [{"run_command", "todo"}, {"todo"}, {"run_command", "todo"}]


def test_a_scope_that_has_used_its_tokens_is_told_so_and_no_model_is_asked(db: SessionDB, wait: Wait) -> None:
    model = ScriptedModel([["one", Tokens(90, 20)], ["for the room", Tokens(5, 5)], "never"])

    async def scenario() -> list[str]:
        made = parts(db, lambda _: model, **{ANN: ScopePolicy(daily_tokens=100)})
        async with SessionHost(made) as host:
            said = []
            for session_id, scope in (("s", ANN), ("room", ROOM), ("s", ANN), ("another", ANN)):
                said.append((await host.ask(session_id, "go", AskOptions(scope=scope))).final_response)
            return said

    first, room, refused, elsewhere = wait(scenario())
    assert (first, room) == ("one", "for the room")
    assert "the tokens for one day are used up" in refused
    assert refused == elsewhere
    assert len(model.requests) == 2


@pytest.mark.parametrize("is_alone", [True, False])
def test_turns_that_run_at_once_share_the_tokens_that_are_left(
    db: SessionDB, wait: Wait, is_alone: bool
) -> None:
    model = ScriptedModel([[Call("todo", {}), Tokens(40, 20)], "done"])

    async def scenario() -> str:
        made = parts(db, lambda _: model, **{ANN: ScopePolicy(daily_tokens=100)})
        db.create_session("beside", source="web", scope=ANN)
        beside = db.turns.open("beside", {"role": "user", "content": "go"})
        if is_alone:
            db.turns.interrupt(beside.id, "enough")
        async with SessionHost(made) as host:
            return (await host.ask("s", "go", AskOptions(scope=ANN))).final_response

    said = wait(scenario())
    assert (said == "done") is is_alone
    assert ("the tokens for one day are used up" in said) is not is_alone


def test_what_a_guest_says_is_given_to_no_provider(db: SessionDB, wait: Wait) -> None:
    class Apart(RecordingProvider):
        """Keeps scopes apart, for a test that looks at who is told what."""

        def for_scope(self, scope: str) -> RecordingProvider:
            return scoped.setdefault(scope, RecordingProvider(self.name))

    scoped: dict[str, RecordingProvider] = {}
    policies = {"": EVERYTHING, ANN: EVERYTHING, ROOM: GUEST}
    provider, memory = Apart(), MemoryManager(db, drain_seconds=5)
    memory.add_provider(provider)

    async def scenario() -> None:
        made = replace(
            host_parts(db, memory=memory),
            scope_policy=policies.__getitem__,
        )
        async with SessionHost(made) as host:
            for session_id, scope in (("mine", ""), ("anns", ANN), ("guests", ROOM)):
                await host.ask(session_id, f"said in {session_id}", AskOptions(scope=scope))
            assert memory.flush_pending(10)

    wait(scenario())
    assert [each.user_content for each in provider.turns] == ["said in mine"]
    assert [each.user_content for each in scoped[ANN].turns] == ["said in anns"]
    assert scoped[ROOM].turns == []
    assert {name for name, _ in scoped[ROOM].calls} <= {"prefetch", "queue_prefetch"}
