"""The assistant of the settings for several people: their tools, their folders, and what they can't reach."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest

from holdfast import Host
from holdfast.agent.scope_policy import EVERYTHING, GUEST, ScopePolicy
from holdfast.core.ids import new_id
from holdfast.core.settings import Settings
from holdfast.gateway.contract import Incoming, Place, Sender
from holdfast.gateway.event_codec import to_received
from holdfast.host.turn_handle import AskOptions
from holdfast.models.contract import ModelRequest
from holdfast.sessions.chat_people import Role
from holdfast.sessions.contract import scope_folder
from holdfast.testing import Call, ScriptedModel

T = TypeVar("T")
ANN, ROOM = "telegram-main/person-123", "matrix-home/room-abc"
FORBIDDEN = {
    *("run_command", "start_process", "list_processes", "read_process", "stop_process"),
    *("read_file", "write_file", "edit_file", "list_folder", "find_files", "search_files"),
    *("fetch_page", "memory_save", "memory_correct", "memory_forget", "save_skill", "read_skill", "delegate"),
}
HARMLESS = {"ask_user", "todo", "search_sessions", "read_session", "read_output", "memory_search"}
SKILL = "---\nname: secret-skill\ndescription: the owner's own way\n---\n\nsay nothing\n"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installation of its own: settings, data and the owner's workspace, which has a skill and a file."""
    for name in ("CONFIG", "DATA", "STATE", "CACHE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))
    skill = tmp_path / "data" / "holdfast" / "skills" / "secret-skill"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text(SKILL)
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace" / "owners.txt").write_text("the owner's words")
    return tmp_path


def finish(work: Coroutine[Any, Any, T]) -> T:
    async def main() -> T:
        async with asyncio.timeout(60):
            return await work

    return asyncio.run(main())


def assistant(home: Path, script: Any, policies: dict[str, ScopePolicy]) -> Host:  # noqa: ANN401 - a script
    named = {"workspace": str(home / "workspace"), "sandbox": "off", "approval": "never-ask"}
    settings = Settings.model_validate({"tools": named})
    return Host(settings, model=ScriptedModel(script), scope_policy=lambda scope: policies.get(scope, GUEST))


def answers(home: Path, scope: str, policies: dict[str, ScopePolicy], *calls: Call) -> str:
    """What the tools answer to these calls, one after the other, in a conversation of the scope."""
    seen: list[str] = []

    def last(request: ModelRequest) -> str:
        seen.extend(str(each["content"]) for each in request.messages if each["role"] == "tool")
        return "done"

    async def scenario() -> None:
        async with assistant(home, [*([each] for each in calls), last], policies) as host:
            await host.ask(new_id(), "go", AskOptions(scope=scope))

    finish(scenario())
    assert len(seen) == len(calls)
    return "\n".join(seen)


def look(seen: dict[str, ModelRequest], name: str) -> Callable[[ModelRequest], str]:
    def answer(request: ModelRequest) -> str:
        seen[name] = request
        return "done"

    return answer


def test_a_guest_has_no_tool_that_reaches_anything(home: Path) -> None:
    seen: dict[str, ModelRequest] = {}
    script = [look(seen, "guest"), look(seen, "owner"), look(seen, "user")]
    policies = {"": EVERYTHING, ANN: EVERYTHING}

    async def scenario() -> None:
        async with assistant(home, script, policies) as host:
            await host.ask("guest", "hi", AskOptions(scope=ROOM))
            await host.ask("owner", "hi")
            await host.ask("user", "hi", AskOptions(scope=ANN))

    finish(scenario())
    tools = {name: {schema.name for schema in request.tools} for name, request in seen.items()}
    assert tools["guest"] == HARMLESS
    assert tools["owner"] >= FORBIDDEN | HARMLESS
    assert tools["owner"] - tools["user"] == {"read_skill", "save_skill"}
    assert [name for name, request in seen.items() if "secret-skill" in str(request)] == ["owner"]


def test_files_are_sent_to_chats_only_from_conversations_that_live_in_one(home: Path) -> None:
    seen: dict[str, ModelRequest] = {}
    named = {"workspace": str(home / "workspace"), "sandbox": "off"}
    settings = Settings.model_validate({"tools": named, "gateway": {"accounts": ["telegram"]}})
    script = [look(seen, "elsewhere"), look(seen, "chat"), look(seen, "guest")]

    async def scenario() -> None:
        async with Host(settings, model=ScriptedModel(script)) as host:
            ledger = await host.chats.claim("telegram")
            assert ledger is not None
            roles: dict[str, Role] = {"1": "user", "2": "guest"}
            for person, role in roles.items():
                event = Incoming(person, Place(person), Sender(person, "Ann"), 1, text="hi")
                await ledger.under_lease(ledger.events.receive, "telegram", [to_received(event)], {})
                await ledger(ledger.people.put, "telegram", person, role)
            for room in await ledger.of_account(ledger.events.rooms):
                await ledger.under_lease(ledger.events.assign, room.id, f"session-{room.chat}")
            await host.ask("elsewhere", "hi", AskOptions(scope="telegram/1"))
            await host.ask("session-1", "hi", AskOptions(scope="telegram/1"))
            await host.ask("session-2", "hi", AskOptions(scope="telegram/2"))

    finish(scenario())
    tools = {name: {schema.name for schema in request.tools} for name, request in seen.items()}
    assert tools["chat"] - tools["elsewhere"] == {"send_file"}
    assert tools["guest"] == HARMLESS


def test_a_person_works_in_a_folder_of_their_own_and_gets_out_of_it_by_no_approval(home: Path) -> None:
    policies = {
        "": EVERYTHING,
        ANN: ScopePolicy(approval="never-ask"),
        ROOM: ScopePolicy(approval="never-ask"),
    }
    write = Call("write_file", {"path": "mine.txt", "text": "Ann's words"})
    assert "mine.txt" in answers(home, ANN, policies, write)
    [anns] = (home / "data" / "holdfast-scopes").rglob("mine.txt")
    assert scope_folder(ANN) in anns.parts
    for path in (str(anns), str(home / "workspace" / "owners.txt"), "../../owners.txt", "mine.txt"):
        said = answers(home, ROOM, policies, Call("read_file", {"path": path}))
        assert "words" not in said, path
    assert "Ann's words" in answers(home, ANN, policies, Call("read_file", {"path": "mine.txt"}))
    assert "owner's words" in answers(home, "", policies, Call("read_file", {"path": "owners.txt"}))


def test_commands_of_a_person_run_in_a_sandbox_or_not_at_all(home: Path) -> None:
    policies = {"": EVERYTHING, ANN: ScopePolicy(approval="never-ask")}
    command = Call("run_command", {"command": "echo $((20 + 3))"})
    assert "only in a sandbox, and there is none" in answers(home, ANN, policies, command)
    assert "23" in answers(home, "", policies, command)


def test_a_private_address_is_fetched_for_no_person(home: Path) -> None:
    policies = {ANN: ScopePolicy(approval="never-ask")}
    said = answers(home, ANN, policies, Call("fetch_page", {"url": "http://127.0.0.1:9/"}))
    assert "Nothing was fetched" in said


def test_a_tool_that_reaches_the_owners_things_must_be_named(home: Path) -> None:
    named = {ANN: ScopePolicy(tools=frozenset({"read_skill"}))}
    said = answers(home, ANN, named, Call("read_skill", {"name": "secret-skill"}))
    assert "say nothing" in said
