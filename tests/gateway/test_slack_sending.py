"""What the Slack adapter says of a call that fails, and how a message is never sent twice."""

import asyncio
from pathlib import Path

import pytest

from holdfast.core.clock import SystemClock
from holdfast.core.secret import Secret
from holdfast.gateway.adapters.slack import SlackAdapter
from holdfast.gateway.contract import (
    ChatFile,
    ChatPlatformError,
    FileTooLarge,
    NotTaken,
    Outgoing,
    Place,
    Route,
    SendRefused,
    SignInRefused,
    SlowDown,
    Unreachable,
)
from tests.gateway.slack_platform import SlackPlatform
from tests.gateway.slack_server import APP_TOKEN, BOT_TOKEN
from tests.gateway.test_slack import play


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        ("slow down", SlowDown),
        ("ratelimited", SlowDown),
        ("refuse", SendRefused),
        ("channel_not_found", SendRefused),
        ("not_in_channel", SendRefused),
        ("is_archived", SendRefused),
        ("msg_too_long", SendRefused),
        ("an_error_of_next_year", SendRefused),
        ("invalid_auth", SignInRefused),
        ("token_revoked", SignInRefused),
        ("account_inactive", SignInRefused),
        ("drop before", Unreachable),
        ("drop after", Unreachable),
        ("broken server", Unreachable),
        ("internal_error", Unreachable),
        ("fatal_error", Unreachable),
    ],
)
def test_each_failure_has_its_error(error: str, raised: type[ChatPlatformError]) -> None:
    async def scenario(platform: SlackPlatform) -> None:
        place = await platform.direct("ann")
        adapter = platform.slack_adapter()
        for method in ("chat.postMessage", "chat.update"):
            platform.server.fail(method, error)
        with pytest.raises(raised) as sending:
            await adapter.send(Route(place), Outgoing("hello"), "k1")
        assert type(sending.value) is raised or raised is SendRefused
        sent = await adapter.send(Route(place), Outgoing("hello"), "k2")
        with pytest.raises(raised):
            await adapter.edit(Route(place), sent, Outgoing("changed"))
        await adapter.edit(Route(place), sent, Outgoing("changed"))
        assert (await platform.messages(place))[-1].text == "changed"
        # slack_sdk has repeated nothing by itself.
        assert platform.server.called("chat.postMessage") == 2
        assert platform.server.called("chat.update") == 2
        await adapter.close()

    play(scenario)


def test_a_slow_down_says_for_how_long() -> None:
    async def scenario(platform: SlackPlatform) -> None:
        place = await platform.direct("ann")
        adapter = platform.slack_adapter()
        await platform.fail("slow down")
        with pytest.raises(SlowDown) as raised:
            await adapter.send(Route(place), Outgoing("hello"), "k1")
        assert raised.value.seconds == 1.0
        assert not raised.value.whole_account
        assert await platform.messages(place) == []
        await adapter.close()

    play(scenario)


def test_a_call_that_found_no_connection_was_not_taken() -> None:
    async def scenario(platform: SlackPlatform) -> None:
        place = await platform.direct("ann")
        adapter = platform.slack_adapter()
        await platform.close()
        with pytest.raises(NotTaken):
            await adapter.send(Route(place), Outgoing("hello"), "k1")
        with pytest.raises(NotTaken):
            await adapter.connect()
        await adapter.close()

    play(scenario)


@pytest.mark.parametrize(
    ("bot", "app", "says"),
    [
        ("xapp-of-the-app", APP_TOKEN, "bot token"),
        (BOT_TOKEN, "xoxb-of-the-bot", "app token"),
        ("xoxb-wrong", APP_TOKEN, "the bot token: .*invalid_auth"),
        (BOT_TOKEN, "xapp-wrong", "the app token: .*invalid_auth"),
    ],
)
def test_wrong_tokens_are_refused_at_sign_in_and_never_shown(bot: str, app: str, says: str) -> None:
    async def scenario(platform: SlackPlatform) -> None:
        adapter = SlackAdapter(Secret(bot), Secret(app), SystemClock(), base_url=platform.server.url)
        with pytest.raises(SignInRefused, match=says) as raised:
            await adapter.connect()
        assert not any(token in str(raised.value) for token in (bot, app))
        await adapter.close()

    play(scenario)


@pytest.mark.parametrize("in_thread", [False, True])
def test_a_message_whose_answer_was_lost_is_found_by_its_key_after_a_restart(*, in_thread: bool) -> None:
    async def scenario(platform: SlackPlatform) -> None:
        place = await platform.group(["ann"])
        root = await platform.say(place, "ann", "a topic")
        route = Route(Place(place.chat, root if in_thread else ""))
        adapter = platform.slack_adapter()
        await adapter.send(route, Outgoing("the same words"), "k0")
        await platform.fail("drop after")
        with pytest.raises(Unreachable):
            await adapter.send(route, Outgoing("the same words"), "k1")
        await adapter.close()
        later = platform.slack_adapter()
        platform.server.page_size = 2
        for number in range(5):
            await platform.say(route.place, "ann", f"later {number}")
        found = await later.find_sent(route, "k1")
        same = [message.id for message in await platform.messages(place) if message.by_bot]
        assert found == same[1]
        assert len(same) == 2
        await later.close()

    play(scenario)


def test_a_message_that_was_dropped_on_its_way_is_not_found() -> None:
    async def scenario(platform: SlackPlatform) -> None:
        place = await platform.direct("ann")
        adapter = platform.slack_adapter()
        await platform.fail("drop before")
        with pytest.raises(Unreachable):
            await adapter.send(Route(place), Outgoing("hello"), "k1")
        assert await adapter.find_sent(Route(place), "k1") is None
        await adapter.send(Route(place), Outgoing("hello"), "k1")
        assert len(await platform.messages(place)) == 1
        await adapter.close()

    play(scenario)


def test_the_key_in_a_message_of_somebody_else_does_not_count() -> None:
    async def scenario(platform: SlackPlatform) -> None:
        place = await platform.direct("ann")
        metadata = {"event_type": "holdfast_message", "event_payload": {"key": "k1"}}
        await platform.write(place, "ann", "not from the bot", metadata=metadata)
        adapter = platform.slack_adapter()
        assert await adapter.find_sent(Route(place), "k1") is None
        await adapter.close()

    play(scenario)


@pytest.mark.parametrize("fault", ["drop before", "drop after", "slow down", "fatal_error"])
def test_a_file_cut_off_from_its_message_is_put_to_it_later(fault: str, tmp_path: Path) -> None:
    report = tmp_path / "report.txt"
    report.write_bytes(b"all is well")

    async def scenario(platform: SlackPlatform) -> None:
        place = await platform.direct("ann")
        platform.server.fail("chat.update", fault)
        adapter = platform.slack_adapter()
        with pytest.raises(Unreachable):
            await adapter.send(Route(place), Outgoing("The report", file=report), "k1")
        await adapter.close()
        later = platform.slack_adapter()
        found = await later.find_sent(Route(place), "k1")
        (message,) = await platform.messages(place)
        assert (message.id, message.text, message.file) == (found, "The report", b"all is well")
        assert await later.find_sent(Route(place), "k1") == found
        (stored,) = platform.workspace.channels[place.chat].messages.values()
        assert len(stored["files"]) == 1
        await later.close()

    play(scenario)


@pytest.mark.parametrize("method", ["files.getUploadURLExternal", "files.completeUploadExternal"])
def test_a_file_that_did_not_reach_slack_leaves_no_message(method: str, tmp_path: Path) -> None:
    report = tmp_path / "report.txt"
    report.write_bytes(b"all is well")

    async def scenario(platform: SlackPlatform) -> None:
        place = await platform.direct("ann")
        platform.server.fail(method, "drop after")
        adapter = platform.slack_adapter()
        with pytest.raises(NotTaken):
            await adapter.send(Route(place), Outgoing("The report", file=report), "k1")
        assert await platform.messages(place) == []
        await adapter.close()

    play(scenario)


def test_an_app_token_without_its_scope_is_refused_at_sign_in() -> None:
    async def scenario(platform: SlackPlatform) -> None:
        platform.server.fail("apps.connections.open", "missing_scope")
        adapter = platform.slack_adapter()
        with pytest.raises(SignInRefused, match=r"the app token: .*missing_scope"):
            await adapter.connect()
        await adapter.close()

    play(scenario)


def test_a_file_that_is_too_large_or_gone_is_not_sent(tmp_path: Path) -> None:
    large = tmp_path / "large"
    with large.open("wb") as file:
        file.truncate(SlackAdapter.traits.max_upload + 1)

    async def scenario(platform: SlackPlatform) -> None:
        place = await platform.direct("ann")
        adapter = platform.slack_adapter()
        with pytest.raises(FileTooLarge):
            await adapter.send(Route(place), Outgoing("", file=large), "k1")
        with pytest.raises(SendRefused, match="gone can't be read"):
            await adapter.send(Route(place), Outgoing("", file=tmp_path / "gone"), "k2")
        assert platform.server.calls == []
        await adapter.close()

    play(scenario)


def test_the_page_to_sign_in_is_not_taken_for_a_file(tmp_path: Path) -> None:
    async def scenario(platform: SlackPlatform) -> None:
        file = platform.workspace.new_file("notes.txt")
        file.content = b"secret"
        platform.server.locked.add(file.id)
        adapter = platform.slack_adapter()
        with pytest.raises(SendRefused, match="does not give the file"):
            await adapter.download(ChatFile(file.id, file.name, "text/plain"), tmp_path / "x", 1_000)
        await adapter.close()

    play(scenario)
    assert list(tmp_path.iterdir()) == []


def test_the_token_is_shown_to_slack_alone(tmp_path: Path) -> None:
    async def scenario(platform: SlackPlatform) -> None:
        asked: list[bytes] = []

        async def other_server(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            asked.append(await reader.readuntil(b"\r\n\r\n"))
            writer.close()

        server = await asyncio.start_server(other_server, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        file = platform.workspace.new_file("notes.txt")
        platform.server.methods.elsewhere[file.id] = f"http://localhost:{port}/notes.txt"
        adapter = platform.slack_adapter()
        with pytest.raises(SendRefused, match="outside Slack, by localhost"):
            await adapter.download(ChatFile(file.id, file.name, "text/plain"), tmp_path / "x", 1_000)
        assert asked == []
        server.close()
        await adapter.close()

    play(scenario)


def test_the_largest_message_fits_as_sent_as_edited_and_with_buttons() -> None:
    async def scenario(platform: SlackPlatform) -> None:
        place = await platform.direct("ann")
        adapter = platform.slack_adapter()
        text = "&" * (adapter.traits.max_size // 5)
        assert adapter.measure(text) == adapter.traits.max_size
        sent = await adapter.send(Route(place), Outgoing(text), "k1")
        await adapter.edit(Route(place), sent, Outgoing(text))
        with pytest.raises(SendRefused, match="msg_too_long"):
            await adapter.edit(Route(place), sent, Outgoing(text + "&"))
        await adapter.close()

    play(scenario)
