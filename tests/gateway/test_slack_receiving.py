"""What the Slack adapter receives when things go wrong: crashes, gaps, broken sockets, disorder."""

import asyncio
import logging
from typing import Any

import pytest

from holdfast.gateway.contract import (
    Button,
    Outgoing,
    Route,
    SignInRefused,
    TakenElsewhere,
    Unreachable,
)
from tests.gateway.slack_platform import SlackPlatform
from tests.gateway.slack_receiver import receiving, slack
from tests.gateway.slack_server import APP_TOKEN, BOT_TOKEN
from tests.gateway.test_slack import Scenario, play


def play_impatiently(scenario: Scenario) -> None:
    """On a Slack that delivers an envelope again after a moment instead of three seconds."""

    async def on_slack() -> None:
        async with slack(ack_seconds=0.05) as platform:
            await scenario(platform)

    asyncio.run(on_slack())


def test_an_envelope_is_acknowledged_only_when_the_gateway_says_so() -> None:
    async def scenario(platform: SlackPlatform) -> None:
        place = await platform.direct("ann")
        async with receiving(platform) as receiver:
            await platform.say(place, "ann", "hello")
            batch = await anext(receiver.batches)
            said = platform.server.sent[0]["envelope_id"]
            # The envelope of an own message is acknowledged at once, which shows that the socket works.
            await receiver.adapter.send(Route(place), Outgoing("hi"), "k1")
            reading = asyncio.ensure_future(anext(receiver.batches))
            await platform.server.until(lambda: len(platform.server.acknowledged) == 1)
            assert platform.server.acknowledged != [said]
            await batch.acknowledge()
            await platform.server.until(lambda: said in platform.server.acknowledged)
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    play(scenario)


def test_after_a_crash_before_the_acknowledgement_the_envelope_comes_again_with_the_same_id() -> None:
    async def scenario(platform: SlackPlatform) -> None:
        place = await platform.direct("ann")
        async with receiving(platform) as crashed:
            await platform.say(place, "ann", "hello")
            (lost,) = (await anext(crashed.batches)).events
        await platform.server.until(lambda: not platform.server.open_sockets)
        async with receiving(platform, crashed.cursors) as receiver:
            first, again = platform.server.sent
            assert (again["envelope_id"], again["retry_attempt"]) == (first["envelope_id"], 1)
            assert platform.server.acknowledged == []
            await platform.say(place, "ann", "again")
            await receiver.count(2)
            await platform.server.until(lambda: first["envelope_id"] in platform.server.acknowledged)
            assert receiver.texts == ["hello", "again"]
            assert receiver.deliveries[0] == lost.id

    play(scenario)


def test_a_crash_after_the_envelope_was_forgotten_by_slack_loses_nothing() -> None:
    async def scenario(platform: SlackPlatform) -> None:
        place = await platform.direct("ann")
        async with receiving(platform) as crashed:
            await platform.say(place, "ann", "hello")
            (lost,) = (await anext(crashed.batches)).events
        platform.server.forget()
        async with receiving(platform, crashed.cursors) as receiver:
            assert list(receiver.events) == [lost.id]

    play(scenario)


def test_an_envelope_without_an_acknowledgement_comes_again_on_the_same_socket() -> None:
    async def scenario(platform: SlackPlatform) -> None:
        place = await platform.direct("ann")
        async with receiving(platform) as receiver:
            await platform.say(place, "ann", "hello")
            receiver.store(await anext(receiver.batches))
            await platform.server.until(lambda: len(platform.server.sent) >= 2)
            await receiver.until(lambda: len(receiver.deliveries) > 1)
            assert len(set(receiver.deliveries)) == 1
            await platform.server.until(lambda: not platform.server.waiting)

    play_impatiently(scenario)


def test_a_broken_socket_is_reported_and_the_gap_is_filled() -> None:
    async def scenario(platform: SlackPlatform) -> None:
        place = await platform.direct("ann")
        async with receiving(platform) as receiver:
            await platform.say(place, "ann", "before")
            await receiver.count(1)
            await platform.kick()
            with pytest.raises(Unreachable):
                await receiver.take()
            await platform.server.until(lambda: not platform.server.open_sockets)
            await platform.say(place, "ann", "in the gap")
            receiver.batches = receiver.adapter.receive(receiver.cursors)
            await receiver.catch_up()
            assert receiver.texts == ["before", "in the gap"]

    play(scenario)


def test_a_socket_that_answers_no_ping_is_broken() -> None:
    async def scenario(platform: SlackPlatform) -> None:
        platform.server.is_deaf = True
        async with receiving(platform, heartbeat=0.05) as receiver:
            with pytest.raises(Unreachable):
                await receiver.take()

    play(scenario)


def test_a_refreshed_connection_loses_neither_messages_nor_presses() -> None:
    async def scenario(platform: SlackPlatform) -> None:
        place = await platform.direct("ann")
        async with receiving(platform) as receiver:
            asked = await receiver.adapter.send(
                Route(place), Outgoing("Sure?", (Button("Yes", "yes"),)), "k1"
            )
            gate = platform.server.gates["apps.connections.open"] = asyncio.Event()
            opened = platform.server.called("apps.connections.open")
            await platform.server.disconnect("warning")
            await platform.server.disconnect("refresh_requested")
            reading = asyncio.ensure_future(receiver.count(3))
            await platform.server.until(lambda: platform.server.called("apps.connections.open") > opened)
            # Slack still uses the old socket.
            await platform.press(place, "ann", asked, "yes")
            await platform.say(place, "ann", "one")
            gate.set()
            await platform.server.until(lambda: len(platform.server.hellos) == 2)
            await platform.server.until(lambda: len(platform.server.open_sockets) == 1)
            await platform.say(place, "ann", "two")
            assert sorted(event.text for event in await reading) == ["one", "two", "yes"]
            await platform.server.until(lambda: not platform.server.waiting)
            assert platform.server.called("apps.connections.open") == opened + 1

    play(scenario)


def test_envelopes_that_wait_are_put_in_the_order_in_which_it_was_said() -> None:
    async def scenario(platform: SlackPlatform) -> None:
        group, direct = await platform.group(["ann"]), await platform.direct("ann")
        async with receiving(platform) as receiver:
            platform.server.hold()
            for number in range(4):
                await platform.say(group if number % 2 else direct, "ann", f"m{number}")
            await platform.server.release(lambda held: held[::-1])
            await platform.server.flush()
            await receiver.take()
            assert receiver.texts == ["m0", "m1", "m2", "m3"]

    play(scenario)


def test_a_late_envelope_is_received_and_moves_no_cursor_back() -> None:
    async def scenario(platform: SlackPlatform) -> None:
        place = await platform.direct("ann")
        async with receiving(platform) as receiver:
            held = platform.server.hold()
            await platform.say(place, "ann", "late")
            newest = await platform.say(place, "ann", "early")
            await platform.server.release(lambda waiting: waiting[1:])
            await receiver.take()
            await platform.server.send(held[0])
            await receiver.take()
            assert receiver.texts == ["early", "late"]
            assert receiver.cursors[place.chat] == newest

    play(scenario)


def test_envelopes_that_are_doubled_or_out_of_order_are_received_once_each() -> None:
    async def scenario(platform: SlackPlatform) -> None:
        place = await platform.group(["ann"])
        async with receiving(platform) as receiver:
            platform.server.hold()
            for number in range(4):
                await platform.say(place, "ann", f"m{number}", mention=True)
            await platform.server.release(lambda held: [*reversed(held), *held])
            await receiver.count(4)
            await platform.deliver_again()
            await platform.say(place, "ann", "end")
            await receiver.until(lambda: "end" in receiver.texts)
            assert sorted(receiver.texts) == ["end", "m0", "m1", "m2", "m3"]
            assert len(receiver.events) == 5
            assert len(receiver.deliveries) > 5

    play(scenario)


@pytest.mark.parametrize(
    ("reason", "error"), [("link_disabled", SignInRefused), ("too_many_websockets", TakenElsewhere)]
)
def test_slacks_reason_to_end_the_connection_is_told(reason: str, error: type[Exception]) -> None:
    async def scenario(platform: SlackPlatform) -> None:
        async with receiving(platform) as receiver:
            await platform.server.disconnect(reason)
            with pytest.raises(error):
                await receiver.take()

    play(scenario)


@pytest.mark.parametrize("token", [BOT_TOKEN, APP_TOKEN])
def test_a_token_that_was_taken_back_is_told_from_a_broken_connection(token: str) -> None:
    async def scenario(platform: SlackPlatform) -> None:
        async with receiving(platform) as receiver:
            platform.server.revoked.add(token)
            await platform.kick()
            with pytest.raises(Unreachable):
                await receiver.take()
            with pytest.raises(SignInRefused, match="token_revoked"):
                await receiver.adapter.connect()

    play(scenario)


def test_receiving_from_a_slack_that_is_not_there_is_unreachable() -> None:
    async def scenario(platform: SlackPlatform) -> None:
        adapter = platform.slack_adapter()
        await platform.close()
        with pytest.raises(Unreachable):
            await anext(adapter.receive({}))
        await adapter.close()

    play(scenario)


def test_an_envelope_that_cannot_be_read_is_logged_and_does_not_come_for_ever(
    caplog: pytest.LogCaptureFixture,
) -> None:
    broken: dict[str, Any] = {"type": "block_actions", "actions": [{"value": "x"}], "user": {}}

    async def scenario(platform: SlackPlatform) -> None:
        place = await platform.direct("ann")
        async with receiving(platform) as receiver:
            await platform.server.deliver("interactive", broken)
            await platform.server.deliver("interactive", {"type": "view_submission"})
            await platform.server.deliver("events_api", {"event": {"type": "team_join"}})
            await platform.say(place, "ann", "hello")
            await receiver.count(1)
            await platform.server.until(lambda: len(platform.server.acknowledged) == 4)

    play(scenario)
    assert [record.message for record in caplog.records if record.levelno >= logging.ERROR] == [
        "slack.unreadable"
    ]


def test_an_id_stands_for_a_name_that_slack_does_not_tell() -> None:
    async def scenario(platform: SlackPlatform) -> None:
        place = await platform.group(["ann"])
        for method in ("users.info", "conversations.info"):
            platform.server.fail(method, "missing_scope")
        async with receiving(platform) as receiver:
            await platform.say(place, "ann", "one")
            await platform.say(place, "ann", "two")
            one, two = await receiver.count(2)
            assert (one.sender.name, one.chat_title) == (one.sender.id, "")
            assert (two.sender.name, two.chat_title) == ("ann", "group-1")

    play(scenario)
