"""Encrypted rooms on a real Synapse: the person uses matrix-nio's whole client, the bot our adapter."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.gateway.adapters.matrix import MatrixAdapter
from holdfast.gateway.contract import FileTooLarge, NotTaken, Outgoing, Place, Route, Unreachable
from tests.gateway.matrix_platform import MatrixPlatform
from tests.gateway.matrix_story import next_message, on_matrix, receiving, started

if TYPE_CHECKING:
    from nio import AsyncClient

pytestmark = pytest.mark.slow  # each worker starts a server, and installs it once

ENCRYPTION = {"type": "m.room.encryption", "state_key": "", "content": {"algorithm": "m.megolm.v1.aes-sha2"}}


def folder(platform: MatrixPlatform) -> Path:
    return Path(mkdtemp(dir=platform.server.folder))


def with_keys(platform: MatrixPlatform, keys: Path) -> MatrixAdapter:
    return MatrixAdapter(replace(platform.bot, homeserver=platform.proxy.url), keys)


async def encrypted_room(platform: MatrixPlatform, people: list[str]) -> Place:
    place = await platform.room(people[0], people[1:], initial_state=[ENCRYPTION])
    for member in [*(platform.person(name) for name in people[1:]), platform.bot]:
        await platform.ask(member, "POST", f"/_matrix/client/v3/join/{place.chat}", json={})
    return place


@asynccontextmanager
async def client(platform: MatrixPlatform, person: str) -> "AsyncGenerator[AsyncClient, None]":
    """The person's own client, with keys of its own."""
    # Each worker of a test run reads this file; the library is for the one that runs it.
    from nio import AsyncClient, AsyncClientConfig

    who = platform.person(person)
    config = AsyncClientConfig(encryption_enabled=True, store_sync_tokens=False)
    made = AsyncClient(who.homeserver, who.user_id, who.device_id, str(folder(platform)), config)
    made.restore_login(who.user_id, who.device_id, who.token.reveal())
    try:
        await refresh(made)
        yield made
    finally:
        await made.close()
        made.store.database.close()


async def refresh(person: "AsyncClient") -> None:
    await person.sync(timeout=0, full_state=True)
    if person.should_upload_keys:
        await person.keys_upload()
    if person.should_query_keys:
        await person.keys_query()


async def say(person: "AsyncClient", place: Place, text: str, **content: object) -> str:
    await refresh(person)
    sent = await person.room_send(
        place.chat,
        "m.room.message",
        {"msgtype": "m.text", "body": text, **content},
        ignore_unverified_devices=True,
    )
    return str(sent.event_id)


async def read(person: "AsyncClient", place: Place) -> list[Any]:
    """What the person's client could decrypt of the room, oldest first."""
    await refresh(person)
    answer = await person.room_messages(place.chat, limit=100)
    return [each for each in reversed(answer.chunk) if each.decrypted]


@on_matrix
async def test_an_encrypted_room_is_read_and_written(
    platform: MatrixPlatform, adapter: MatrixAdapter
) -> None:
    from nio import RoomMessageText

    place, keys = await encrypted_room(platform, ["ann"]), folder(platform)
    bot = with_keys(platform, keys)
    await bot.connect()
    async with client(platform, "ann") as ann, receiving(bot) as batches:
        cursor = await started(batches)
        await say(ann, place, "a secret question")
        question = await next_message(batches)
        assert (question.text, question.is_direct) == ("a secret question", True)
        answer = await bot.send(Route(place, question.id), Outgoing("a **secret** answer"), "1")
        assert await bot.send(Route(place, question.id), Outgoing("a **secret** answer"), "1") == answer
        await bot.edit(Route(place), answer, Outgoing("another answer"))
        reply = {"m.relates_to": {"m.in_reply_to": {"event_id": answer}}}
        await say(ann, place, "and now?", **reply)
        second = await next_message(batches)
        assert (second.is_mention, second.quoted) == (True, "a **secret** answer")
        seen = [each.body for each in await read(ann, place) if isinstance(each, RoomMessageText)]
    assert seen == ["a secret question", "a **secret** answer", "* another answer", "and now?"]
    assert await bot.find_sent(Route(place), "1") == answer
    assert await platform.events(place) == []  # nothing went without encryption
    await bot.close()

    restarted = with_keys(platform, keys)
    async with receiving(restarted, cursor) as batches:
        again = await anext(batches)
    assert [each.text for each in again.events] == ["a secret question", "and now?"]
    before = await restarted.history(place, second.id, 5)
    assert [each.text for each in before] == ["a secret question", "a **secret** answer"]
    await restarted.close()

    async with receiving(adapter, cursor) as batches:
        blind = await anext(batches)
    assert [(each.text, each.files) for each in blind.events] == [("", ())] * 2


@on_matrix
async def test_who_left_gets_no_new_key(platform: MatrixPlatform, adapter: MatrixAdapter) -> None:
    place = await encrypted_room(platform, ["ann", "ben"])
    bot = with_keys(platform, folder(platform))
    async with client(platform, "ann") as ann, client(platform, "ben") as ben, receiving(bot) as batches:
        await started(batches)
        await bot.send(Route(place), Outgoing("for two"), "1")
        await platform.ask(
            platform.people["ben"], "POST", f"/_matrix/client/v3/rooms/{place.chat}/leave", json={}
        )
        await say(ann, place, "ben is gone")
        await next_message(batches)
        await bot.send(Route(place), Outgoing("for one"), "2")
        assert [each.body for each in await read(ann, place)] == ["for two", "ben is gone", "for one"]
        await ben.sync(timeout=0)
        sent = [each for each in await platform.events(place, "m.room.encrypted") if by_bot(each, platform)]
        known = [ben.olm.inbound_group_store.get(place.chat, *written_with(each)) for each in sent]
        assert [each is not None for each in known] == [True, False]
    await bot.close()


def by_bot(event: dict[str, Any], platform: MatrixPlatform) -> bool:
    return bool(event["sender"] == platform.bot.user_id)


def written_with(event: dict[str, Any]) -> tuple[str, str]:
    return event["content"]["sender_key"], event["content"]["session_id"]


@on_matrix
async def test_files_in_an_encrypted_room_are_encrypted(
    platform: MatrixPlatform, adapter: MatrixAdapter
) -> None:
    from nio import RoomEncryptedFile
    from nio.crypto.attachments import decrypt_attachment

    place, data = await encrypted_room(platform, ["ann"]), bytes(range(256)) * 100
    bot, here = with_keys(platform, folder(platform)), folder(platform)
    (here / "data.bin").write_bytes(data)
    async with client(platform, "ann") as ann, receiving(bot) as batches:
        await started(batches)
        await bot.send(Route(place), Outgoing("", file=here / "data.bin"), "1")
        (file,) = [each for each in await read(ann, place) if isinstance(each, RoomEncryptedFile)]
        fetched = await ann.download(mxc=file.url)
        assert fetched.body != data
        assert decrypt_attachment(fetched.body, file.key["k"], file.hashes["sha256"], file.iv) == data
        source = file.source["content"]
        await say(ann, place, "data.bin", msgtype="m.file", file=source["file"], info=source["info"])
        (received,) = (await next_message(batches)).files
        assert (received.name, received.size) == ("data.bin", len(data))
        await bot.download(received, here / "got.bin", len(data))
        assert (here / "got.bin").read_bytes() == data
        with pytest.raises(FileTooLarge):
            await bot.download(received, here / "cut.bin", len(data) - 1)
    await bot.close()


@on_matrix
async def test_a_lost_answer_and_a_broken_key_message_do_no_harm(
    platform: MatrixPlatform, adapter: MatrixAdapter
) -> None:
    place = await encrypted_room(platform, ["ann"])
    bot = with_keys(platform, folder(platform))
    async with client(platform, "ann") as ann, receiving(bot) as batches:
        await started(batches)
        asked: dict[str, object] = {"device_keys": {platform.bot.user_id: []}}
        path = "/_matrix/client/v3/keys/query"
        found = await platform.ask(platform.people["ann"], "POST", path, json=asked)
        device = found["device_keys"][platform.bot.user_id][platform.bot.device_id]
        key = device["keys"][f"curve25519:{platform.bot.device_id}"]
        noise = {key: {"type": 0, "body": "noise"}}
        broken: list[dict[str, object]] = [
            {"algorithm": "m.olm.v1.curve25519-aes-sha2", "sender_key": "x", "ciphertext": noise},
            {"algorithm": "m.olm.v1.curve25519-aes-sha2", "sender_key": "x", "ciphertext": {}},
            {"algorithm": "m.olm.v1.curve25519-aes-sha2", "ciphertext": 5},
            {"algorithm": 5},
            {"x": 1},
        ]
        for number, content in enumerate(broken):
            sent = {"messages": {platform.bot.user_id: {platform.bot.device_id: content}}}
            path = f"/_matrix/client/v3/sendToDevice/m.room.encrypted/{number}"
            await platform.ask(platform.people["ann"], "PUT", path, json=sent)
            await platform.post(place, "ann", content, "m.room.encrypted")
        await platform.post(
            place, "ann", {"ciphertext": "x", "algorithm": "m.megolm.v1.aes-sha2"}, "m.room.encrypted"
        )
        await say(ann, place, "still there?")
        texts: list[str] = []
        while "still there?" not in texts:
            texts += [each.text for each in (await anext(batches)).events]
        platform.server.kill()
        with pytest.raises((NotTaken, Unreachable)):
            await bot.send(Route(place), Outgoing("yes"), "1")
        platform.server.start()
        await bot.send(Route(place), Outgoing("yes"), "1")
        await bot.send(Route(place), Outgoing("yes"), "1")
        assert [each.body for each in await read(ann, place)] == ["still there?", "yes"]
    await bot.close()


@on_matrix
async def test_a_key_that_comes_after_its_message_is_waited_for(
    platform: MatrixPlatform, adapter: MatrixAdapter
) -> None:
    place = await encrypted_room(platform, ["ann"])
    bot = with_keys(platform, folder(platform))
    async with client(platform, "ann") as ann, receiving(bot) as batches:
        await started(batches)
        await refresh(ann)
        await ann.keys_claim(ann.olm.get_missing_sessions([platform.bot.user_id]))
        _, keys = ann.olm.share_group_session(
            place.chat, [platform.bot.user_id], ignore_unverified_devices=True
        )
        ann.olm.outbound_group_sessions[place.chat].mark_as_shared()
        said = {"type": "m.room.message", "content": {"msgtype": "m.text", "body": "first"}}
        await platform.proxy.polls.acquire()  # the first start
        waiting = asyncio.ensure_future(next_message(batches))
        await platform.proxy.polls.acquire()
        hidden = ann.olm.group_encrypt(place.chat, said)
        await platform.post(place, "ann", hidden, "m.room.encrypted")
        await platform.proxy.polls.acquire()
        assert not waiting.done()
        path = "/_matrix/client/v3/sendToDevice/m.room.encrypted/1"
        await platform.ask(platform.people["ann"], "PUT", path, json=keys)
        assert (await waiting).text == "first"
    await bot.close()


@on_matrix
async def test_keys_that_the_server_took_are_not_lost_with_its_answer(
    platform: MatrixPlatform, adapter: MatrixAdapter
) -> None:
    place, keys = await encrypted_room(platform, ["ann"]), folder(platform)
    bot = with_keys(platform, keys)
    platform.proxy.lost.append("/keys/upload")
    with pytest.raises(Unreachable):
        await anext(bot.receive({}))
    await bot.close()
    bot = with_keys(platform, keys)
    async with client(platform, "ann") as ann, receiving(bot) as batches:
        await started(batches)
        await say(ann, place, "can you read this?")
        assert (await next_message(batches)).text == "can you read this?"
    await bot.close()
