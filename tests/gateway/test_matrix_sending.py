"""The Matrix adapter against a real Synapse: sending, editing, files and limits."""

import asyncio
import json
from bisect import bisect_right
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.core.secret import Secret
from holdfast.gateway.adapters.matrix import MatrixAdapter, sign_in
from holdfast.gateway.contract import (
    FileTooLarge,
    NotTaken,
    Outgoing,
    Place,
    Route,
    SendRefused,
    SlowDown,
    Unreachable,
)
from tests.gateway.matrix_platform import MatrixPlatform
from tests.gateway.matrix_story import next_message, on_matrix, receiving, started
from tests.gateway.synapse_server import PASSWORD

pytestmark = pytest.mark.slow  # each worker starts a server, and installs it once


@on_matrix
async def test_answers_go_to_their_thread_and_reply(platform: MatrixPlatform, adapter: MatrixAdapter) -> None:
    place = await platform.group(["ann", "ben"])
    root = await platform.say(place, "ann", "root")
    inside = await platform.say(Place(place.chat, root), "ann", "inside")
    thread = Place(place.chat, root)
    await adapter.send(Route(place, root), Outgoing("a reply"), "1")
    await adapter.send(Route(thread), Outgoing("in the thread"), "2")
    await adapter.send(Route(thread, inside), Outgoing("a reply in the thread"), "3")
    seen = {each.text: each for each in await platform.messages(place)}
    assert (seen["a reply"].thread, seen["a reply"].reply_to) == ("", root)
    assert (seen["in the thread"].thread, seen["in the thread"].reply_to) == (root, "")
    assert (seen["a reply in the thread"].thread, seen["a reply in the thread"].reply_to) == (root, inside)
    assert [each.text for each in await platform.messages(thread)] == [
        "inside",
        "in the thread",
        "a reply in the thread",
    ]


@on_matrix
async def test_a_repeat_after_a_lost_answer_is_the_same_message(
    platform: MatrixPlatform, adapter: MatrixAdapter
) -> None:
    place = await platform.direct("ann")
    await platform.fail("drop after")
    with pytest.raises(Unreachable):
        await adapter.send(Route(place), Outgoing("once"), "key")
    restarted = platform.adapter()
    first = await restarted.send(Route(place), Outgoing("once"), "key")
    assert await restarted.send(Route(place), Outgoing("once"), "key") == first
    assert [each.id for each in await platform.messages(place)] == [first]
    assert await restarted.find_sent(Route(place), "key") == first
    assert await restarted.find_sent(Route(place), "another key") is None
    await restarted.close()


@on_matrix
async def test_a_repeat_after_a_crash_of_the_server_is_the_same_message(
    platform: MatrixPlatform, adapter: MatrixAdapter
) -> None:
    place = await platform.direct("ann")
    async with receiving(adapter) as batches:
        await started(batches)
        first = await adapter.send(Route(place), Outgoing("once"), "key")
        platform.server.kill()
        with pytest.raises(Unreachable):
            await anext(batches)
    gone = MatrixAdapter(platform.bot)
    with pytest.raises(NotTaken):
        await gone.send(Route(place), Outgoing("to nobody"), "other key")
    with pytest.raises(Unreachable):
        await anext(gone.receive({}))
    await gone.close()
    platform.server.start()
    assert await adapter.send(Route(place), Outgoing("once"), "key") == first
    assert [each.id for each in await platform.messages(place)] == [first]


@on_matrix
async def test_a_message_is_found_from_another_device(
    platform: MatrixPlatform, adapter: MatrixAdapter
) -> None:
    place = await platform.direct("ann")
    first = await adapter.send(Route(place), Outgoing("once"), "key")
    await adapter.edit(Route(place), first, Outgoing("edited"))
    for number in range(3):
        await adapter.send(Route(place), Outgoing("later"), f"later {number}")
    other = MatrixAdapter(await sign_in(platform.server.url, platform.bot.user_id, Secret(PASSWORD)))
    assert await other.find_sent(Route(place), "key") == first
    await other.close()


@on_matrix
async def test_a_message_is_edited_and_deleted(platform: MatrixPlatform, adapter: MatrixAdapter) -> None:
    place = await platform.direct("ann")
    route = Route(place)
    first = await adapter.send(route, Outgoing("a preview"), "1")
    for text in ("one", "two", "one", "one"):
        await adapter.edit(route, first, Outgoing(text))
        assert [each.text for each in await platform.messages(place)] == [text]
    large = "word\n\n" * 1000
    assert adapter.measure(large) < adapter.traits.max_size
    await adapter.edit(route, first, Outgoing(large))
    second = await adapter.send(route, Outgoing("second"), "2")
    assert [each.id for each in await platform.messages(place)] == [first, second]
    await adapter.delete(route, first)
    await adapter.delete(route, first)
    await adapter.delete(route, "$never-sent")
    assert [each.id for each in await platform.messages(place)] == [second]


@on_matrix
async def test_a_reaction_is_there_once(platform: MatrixPlatform, adapter: MatrixAdapter) -> None:
    place = await platform.direct("ann")
    said = await platform.say(place, "ann", "hello")
    other = MatrixAdapter(await sign_in(platform.server.url, platform.bot.user_id, Secret(PASSWORD)))
    for bot in (adapter, adapter, other):
        await bot.react(Route(place), said, "👀")
    await other.react(Route(place), said, "✅")
    await other.close()
    reactions = await platform.events(place, "m.reaction")
    assert [each["content"]["m.relates_to"]["key"] for each in reactions] == ["👀", "✅"]


@on_matrix
async def test_typing_is_shown_and_taken_away(platform: MatrixPlatform, adapter: MatrixAdapter) -> None:
    place = await platform.direct("ann")
    assert not platform.is_typing(place)
    await adapter.show_typing(Route(place))
    assert platform.is_typing(place)
    await adapter.stop_typing(Route(place))
    assert not platform.is_typing(place)


@on_matrix
async def test_slow_down_is_told_with_the_time_of_the_server(
    platform: MatrixPlatform, adapter: MatrixAdapter
) -> None:
    place = await platform.direct("ann")
    await platform.fail("slow down")
    with pytest.raises(SlowDown) as told:
        await adapter.send(Route(place), Outgoing("hello"), "1")
    assert told.value.seconds == 0.05
    platform.server.limit(platform.bot.user_id, messages_per_second=1, burst_count=1)
    sends = [adapter.send(Route(place), Outgoing("quickly"), f"quick {number}") for number in range(20)]
    with pytest.raises(SlowDown) as told:
        await asyncio.gather(*sends)
    assert 0 < told.value.seconds <= 60
    assert told.value.whole_account


@on_matrix
async def test_a_room_without_the_bot_refuses_its_messages(
    platform: MatrixPlatform, adapter: MatrixAdapter
) -> None:
    place = await platform.room("ann", [])
    with pytest.raises(SendRefused, match="not in room"):
        await adapter.send(Route(place), Outgoing("hello"), "1")
    with pytest.raises(SendRefused):
        await adapter.send(Route(Place("!nowhere:gw.test")), Outgoing("hello"), "1")


@on_matrix
async def test_a_message_of_the_largest_size_is_taken_and_edited(
    platform: MatrixPlatform, adapter: MatrixAdapter
) -> None:
    place = await platform.direct("ann")
    for number, unit in enumerate(("plain words ", "**b** ", '"<&>" \\ ', "日本語 ", "\x01")):
        sizes = range(adapter.traits.max_size)
        count = bisect_right(sizes, adapter.traits.max_size, key=lambda size: adapter.measure(unit * size))
        text = unit * (count - 1)
        assert adapter.traits.max_size - 40 < adapter.measure(text) <= adapter.traits.max_size
        first = await adapter.send(Route(place), Outgoing(text), f"{number}")
        await adapter.edit(Route(place), first, Outgoing(text))
    with pytest.raises(SendRefused, match="too large"):
        await adapter.send(Route(place), Outgoing("x" * 66_000), "too large")


@on_matrix
async def test_files_go_both_ways(platform: MatrixPlatform, adapter: MatrixAdapter) -> None:
    place = await platform.direct("ann")
    folder = Path(platform.server.folder)
    data = bytes(range(256)) * 1000
    async with receiving(adapter) as batches:
        await started(batches)
        await platform.send_file(place, "ann", "data.bin", data)
        message = await next_message(batches)
    (file,) = message.files
    assert (file.name, file.size, message.text) == ("data.bin", len(data), "")
    target = folder / "got.bin"
    await adapter.download(file, target, len(data))
    assert target.read_bytes() == data
    with pytest.raises(FileTooLarge):
        await adapter.download(file, folder / "cut.bin", len(data) - 1)
    assert not (folder / "cut.bin").exists()
    with pytest.raises(SendRefused):
        await adapter.download(replace(file, ref="mxc://gw.test/nothing"), folder / "none.bin", 10)

    await adapter.send(Route(place), Outgoing("look: **data**", file=target), "1")
    await adapter.send(Route(place), Outgoing("", file=target), "2")
    seen = (await platform.messages(place))[-2:]
    assert [each.file for each in seen] == [data, data]
    assert [each.text for each in seen] == ["look: data", ""]


@on_matrix
async def test_a_file_that_the_server_does_not_take_is_refused(
    platform: MatrixPlatform, adapter: MatrixAdapter
) -> None:
    place = await platform.direct("ann")
    large = Path(platform.server.folder) / "large.bin"
    large.write_bytes(b"x" * 3_000_000)
    with pytest.raises(FileTooLarge, match="takes no file"):
        await adapter.send(Route(place), Outgoing("", file=large), "1")
    await adapter.connect()
    with pytest.raises(FileTooLarge, match="takes 2097152"):
        await adapter.send(Route(place), Outgoing("", file=large), "1")


@on_matrix
async def test_markdown_is_sent_as_html_and_text(platform: MatrixPlatform, adapter: MatrixAdapter) -> None:
    place = await platform.direct("ann")
    await adapter.send(Route(place), Outgoing("**bold** <script>"), "1")
    await adapter.send(Route(place), Outgoing("plain", is_silent=True), "2")
    first, second = (each["content"] for each in await platform.events(place))
    assert first["formatted_body"] == "<strong>bold</strong> &lt;script&gt;"
    assert (first["body"], first["msgtype"]) == ("**bold** <script>", "m.text")
    assert (second["msgtype"], "formatted_body" in second) == ("m.notice", False)
    assert json.dumps(first["m.mentions"]) == "{}"
