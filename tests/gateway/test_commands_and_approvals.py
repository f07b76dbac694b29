"""Commands, approvals and questions in a chat: by buttons and by words, also across a restart."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from holdfast.core.events import ApprovalAsked
from holdfast.core.settings import GatewaySettings
from holdfast.host import SessionHost
from holdfast.models.contract import Model
from holdfast.process import run
from holdfast.sessions import SessionDB
from holdfast.testing import Call, ScriptedModel
from holdfast.testing.chat_platform import SeenMessage
from holdfast.testing.memory_platform import MemoryPlatform
from holdfast.tools.ask_user import ask_user
from holdfast.tools.contract import ApprovalRequest, Tool, ToolContext, ToolResult
from holdfast.wiring.chat_policies import ChatPolicies
from tests.agent.agent_fixtures import a_tool
from tests.gateway.gateway_fixtures import (
    ACCOUNT,
    OPTIONS,
    SECONDS,
    a_gateway,
    let_in,
    traits,
    until_status,
)
from tests.host.host_fixtures import host_parts


def dangerous(ran: list[str]) -> Tool:
    async def work(context: ToolContext, _: dict[str, Any]) -> ToolResult:
        approval = await context.person.approve(
            ApprovalRequest(kind="command", subject="rm -rf build", reason="it deletes files")
        )
        if not approval:
            return ToolResult("refused")
        ran.append("rm")
        return ToolResult("done")

    return a_tool("dangerous", work)


def asking(_: str) -> Model:
    return ScriptedModel([Call("dangerous"), "All done.", "More."])


async def the_question(platform: MemoryPlatform, place: object) -> SeenMessage:
    def asked() -> list[SeenMessage]:
        return [each for each in platform.seen(place) if each.by_bot and "rm -rf build" in each.text]  # type: ignore[arg-type]

    await platform.until(lambda: bool(asked()))
    return asked()[0]


def last_said(platform: MemoryPlatform, place: object) -> str:
    said = [each.text for each in platform.seen(place) if each.by_bot]  # type: ignore[arg-type]
    return said[-1] if said else ""


@pytest.mark.clause("G4")
@pytest.mark.parametrize(("option", "count"), [(0, 1), (-1, 0)])
def test_a_button_decides_an_approval_once(db: SessionDB, option: int, count: int) -> None:
    ran: list[str] = []

    async def scenario() -> None:
        platform = MemoryPlatform(traits())
        let_in(db, "ada")
        place = await platform.direct("ada")
        async with a_gateway(db, platform, asking, tools=[dangerous(ran)]):
            await platform.say(place, "ada", "clean up")
            question = await the_question(platform, place)
            await platform.press(place, "ada", question.id, question.buttons[option])
            await platform.until(lambda: last_said(platform, place) == "All done.")
            await platform.press(place, "ada", question.id, question.buttons[0])
            await platform.until(lambda: len(platform.server.press_notes) == 2)
        assert len(ran) == count
        assert platform.server.press_notes[-1][1] == "This question is closed already."

    run(scenario())


@pytest.mark.parametrize("word", ["/approve", "yes"])
def test_a_word_decides_where_there_are_no_buttons(db: SessionDB, word: str) -> None:
    ran: list[str] = []

    async def scenario() -> None:
        platform = MemoryPlatform(traits(has_buttons=False))
        let_in(db, "ada")
        place = await platform.direct("ada")
        async with a_gateway(db, platform, asking, tools=[dangerous(ran)]):
            await platform.say(place, "ada", "clean up")
            question = await the_question(platform, place)
            assert "/approve" in question.text
            await platform.say(place, "ada", word)
            await platform.until(lambda: last_said(platform, place) == "All done.")
        assert ran == ["rm"]

    run(scenario())


@pytest.mark.clause("G4")
def test_a_button_works_after_a_restart_and_the_question_is_shown_once(db: SessionDB) -> None:
    ran: list[str] = []

    async def scenario() -> None:
        platform = MemoryPlatform(traits())
        let_in(db, "ada")
        place = await platform.direct("ada")
        async with a_gateway(db, platform, asking, tools=[dangerous(ran)]) as (_, host):
            await platform.say(place, "ada", "clean up")
            question = await the_question(platform, place)
            await until_status(host, lambda now: now.posts.get("sent") == 1)
        await platform.press(place, "ada", question.id, question.buttons[0])
        script = ScriptedModel(["All done."])
        async with a_gateway(db, platform, lambda _: script, tools=[dangerous(ran)]):
            await platform.until(lambda: last_said(platform, place) == "All done.", 30)
        asked = [each for each in platform.seen(place) if "rm -rf build" in each.text]
        assert len(asked) == 1
        assert ran == ["rm"]

    run(scenario())


@pytest.mark.clause("G4")
def test_a_turn_goes_on_in_the_role_of_its_person_before_the_platform_answers(db: SessionDB) -> None:
    """The host goes on with what a restart cut off while the gateway still signs in."""
    ran: list[str] = []

    async def scenario() -> None:
        platform = MemoryPlatform(traits())
        let_in(db, "ada")
        place = await platform.direct("ada")
        async with a_gateway(db, platform, asking, tools=[dangerous(ran)]):
            await platform.say(place, "ada", "clean up")
            question = await the_question(platform, place)
        await platform.press(place, "ada", question.id, question.buttons[0])
        parts = host_parts(db, ["All done."], tools=[dangerous(ran)], options=OPTIONS)
        policies = ChatPolicies(db.chat_people)
        async with SessionHost(replace(parts, closes_store=False, scope_policy=policies)) as host:
            asked = asyncio.Event()
            host.watch(lambda event: asked.set() if isinstance(event, ApprovalAsked) else None)
            async with asyncio.timeout(SECONDS):
                await asked.wait()
        async with a_gateway(db, platform, lambda _: ScriptedModel(["All done."]), tools=[dangerous(ran)]):
            await platform.until(lambda: last_said(platform, place) == "All done.", SECONDS)
        assert ran == ["rm"]

    run(scenario())


@pytest.mark.clause("G6")
def test_a_guest_can_not_approve(db: SessionDB) -> None:
    ran: list[str] = []

    async def scenario() -> None:
        platform = MemoryPlatform(traits())
        let_in(db, "ada")
        db.chat_people.put(ACCOUNT, "person-bob", "guest")
        place = await platform.group(["ada", "bob"])
        db.chat_people.put(ACCOUNT, place.chat, "user")
        async with a_gateway(db, platform, asking, tools=[dangerous(ran)]) as (_, host):
            await platform.say(place, "ada", "clean up", mention=True)
            question = await the_question(platform, place)
            await platform.press(place, "bob", question.id, question.buttons[0])
            await platform.say(place, "bob", "/approve", mention=True)
            await platform.say(place, "bob", "yes", mention=True)
            await until_status(host, lambda now: now.events == {"accepted": 1, "refused": 3})
            assert ran == []
            await platform.press(place, "ada", question.id, question.buttons[-1])
            await platform.until(lambda: "All done." in [each.text for each in platform.seen(place)])
        assert ran == []

    run(scenario())


def test_the_next_message_answers_a_question(db: SessionDB) -> None:
    def script(_: str) -> Model:
        return ScriptedModel([Call("ask_user", {"question": "Which colour?"}), "Blue it is."])

    async def scenario() -> None:
        platform = MemoryPlatform(traits())
        let_in(db, "ada")
        place = await platform.direct("ada")
        async with a_gateway(db, platform, script, tools=[ask_user]) as (_, host):
            await platform.say(place, "ada", "paint it")
            await platform.until(lambda: "Which colour?" in last_said(platform, place))
            await platform.say(place, "ada", "blue")
            await platform.until(lambda: last_said(platform, place) == "Blue it is.")
            await until_status(host, lambda now: now.events == {"accepted": 1, "done": 1})

    run(scenario())


def test_new_begins_another_conversation_and_resume_goes_back(db: SessionDB) -> None:
    async def scenario() -> None:
        platform = MemoryPlatform(traits())
        let_in(db, "ada")
        place = await platform.direct("ada")
        async with a_gateway(db, platform) as (_, host):
            await platform.say(place, "ada", "one")
            await until_status(host, lambda now: now.posts == {"sent": 1})
            first = db.chat_events.rooms(ACCOUNT)[0].session_id
            await platform.say(place, "ada", "/new")
            await platform.until(lambda: "new conversation" in last_said(platform, place))
            await platform.say(place, "ada", "two")
            await platform.until(lambda: last_said(platform, place) == "You said: two")
            assert db.chat_events.rooms(ACCOUNT)[0].session_id != first
            await platform.say(place, "ada", "/resume 2")
            await platform.until(lambda: "go on with" in last_said(platform, place))
            assert db.chat_events.rooms(ACCOUNT)[0].session_id == first

    run(scenario())


@pytest.mark.clause("G7")
def test_stop_ends_the_turn_and_retry_answers_again(db: SessionDB) -> None:
    async def scenario() -> None:
        gate = asyncio.Event()

        async def hang(_: object) -> str:
            await gate.wait()
            return "late"

        platform = MemoryPlatform(traits())
        let_in(db, "ada")
        place = await platform.direct("ada")
        script = ScriptedModel([["Once upon", hang], "A whole story."])
        settings = GatewaySettings(debounce_s=0, preview=False)
        async with a_gateway(db, platform, lambda _: script, settings=settings):
            await platform.say(place, "ada", "tell me a story")
            await platform.until(lambda: platform.is_typing(place))
            await platform.say(place, "ada", "/stop")
            await platform.until(lambda: "Stopped." in last_said(platform, place))
            assert not platform.is_typing(place)
            gate.set()
            asked = await platform.say(place, "ada", "/retry")
            await platform.until(lambda: last_said(platform, place) == "A whole story.")
            assert platform.seen(place)[-1].reply_to == asked

    run(scenario())


def test_an_unknown_command_and_a_path_are_told_apart(db: SessionDB) -> None:
    async def scenario() -> None:
        platform = MemoryPlatform(traits())
        let_in(db, "ada")
        place = await platform.direct("ada")
        async with a_gateway(db, platform):
            await platform.say(place, "ada", "/frobnicate now")
            await platform.until(lambda: "/help lists" in last_said(platform, place))
            await platform.say(place, "ada", "/etc/hosts is a file")
            await platform.until(lambda: last_said(platform, place) == "You said: /etc/hosts is a file")
            await platform.say(place, "ada", "/help")
            await platform.until(lambda: "/retry" in last_said(platform, place))

    run(scenario())


@pytest.mark.clause("G7")
def test_a_failed_turn_is_said_in_its_chat(db: SessionDB) -> None:
    async def scenario() -> None:
        platform = MemoryPlatform(traits())
        let_in(db, "ada")
        place = await platform.direct("ada")
        async with a_gateway(db, platform, lambda _: ScriptedModel([RuntimeError("the model broke")])):
            await platform.say(place, "ada", "hello")
            await platform.until(lambda: "could not finish" in last_said(platform, place))
            assert "/retry" in last_said(platform, place)

    run(scenario())
