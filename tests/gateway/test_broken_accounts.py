"""An account whose adapter or store fails in an unforeseen way goes on later; the others go on now."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.errors import StoreUnreachable
from holdfast.gateway.chat_account import GatewayParts
from holdfast.gateway.contract import Batch, ChatFile, SignInRefused, Unreachable
from holdfast.gateway.gateway import Gateway
from holdfast.process import run
from holdfast.sessions import SessionDB
from holdfast.sessions.chat_events import account_lease
from holdfast.sessions.chat_posts import NewPost
from holdfast.testing.memory_adapter import MemoryAdapter
from holdfast.testing.memory_platform import MemoryPlatform
from tests.gateway.gateway_fixtures import (
    ACCOUNT,
    SETTINGS,
    a_gateway,
    a_host,
    answered,
    let_in,
    traits,
    until_said,
    until_status,
)
from tests.gateway.hostile_fixtures import said_by_bot
from tests.sessions.store_fixtures import hold_lease

pytestmark = pytest.mark.soak_cases("postgres")  # the store's own suite tries both engines
OTHER = "other"


class FaultyAdapter(MemoryAdapter):
    """Raises an error of its own the first time that it receives."""

    faults = 1

    async def receive(self, cursors: Mapping[str, str]) -> AsyncGenerator[Batch, None]:
        if self.faults:
            self.faults -= 1
            raise ZeroDivisionError("a secret of the library")
        async for batch in super().receive(cursors):
            yield batch


class RevokedAdapter(MemoryAdapter):
    """Its token is taken back when the connection breaks."""

    async def receive(self, cursors: Mapping[str, str]) -> AsyncGenerator[Batch, None]:
        with suppress(Unreachable):
            async for batch in super().receive(cursors):
                yield batch
        raise SignInRefused("the token was taken back")


def test_a_fault_of_one_adapter_stops_no_other_account_and_is_tried_again(
    db: SessionDB, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        faulty, sound = MemoryPlatform(traits()), MemoryPlatform(traits())
        let_in(db, "ada")
        db.chat_people.put(OTHER, "person-bob", "user", name="bob")
        ada, bob = await faulty.direct("ada"), await sound.direct("bob")
        async with a_host(db) as host:
            adapters = {ACCOUNT: FaultyAdapter(faulty.server), OTHER: sound.adapter()}
            gateway = Gateway(adapters, GatewayParts(host, SETTINGS, lambda scope: Path("/nowhere") / scope))
            async with gateway.running():
                await answered(gateway, OTHER)
                await sound.say(bob, "bob", "hello")
                await until_said(sound, bob, "You said: hello")
                await answered(gateway, ACCOUNT)
                await faulty.say(ada, "ada", "hello")
                await until_said(faulty, ada, "You said: hello")

    run(scenario())
    assert "chat.account_failed" in [each.message for each in caplog.records]


@pytest.mark.clause("G1", "G2")
def test_a_token_that_is_taken_back_is_said_and_nothing_is_lost_until_there_is_another(db: SessionDB) -> None:
    async def scenario() -> None:
        platform, sound = MemoryPlatform(traits()), MemoryPlatform(traits())
        let_in(db, "ada")
        db.chat_people.put(OTHER, "person-bob", "user", name="bob")
        ada, bob = await platform.direct("ada"), await sound.direct("bob")
        async with a_host(db) as host:
            adapters = {ACCOUNT: RevokedAdapter(platform.server), OTHER: sound.adapter()}
            gateway = Gateway(adapters, GatewayParts(host, SETTINGS, lambda scope: Path("/nowhere") / scope))
            async with gateway.running():
                await answered(gateway)
                await platform.say(ada, "ada", "one")
                await until_said(platform, ada, "You said: one")
                await until_status(host, lambda now: now.posts == {"sent": 1})
                await platform.kick()
                await until_status(
                    host, lambda now: now.serving is not None and now.serving.state == "refused"
                )
                (room,) = db.chat_events.rooms(ACCOUNT)
                db.chat_posts.put(NewPost("notice", room.id, {"text": "a notice"}))
                await platform.say(ada, "ada", "two")
                await sound.say(bob, "bob", "hello")
                await until_said(sound, bob, "You said: hello")
                assert len(platform.seen(ada)) == 3
        async with a_gateway(db, platform):
            await until_said(platform, ada, "You said: one", "a notice", "You said: two")

    run(scenario())


@pytest.mark.clause("I8")
def test_a_message_that_can_not_be_routed_is_refused_and_holds_up_no_other(
    db: SessionDB, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Fault(Exception):
        """Nobody foresaw this."""

    async def scenario() -> None:
        platform = MemoryPlatform(traits())
        let_in(db, "ada")
        place = await platform.direct("ada")
        async with a_gateway(db, platform) as (_, host):
            send: Callable[..., object] = host.send

            async def failing(session_id: str, text: str, *args: object, **how: object) -> object:
                if text == "poison":
                    raise Fault
                return await send(session_id, text, *args, **how)  # type: ignore[misc]

            monkeypatch.setattr(host, "send", failing)
            await platform.say(place, "ada", "poison")
            await platform.say(place, "ada", "hello")
            said = "I can't take this message: something went wrong here. My log has the details."
            await until_said(platform, place, said, "You said: hello")
            await until_status(host, lambda now: now.events == {"refused": 1, "accepted": 1})

    run(scenario())


@pytest.mark.clause("N3")
def test_an_account_waits_for_a_store_that_can_not_be_reached_when_it_asks_for_its_lease(
    db: SessionDB, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        platform = MemoryPlatform(traits())
        let_in(db, "ada")
        place = await platform.direct("ada")
        acquire = db.keeper.acquire
        failures = [StoreUnreachable("the database", "it is being restarted")]

        def failing(name: str, holder: str) -> object:
            if failures and name.startswith("chat:"):
                raise failures.pop()
            return acquire(name, holder)

        monkeypatch.setattr(db.keeper, "acquire", failing)
        async with a_gateway(db, platform):
            await platform.say(place, "ada", "hello")
            await until_said(platform, place, "You said: hello")

    run(scenario())


@pytest.mark.clause("G1", "G2")
def test_a_message_whose_account_is_taken_over_is_not_refused_too(
    db: SessionDB, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process that takes the account over answers it; the one before says nothing about it."""

    async def scenario() -> None:
        platform = MemoryPlatform(traits())
        let_in(db, "ada")
        place = await platform.direct("ada")
        async with a_gateway(db, platform) as (_, host):
            send: Callable[..., Any] = host.send

            async def overtaken(*args: object, **how: object) -> object:
                monkeypatch.undo()
                accepted = await send(*args, **how)
                taken = db.leases.current(account_lease(ACCOUNT))
                assert taken is not None
                db.leases.release(taken)
                hold_lease(db, taken.name, "another process", ttl_seconds=60)
                return accepted

            monkeypatch.setattr(host, "send", overtaken)
            await platform.say(place, "ada", "hello")
            await until_status(host, lambda now: now.serving is not None and now.serving.state == "waiting")
            await until_status(host, lambda now: now.posts == {"due": 1})
            other = db.leases.current(account_lease(ACCOUNT))
            assert other is not None
            db.leases.release(other)
            await until_said(platform, place, "You said: hello")
            await until_status(host, lambda now: now.events == {"accepted": 1} and now.posts == {"sent": 1})

    run(scenario())


@pytest.mark.clause("G3", "N2")
def test_who_lost_an_account_stops_receiving_though_nobody_says_anything(db: SessionDB) -> None:
    async def scenario() -> None:
        platform = MemoryPlatform(traits())
        async with a_gateway(db, platform) as (_, host):
            taken = db.leases.current(account_lease(ACCOUNT))
            assert taken is not None
            db.leases.release(taken)
            hold_lease(db, taken.name, "another process", ttl_seconds=60)
            await until_status(host, lambda now: now.serving is not None and now.serving.state == "waiting")
            assert platform.server.receiver is None

    run(scenario())


class EndingAdapter(MemoryAdapter):
    """Stops to receive without a word."""

    times = 0

    async def receive(self, cursors: Mapping[str, str]) -> AsyncGenerator[Batch, None]:
        self.times += 1
        yield Batch((), {"": "0"})


def test_an_adapter_that_stops_to_receive_is_asked_again_after_a_pause(db: SessionDB) -> None:
    async def scenario() -> None:
        platform = MemoryPlatform(traits())
        async with a_host(db) as host:
            parts = GatewayParts(host, SETTINGS, lambda scope: Path("/nowhere") / scope)
            adapter = EndingAdapter(platform.server)
            gateway = Gateway({ACCOUNT: adapter}, parts)
            async with gateway.running():
                await until_status(
                    host, lambda now: now.serving is not None and now.serving.state == "unreachable"
                )
                assert adapter.times == 1

    run(scenario())


class SlowFiles(MemoryAdapter):
    """Its files take for ever."""

    async def download(self, file: ChatFile, target: Path, most: int) -> None:
        await asyncio.Event().wait()


@pytest.mark.clause("G5")
def test_a_file_that_takes_long_holds_up_its_own_chat_alone(db: SessionDB, tmp_path: Path) -> None:
    async def scenario() -> None:
        platform = MemoryPlatform(traits())
        let_in(db, "ada", "bob")
        ada, bob = await platform.direct("ada"), await platform.direct("bob")
        async with a_host(db) as host:
            parts = GatewayParts(host, SETTINGS, lambda scope: tmp_path / scope)
            gateway = Gateway({ACCOUNT: SlowFiles(platform.server)}, parts)
            async with gateway.running():
                await answered(gateway)
                await platform.send_file(ada, "ada", "large.txt", b"large")
                await platform.say(ada, "ada", "what is in it?")
                expected = []
                for text in ("hello", "again"):
                    expected.append(f"You said: {text}")
                    await platform.say(bob, "bob", text)
                    await until_said(platform, bob, *expected)
            assert said_by_bot(platform, ada) == []

    run(scenario())
