"""Chat accounts over HTTP: how they stand, what could not be delivered, and who may talk."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from holdfast.core.settings import WebSettings
from holdfast.gateway.chat_account import GatewayParts
from holdfast.gateway.contract import Place
from holdfast.gateway.gateway import Gateway
from holdfast.sessions import SessionDB
from holdfast.testing.memory_platform import MemoryPlatform
from tests.gateway.gateway_fixtures import ACCOUNT, QUICK_TRAITS, SECONDS, SETTINGS, echo, let_in, until_said
from tests.web.api.api_server import Served, served

Wait = Callable[[Awaitable[Any]], Any]
Account = dict[str, Any]


@asynccontextmanager
async def served_with_chats(db: SessionDB) -> AsyncIterator[tuple[Served, MemoryPlatform]]:
    """A web server and a gateway on one host, as `holdfast web --gateway` runs them."""
    platform = MemoryPlatform(QUICK_TRAITS)
    async with served(db, echo, settings=WebSettings(requests_per_s=100_000)) as server:
        server.host.chats.set_up({ACCOUNT: "memory"})
        parts = GatewayParts(server.host, SETTINGS, lambda _: Path("/nowhere"))
        gateway = Gateway({ACCOUNT: platform.adapter()}, parts)
        async with gateway.running(), asyncio.timeout(SECONDS):
            await gateway.accounts[ACCOUNT].answered.wait()
            yield server, platform


async def account_of(server: Served, holds: Callable[[Account], bool] = lambda _: True) -> Account:
    """The account, once it is as wanted."""
    while True:
        answer = await server.http.get("/api/chats")
        assert answer.status_code == 200, answer.text
        [account] = answer.json()["accounts"]
        if holds(account):
            return dict(account)


async def talked(server: Served, platform: MemoryPlatform, db: SessionDB) -> Place:
    """Ada is let in and has talked with the bot."""
    let_in(db, "Ada")
    place = await platform.direct("Ada")
    await platform.say(place, "Ada", "hello")
    await until_said(platform, place, "You said: hello")
    await account_of(server, lambda account: account["posts"] == {"sent": 1})
    return place


@pytest.mark.clause("S5", "G7")
def test_a_stranger_is_let_in_with_a_role_over_the_api(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        async with served_with_chats(db) as (server, platform):
            place = await platform.direct("Ada")
            await platform.say(place, "Ada", "hello")
            account = await account_of(server, lambda account: bool(account["pairings"]))
            [pairing] = account["pairings"]
            assert (account["platform"], account["held"], account["people"]) == ("memory", True, [])
            assert account["serving"]["state"] == "connected"
            assert (pairing["name"], pairing["person"]) == ("Ada", "person-Ada")
            refused = await server.http.post("/api/chats/pairings/NOTACODE/approve", json={})
            assert (refused.status_code, refused.json()["reason"]) == (404, "PairingNotFound")
            path = f"/api/chats/pairings/{pairing['code'].lower()}/approve"
            assert (await server.http.post(path, json={"role": "king"})).status_code == 422
            answer = await server.http.post(path, json={"role": "guest"})
            assert (answer.status_code, answer.json()["role"]) == (200, "guest")
            account = await account_of(server)
            assert [(each["person"], each["role"]) for each in account["people"]] == [("person-Ada", "guest")]
            assert account["pairings"] == []

    wait(scenario())


def test_a_conversation_says_in_which_chat_it_lives(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        async with served_with_chats(db) as (server, platform):
            elsewhere = await server.begin(title="on the page")
            place = await talked(server, platform, db)
            listed = (await server.http.get("/api/sessions")).json()["items"]
            [lives] = [each for each in listed if each["id"] != elsewhere]
            [chat] = lives["chats"]
            assert (chat["account"], chat["platform"], chat["person"]) == (ACCOUNT, "memory", "Ada")
            assert (chat["chat"], chat["is_direct"]) == (place.chat, True)
            assert [each["chats"] for each in listed if each["id"] == elsewhere] == [[]]
            detail = (await server.http.get(f"/api/sessions/{lives['id']}")).json()
            assert detail["chats"] == lives["chats"]

    wait(scenario())


@pytest.mark.clause("G7")
def test_what_could_not_be_delivered_is_shown_sent_again_or_dropped(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        async with served_with_chats(db) as (server, platform):
            place = await talked(server, platform, db)
            await platform.remove_bot(place)
            await platform.say(place, "Ada", "are you there?")
            account = await account_of(server, lambda account: bool(account["failed"]))
            [failed] = account["failed"]
            assert (failed["kind"], failed["text"]) == ("answer", "You said: are you there?")
            assert failed["error"]
            assert failed["place"]["person"] == "Ada"
            platform.server.chats[place.chat].has_bot = True
            assert (
                await server.http.post(f"/api/chats/posts/{failed['id']}/retry", json={})
            ).status_code == 204
            await until_said(platform, place, "You said: hello", "You said: are you there?")
            account = await account_of(server, lambda account: account["posts"].get("sent") == 2)
            assert account["failed"] == []
            late = await server.http.post(f"/api/chats/posts/{failed['id']}/drop", json={})
            assert (late.status_code, late.json()["reason"]) == (409, "ChatPostSettled")
            unknown = await server.http.post("/api/chats/posts/999/drop", json={})
            assert (unknown.status_code, unknown.json()["reason"]) == (404, "ChatPostNotFound")
            await platform.remove_bot(place)
            await platform.say(place, "Ada", "and now?")
            account = await account_of(server, lambda account: bool(account["failed"]))
            path = f"/api/chats/posts/{account['failed'][0]['id']}/drop"
            assert (await server.http.post(path, json={})).status_code == 204
            assert (await account_of(server))["posts"]["dropped"] == 1

    wait(scenario())


def test_roles_are_given_changed_and_taken_back_by_stable_ids(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        async with served(db) as server:
            server.host.chats.set_up({"home": "matrix"})
            person = "@ada/of the crew:example.org"
            path = f"/api/chats/home/people/{quote(person, safe='')}"
            given = await server.http.put(path, json={"role": "user", "name": "Ada"})
            assert (given.status_code, given.json()["person"]) == (200, person)
            changed = await server.http.put(path, json={"role": "owner"})
            assert (changed.json()["role"], changed.json()["name"]) == ("owner", "Ada")
            account = await account_of(server)
            assert [each["role"] for each in account["people"]] == ["owner"]
            assert (account["held"], account["serving"]) == (False, None)
            elsewhere = await server.http.put("/api/chats/away/people/p", json={"role": "user"})
            assert (elsewhere.status_code, elsewhere.json()["reason"]) == (404, "ChatAccountNotFound")
            assert (await server.http.delete(path)).status_code == 204
            assert (await server.http.delete(path)).json()["reason"] == "PersonNotFound"
            assert (await account_of(server))["people"] == []

    wait(scenario())


@pytest.mark.clause("S5")
def test_nothing_of_it_is_to_be_had_without_the_token(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        db.chat_people.pair("home", "p1", "Ada", "CODE")
        async with served(db) as server, server.stranger() as stranger:
            for method, path in (
                ("GET", ""),
                ("POST", "/posts/1/retry"),
                ("POST", "/posts/1/drop"),
                ("POST", "/pairings/CODE/approve"),
                ("PUT", "/home/people/p1"),
                ("DELETE", "/home/people/p1"),
            ):
                answer = await stranger.request(method, f"/api/chats{path}")
                assert answer.status_code == 401, (method, path)
            account = await account_of(server)
            assert (account["name"], account["platform"], account["people"]) == ("home", "", [])
            assert [each["code"] for each in account["pairings"]] == ["CODE"]

    wait(scenario())
