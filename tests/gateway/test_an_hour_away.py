"""The gateway was away for an hour while people wrote in five chats; it catches up on every platform."""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from holdfast.core.clock import SystemClock
from holdfast.core.settings import GatewaySettings
from holdfast.gateway.chat_account import GatewayParts
from holdfast.gateway.contract import Adapter, Place
from holdfast.gateway.gateway import Gateway
from holdfast.host import SessionHost
from holdfast.models.contract import Model, ModelRequest
from holdfast.process import run
from holdfast.sessions import SessionDB
from holdfast.testing import ScriptedModel
from tests.gateway.chat_sites import NAMES, ChatSite, a_site
from tests.gateway.gateway_fixtures import ACCOUNT, a_host, answered, until_status
from tests.gateway.moments import Moments
from tests.polling import pauses

pytestmark = [
    pytest.mark.slow,
    pytest.mark.soak_cases("postgres"),  # the store's own suite tries both engines
]

HOUR = 3600
MESSAGES = 50
TOO_OLD, COMMANDS = (0, 1, 2), (20, 41)
APART = 2.1
"""Some platforms say only the second in which a message was sent."""


class ClockAt(SystemClock):
    """A clock whose time of the day stands still."""

    def __init__(self, now: float) -> None:
        self._now = now

    def now(self) -> float:
        return self._now


@dataclass
class Chat:
    """A chat or a thread, and the numbers of what was said in it."""

    place: Place
    mention: bool
    said: list[int] = field(default_factory=list)


def numbered(asked: list[int]) -> Callable[[str], Model]:
    """A model that answers with the number of the message."""

    def answer(request: ModelRequest) -> str:
        number = int(re.findall(r"say #(\d+)", str(request.messages[-1]["content"]))[-1])
        asked.append(number)
        return f"the answer to #{number}"

    return lambda _: ScriptedModel([answer] * 2 * MESSAGES)


def quick(adapter: Adapter) -> Adapter:
    """The adapter without the pace of its platform, which its stand-in does not ask for."""
    adapter.traits = replace(
        adapter.traits, chat_seconds=0.0, group_seconds=0.0, account_per_second=1e4, edit_seconds=0.05
    )
    return adapter


@asynccontextmanager
async def serving(
    db: SessionDB, site: ChatSite, asked: list[int], settings: GatewaySettings, now: float
) -> AsyncIterator[SessionHost]:
    async with a_host(db, numbered(asked)) as host:
        parts = GatewayParts(host, settings, lambda scope: Path("/nowhere") / scope, clock=ClockAt(now))
        gateway = Gateway({ACCOUNT: quick(site.platform.adapter())}, parts)
        async with gateway.running():
            await answered(gateway)
            yield host


async def five_chats(site: ChatSite) -> list[Chat]:
    platform, people = site.platform, ("ada", "bob")
    alone = [Chat(await platform.direct(each), mention=False) for each in people]
    groups = [await platform.group(people), await site.thread(people), await site.thread(people)]
    return [*alone, *(Chat(each, mention=True) for each in groups)]


async def begin(site: ChatSite, chats: list[Chat]) -> None:
    """Say something in each chat: of a chat where nobody has said a word a platform may tell nothing."""
    for number, chat in enumerate(chats, MESSAGES):
        await say(site, chat, number, "bob" if number == MESSAGES + 1 else "ada")


async def say(site: ChatSite, chat: Chat, number: int, person: str) -> None:
    text = f"/new #{number}" if number in COMMANDS else f"say #{number}"
    await site.platform.say(chat.place, person, text, mention=chat.mention)
    chat.said.append(number)


async def say_all(site: ChatSite, chats: list[Chat]) -> float:
    """Say all messages; returns the moment after which a message is not too old."""
    moment = 0.0
    for number in range(MESSAGES):
        at = number % len(chats)
        await say(site, chats[at], number, "bob" if at == 1 else "ada")
        if number == TOO_OLD[-1]:
            moment = await later_than(time.time() + APART / 2)
            await later_than(moment + APART / 2)
    return moment


async def later_than(moment: float) -> float:
    """Wait for this time of the machine, by which the servers tell when something was said."""
    for pause in pauses():
        if time.time() > moment:
            return moment
        await asyncio.sleep(pause)  # noqa: TID251 - polls
    raise AssertionError("pauses have no end")


def is_notice(text: str, number: int) -> bool:
    if number in TOO_OLD:
        return "older than" in text
    return number in COMMANDS and "did not run this command" in text


@pytest.mark.clause("G1", "G3")
@pytest.mark.parametrize("name", NAMES)
def test_after_an_hour_away_each_platform_is_caught_up_with_in_order_but_commands_and_what_is_too_old(
    name: str, db: SessionDB, request: pytest.FixtureRequest
) -> None:
    synapse = request.getfixturevalue("synapse") if name == "matrix" else None
    asked: list[int] = []

    async def scenario() -> None:
        async with a_site(name, Moments(no_kill), synapse) as site:
            for person in ("ada", "bob"):
                db.chat_people.put(ACCOUNT, site.person_id(person), "user", name=person)
            chats = await five_chats(site)
            left = time.time()
            async with serving(db, site, asked, GatewaySettings(debounce_s=0), left) as host:
                await begin(site, chats)
                await until_status(host, lambda now: now.posts == {"sent": len(chats)})
            back = left + HOUR
            moment = await say_all(site, chats)
            settings = GatewaySettings(debounce_s=0, age_limit_h=(back - moment) / HOUR)
            async with serving(db, site, asked, settings, back) as host:
                wanted = {"accepted": 50, "expired": 5}
                await until_status(host, lambda now: now.events == wanted and now.posts == {"sent": 55})
            for chat in chats:
                shown = [each for each in await site.platform.messages(chat.place) if each.by_bot]
                about = [int(re.findall(r"#(\d+)", each.text)[-1]) for each in shown]
                has_order = site.has_order_in_groups or chat.place.thread or not chat.mention
                assert (about if has_order else sorted(about)) == (
                    chat.said if has_order else sorted(chat.said)
                )
                for number, each in zip(about, shown, strict=True):
                    is_expired = number in TOO_OLD or number in COMMANDS
                    assert is_notice(each.text, number) == is_expired, each.text

    run(scenario())
    assert sorted(asked) == [each for each in range(MESSAGES + 5) if each not in (*TOO_OLD, *COMMANDS)]


async def no_kill() -> None:
    """Nothing is killed here."""
