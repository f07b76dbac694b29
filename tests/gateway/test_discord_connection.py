"""The Discord adapter signs in, says exactly what is wrong, and leaves nothing behind."""

import pytest

from holdfast.core.secret import Secret
from holdfast.gateway.adapters.discord import DiscordAdapter
from holdfast.gateway.contract import NotTaken, SignInRefused, Unreachable
from tests.gateway.discord_reader import StoringReader, reading, run
from tests.gateway.discord_server import DiscordPlatform

pytestmark = pytest.mark.slow  # the real library takes seconds to load


def test_a_gateway_that_does_not_answer_is_said_and_waited_for_later() -> None:
    async def story(platform: DiscordPlatform) -> None:
        platform.sessions.hello_gate.clear()
        reader = StoringReader(platform.adapter(connect_seconds=0.2))
        await reader.until(lambda: reader.breaks >= 2)
        platform.sessions.hello_gate.set()
        await reader.caught_up()
        await reader.stop()
        assert platform.sessions.identified == 1

    run(story)


def test_a_break_is_said_at_once_and_not_when_the_connection_stands_again() -> None:
    async def story(platform: DiscordPlatform) -> None:
        place = await platform.direct("ann")
        async with reading(platform) as reader:
            platform.sessions.hello_gate.clear()
            await platform.kick()
            await reader.until(lambda: reader.breaks == 1)
            await platform.say(place, "ann", "hello?")
            assert reader.events == []
            platform.sessions.hello_gate.set()
            await reader.received(1)
        assert (reader.texts, reader.breaks) == (["hello?"], 1)

    run(story)


def test_a_large_bot_has_several_connections() -> None:
    async def story(platform: DiscordPlatform) -> None:
        platform.shards = 2
        place = await platform.direct("ann")
        async with reading(platform) as reader:
            await platform.say(place, "ann", "hello")
            await reader.received(1)
            await platform.say(place, "ann", "again")
            await reader.received(2)
        assert reader.texts == ["hello", "again"]
        assert platform.sessions.identified == 2

    run(story)


def test_an_adapter_that_is_closed_while_it_connects_does_not_sign_in_later() -> None:
    async def story(platform: DiscordPlatform) -> None:
        platform.sessions.hello_gate.clear()
        reader = StoringReader(platform.adapter())
        await platform.sessions.connected.wait()
        await reader.stop()
        platform.sessions.hello_gate.set()
        await platform.sessions.left.wait()
        assert platform.sessions.identified == 0
        assert platform.sessions.connections == set()

    run(story)


def test_a_wrong_token_is_refused() -> None:
    async def story(platform: DiscordPlatform) -> None:
        for token in ("no token at all", platform.token + "x"):
            adapter = DiscordAdapter(Secret(token), api_url=f"{platform.url}/api/v10")
            with pytest.raises(SignInRefused, match="token"):
                await adapter.connect()
            await adapter.close()

    run(story)


def test_without_the_message_content_intent_it_says_what_to_switch_on() -> None:
    async def story(platform: DiscordPlatform) -> None:
        adapter = platform.adapter()
        platform.sessions.has_message_content = False
        page = f"https://discord.com/developers/applications/{platform.world.bot['id']}/bot"
        with pytest.raises(SignInRefused, match="Message Content Intent") as refused:
            await adapter.connect()
        assert page in str(refused.value)
        await adapter.close()

    run(story)


def test_an_intent_that_is_taken_back_later_is_said_too() -> None:
    async def story(platform: DiscordPlatform) -> None:
        adapter = platform.adapter()
        await adapter.connect()
        platform.sessions.has_message_content = False
        with pytest.raises(SignInRefused, match="Message Content Intent"):
            await anext(adapter.receive({}))
        await adapter.close()

    run(story)


def test_an_unreachable_discord_is_said_and_closing_is_idempotent() -> None:
    async def story(platform: DiscordPlatform) -> None:
        adapter = platform.adapter()
        identity = await adapter.connect()
        assert (identity.id, identity.name) == (platform.world.bot["id"], "holdfast")
        assert f"client_id={platform.world.bot['id']}" in identity.invite
        await platform.close()
        with pytest.raises(Unreachable):
            await anext(adapter.receive({}))
        await adapter.close()
        await adapter.close()
        with pytest.raises(NotTaken, match="closed"):
            await adapter.connect()

    run(story)
