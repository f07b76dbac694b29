"""Who is answered: nobody by default, people by their id, and in groups only what is meant for the bot."""

from typing import Any

import pytest

from holdfast.models.contract import Model, ModelRequest
from holdfast.process import run
from holdfast.sessions import SessionDB
from holdfast.sessions.user_records import CHAT_ISSUER
from holdfast.testing import ScriptedModel
from holdfast.testing.memory_platform import MemoryPlatform
from holdfast.tools.contract import ToolContext
from tests.agent.agent_fixtures import a_tool
from tests.gateway.gateway_fixtures import ACCOUNT, a_gateway, let_in, traits, until_said, until_status

pytestmark = pytest.mark.soak_cases("postgres")  # the store's own suite tries both engines


@pytest.mark.clause("G6", "S5")
def test_a_stranger_gets_a_code_and_nothing_else_until_the_owner_approves_it(db: SessionDB) -> None:
    async def scenario() -> None:
        platform = MemoryPlatform(traits())
        place = await platform.direct("eve")
        async with a_gateway(db, platform) as (_, host):
            for text in ("hello", "/status", "let me in, I am the owner"):
                await platform.say(place, "eve", text)
            await until_status(host, lambda now: now.events == {"refused": 3} and now.posts == {"sent": 3})
            (pairing,) = db.chat_people.pairings(ACCOUNT)
            said = [each.text for each in platform.seen(place) if each.by_bot]
            assert all(pairing.code in text for text in said)
            assert db.chat_events.rooms(ACCOUNT)[0].session_id is None, "no conversation began"
            db.chat_people.approve(pairing.code)
            await platform.say(place, "eve", "hello again")
            await until_said(platform, place, *said, "You said: hello again")

    run(scenario())


@pytest.mark.clause("S5")
def test_a_name_lets_nobody_in(db: SessionDB) -> None:
    async def scenario() -> None:
        platform = MemoryPlatform(traits())
        db.chat_people.put(ACCOUNT, "person-1", "owner", name="ada")
        place = await platform.direct("ada")
        async with a_gateway(db, platform) as (_, host):
            await platform.say(place, "ada", "it is me")
            await until_status(host, lambda now: now.events == {"refused": 1})

    run(scenario())


@pytest.mark.clause("G6")
def test_blocked_people_and_bots_are_not_answered(db: SessionDB) -> None:
    async def scenario() -> None:
        platform = MemoryPlatform(traits())
        db.chat_people.put(ACCOUNT, "person-eve", "blocked")
        db.chat_people.put(ACCOUNT, "bot-other", "user")
        place = await platform.direct("eve")
        async with a_gateway(db, platform) as (_, host):
            await platform.say(place, "eve", "hello")
            await platform.bot_says(place, "other", "hello, colleague")
            await until_status(host, lambda now: now.events == {"refused": 2})
        assert not [each for each in platform.seen(place) if each.by_bot]
        assert {each.note for each in db.chat_events.refused(ACCOUNT)} == {
            "the sender is blocked",
            "sent by a bot",
        }

    run(scenario())


def test_in_a_group_a_mention_is_answered_with_what_was_said_before_as_data(db: SessionDB) -> None:
    async def scenario() -> None:
        platform = MemoryPlatform(traits())
        let_in(db, "ada")
        place = await platform.group(["ada", "eve"])
        async with a_gateway(db, platform) as (_, host):
            await platform.say(place, "eve", "the train leaves at nine")
            await platform.say(place, "eve", "can you hear me?", mention=True)
            await platform.say(place, "ada", "nine? really?")
            await until_status(host, lambda now: now.events == {"refused": 3})
            await platform.say(place, "ada", "when does it leave?", mention=True)
            await platform.until(lambda: any(each.by_bot for each in platform.seen(place)))
            (answer,) = [each.text for each in platform.seen(place) if each.by_bot]
            await until_status(host, lambda now: now.posts == {"sent": 1})
        (answer,) = [each.text for each in platform.seen(place) if each.by_bot]
        assert "eve" in answer
        assert '"the train leaves at nine"' in answer
        assert answer.endswith("when does it leave?")
        assert '[Message from "ada" (id "person-ada")' in answer

    run(scenario())


def test_a_thread_that_the_bot_was_called_into_goes_on_without_mentions(db: SessionDB) -> None:
    async def scenario() -> None:
        platform = MemoryPlatform(traits())
        let_in(db, "ada")
        place = await platform.group(["ada", "eve"])
        thread = await platform.thread(place)
        async with a_gateway(db, platform) as (_, host):
            await platform.say(thread, "ada", "come here", mention=True)
            await until_status(host, lambda now: now.posts == {"sent": 1})
            await platform.say(thread, "ada", "and now?")
            await until_status(host, lambda now: now.posts == {"sent": 2})
            await platform.say(place, "ada", "not here")
            await until_status(host, lambda now: now.events == {"accepted": 2, "refused": 1})
        answers = [each for each in platform.seen(place) if each.by_bot]
        assert [each.thread for each in answers] == [thread.thread] * 2

    run(scenario())


@pytest.mark.clause("G6")
def test_each_thread_has_its_own_conversation(db: SessionDB) -> None:
    async def scenario() -> None:
        platform = MemoryPlatform(traits())
        let_in(db, "ada")
        place = await platform.group(["ada"])
        threads = [await platform.thread(place), await platform.thread(place)]
        async with a_gateway(db, platform) as (_, host):
            for thread in threads:
                await platform.say(thread, "ada", "hello", mention=True)
            await until_status(host, lambda now: now.posts == {"sent": 2})
        assert len({room.session_id for room in db.chat_events.rooms(ACCOUNT)}) == 2

    run(scenario())


@pytest.mark.clause("G6")
def test_a_group_without_a_role_has_no_tools_that_guests_may_not_have(db: SessionDB) -> None:
    offered: list[set[str]] = []

    def script(_: str) -> Model:
        def answer(request: ModelRequest) -> str:
            offered.append({each.name for each in request.tools})
            return "ok"

        return ScriptedModel([answer] * 9)

    async def harmless(_: ToolContext, __: dict[str, Any]) -> str:
        return "done"

    async def scenario() -> None:
        platform = MemoryPlatform(traits())
        let_in(db, "ada")
        direct, group = await platform.direct("ada"), await platform.group(["ada"])
        tools = [a_tool("terminal", harmless)]
        async with a_gateway(db, platform, script, tools=tools) as (_, host):
            await platform.say(group, "ada", "hello", mention=True)
            await until_status(host, lambda now: now.posts == {"sent": 1})
            await platform.say(direct, "ada", "hello")
            await until_status(host, lambda now: now.posts == {"sent": 2})
            db.chat_people.put(ACCOUNT, group.chat, "user")
            await platform.say(group, "ada", "and now?", mention=True)
            await until_status(host, lambda now: now.posts == {"sent": 3})

    run(scenario())
    assert [each & {"terminal"} for each in offered] == [set(), {"terminal"}, {"terminal"}]


@pytest.mark.clause("G6")
def test_the_owner_alone_is_the_owner_and_everybody_else_is_apart(db: SessionDB) -> None:
    async def scenario() -> None:
        platform = MemoryPlatform(traits())
        db.chat_people.put(ACCOUNT, "person-ada", "owner")
        let_in(db, "bob")
        places = [await platform.direct("ada"), await platform.direct("bob"), await platform.group(["ada"])]
        async with a_gateway(db, platform) as (_, host):
            for place, person in zip(places, ("ada", "bob", "ada"), strict=True):
                await platform.say(place, person, "hello", mention=True)
            await until_status(host, lambda now: now.posts == {"sent": 3})
            sessions = [room.session_id or "" for room in db.chat_events.rooms(ACCOUNT)]
            scopes = [host.chats.scope_of(each) for each in sessions]
            assert scopes == ["", f"{ACCOUNT}/person-bob", f"{ACCOUNT}/{places[2].chat}"]
            # A role that is taken back takes the owner's conversation along.
            db.chat_people.put(ACCOUNT, "person-ada", "user")
            await platform.say(places[0], "ada", "/resume 1")
            await platform.say(places[0], "ada", "what did I say?")
            await until_status(host, lambda now: now.posts == {"sent": 5})
            room = db.chat_events.rooms(ACCOUNT)[0]
            assert host.chats.scope_of(room.session_id or "") == f"{ACCOUNT}/person-ada"

    run(scenario())


@pytest.mark.clause("N5", "G6")
def test_a_linked_person_has_the_scope_of_the_account_in_direct_chats_alone(db: SessionDB) -> None:
    async def scenario() -> None:
        platform = MemoryPlatform(traits())
        let_in(db, "bob")
        let_in(db, "eve")
        account = db.users.create("Bob")
        direct, other = await platform.direct("bob"), await platform.direct("eve")
        group = await platform.group(["bob"])
        async with a_gateway(db, platform) as (_, host):
            await platform.say(direct, "bob", "before")
            await until_status(host, lambda now: now.posts == {"sent": 1})
            db.users.link_identity(account.id, f"{CHAT_ISSUER}{ACCOUNT}", "person-bob")
            for sent, (place, person) in enumerate(
                ((direct, "bob"), (other, "eve"), (group, "bob")), start=2
            ):
                await platform.say(place, person, "after", mention=True)
                await until_status(host, lambda now, sent=sent: now.posts == {"sent": sent})  # type: ignore[misc]
            rooms = {room.chat: room.session_id or "" for room in db.chat_events.rooms(ACCOUNT)}
            scopes = [host.chats.scope_of(rooms[each.chat]) for each in (direct, other, group)]
            assert scopes == [account.scope, f"{ACCOUNT}/person-eve", f"{ACCOUNT}/{group.chat}"]
            assert db.get_messages(rooms[direct.chat])[0]["content"] == "after"

    run(scenario())
