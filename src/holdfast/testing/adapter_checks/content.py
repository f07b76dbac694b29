"""Checks buttons, files, "typing", history and the end of an adapter."""

import asyncio
import os
from pathlib import Path

import psutil

from holdfast.gateway.contract import Button, FileTooLarge, Incoming, Outgoing, Route
from holdfast.testing.adapter_harness import AdapterHarness, adapter_check, outcome
from holdfast.testing.provider_case import NotOffered
from holdfast.testing.provider_harness import require

LONGEST_VALUE = "v" * 64
CONTENT = bytes(range(256)) * 40


@adapter_check("buttons", "A press comes back with the value of its button, from the person, and once")
async def buttons(harness: AdapterHarness) -> None:
    adapter, place = await harness.adapter(), await harness.platform.direct("ada")
    if not adapter.traits.has_buttons:
        raise NotOffered("the platform has no buttons")
    listener = await harness.listen(adapter=adapter)
    await harness.platform.say(place, "ada", "hello")
    person = (await harness.heard(listener, "hello")).sender
    offered = (Button("Yes", LONGEST_VALUE), Button("No", "no:1"))
    sent = await harness.send(adapter, Route(place), Outgoing("Sure?", offered), "key-1")
    [seen] = await harness.until_seen(place, bool, "the message with buttons did not arrive")
    require(seen.buttons == (LONGEST_VALUE, "no:1"), f"its buttons have the values {seen.buttons}")
    for value in (LONGEST_VALUE, "no:1"):
        await harness.platform.press(place, "ada", sent, value)
        press = await harness.heard(listener, value)
        require(press.kind == "press", f"a press is received as a {press.kind}")
        require(press.message_id == sent, f"the press is of message {press.message_id!r}, not {sent!r}")
        require(press.sender.id == person.id, "the press is from somebody else")
        await _confirm_twice(harness, press)
    presses = [each.id for each in listener.events if each.kind == "press"]
    require(len(set(presses)) == len(offered), f"two presses have the ids {presses}")


async def _confirm_twice(harness: AdapterHarness, press: Incoming) -> None:
    adapter = await harness.adapter()
    for _ in range(2):
        failed = await outcome(harness.obeying(lambda: adapter.confirm_press(press, "Noted.")))
        require(failed is None, f"confirm_press() raised {failed!r}")


@adapter_check("buttons removed", "An edit without buttons takes them away")
async def buttons_removed(harness: AdapterHarness) -> None:
    adapter, place = await harness.adapter(), await harness.platform.direct("ada")
    if not (adapter.traits.has_buttons and adapter.traits.can_edit):
        raise NotOffered("the platform has no buttons, or no edits")
    message = Outgoing("Sure?", (Button("Yes", "yes:1"),))
    sent = await harness.send(adapter, Route(place), message, "key-1")
    await harness.obeying(lambda: adapter.edit(Route(place), sent, Outgoing("You said yes.")))
    [seen] = await harness.until_seen(place, lambda all_: all_[-1].text == "You said yes.", "not edited")
    require(seen.buttons == (), f"it still has the buttons {seen.buttons}")


@adapter_check("files received", "A person's file can be fetched whole; one that is too large is refused")
async def files_received(harness: AdapterHarness) -> None:
    adapter, place = await harness.adapter(), await harness.platform.direct("ada")
    listener = await harness.listen(adapter=adapter)
    await harness.platform.send_file(place, "ada", "data.bin", CONTENT)
    await harness.until(lambda: any(each.files for each in listener.events), "no file was received", listener)
    [file] = next(each.files for each in listener.events if each.files)
    require(file.name == "data.bin", f"it is called {file.name!r}")
    require(file.size in (None, len(CONTENT)), f"it says that it has {file.size} bytes")
    target = harness.folder / "received"
    await harness.obeying(lambda: adapter.download(file, target, len(CONTENT)))
    require(_bytes_of(target) == CONTENT, "what was fetched is not what was sent")
    refused = await outcome(
        harness.obeying(lambda: adapter.download(file, harness.folder / "too-large", len(CONTENT) - 1))
    )
    require(isinstance(refused, FileTooLarge), f"a file that is too large: {refused!r}, not FileTooLarge")


@adapter_check("files sent", "A file arrives whole with its caption; one that is too large is refused")
async def files_sent(harness: AdapterHarness) -> None:
    adapter, place = await harness.adapter(), await harness.platform.direct("ada")
    file = _file_of(harness.folder / "report.bin", CONTENT)
    await harness.send(adapter, Route(place), Outgoing("the caption", file=file), "key-1")
    seen = await harness.until_seen(
        place, lambda all_: any(each.file is not None for each in all_), "no file arrived"
    )
    require(
        [each.file for each in seen if each.file is not None] == [CONTENT], "the file did not arrive whole"
    )
    require(any(each.text == "the caption" for each in seen), "the caption is not there")
    large = _file_of(harness.folder / "large.bin", b"", adapter.traits.max_upload + 1)
    refused = await outcome(
        harness.obeying(lambda: adapter.send(Route(place), Outgoing("", file=large), "key-2"))
    )
    require(isinstance(refused, FileTooLarge), f"a file that is too large: {refused!r}, not FileTooLarge")


@adapter_check("typing", "The sign is shown where it should be, and ends")
async def typing(harness: AdapterHarness) -> None:
    adapter, place = await harness.adapter(), await harness.platform.direct("ada")
    other = await harness.platform.direct("bob")
    shown = adapter.traits.typing_seconds
    if not shown:
        raise NotOffered("the platform has no such sign")
    await harness.obeying(lambda: adapter.show_typing(Route(place)))
    await harness.until(lambda: harness.platform.is_typing(place), "the sign is not shown")
    require(not harness.platform.is_typing(other), "the sign is shown in another chat")
    await harness.obeying(lambda: adapter.stop_typing(Route(place)))
    await harness.until(lambda: not harness.platform.is_typing(place), "the sign is still shown", more=shown)


@adapter_check("history", "The messages before one come oldest first, and no more than asked for")
async def history(harness: AdapterHarness) -> None:
    adapter, place = await harness.adapter(), await harness.platform.group(["ada"])
    if not adapter.traits.has_history:
        found = await adapter.history(place, "", 10)
        require(not found, "it says that it has no history, and returns one")
        raise NotOffered("the platform has no history")
    said = [await harness.platform.say(place, "ada", f"said {number}") for number in range(6)]
    found = await harness.obeying(lambda: adapter.history(place, said[5], 3))
    texts = [each.text for each in found]
    require(texts == ["said 2", "said 3", "said 4"], f"the 3 messages before the last are {texts}")


@adapter_check(
    "close", "It ends at once, also while it receives; twice is harmless; no task or connection stays"
)
async def close(harness: AdapterHarness) -> None:
    await _lifetime(harness, "warm-up")  # what a library keeps for the whole process is open from here on
    tasks, files = asyncio.all_tasks(), _open_files()
    await _lifetime(harness, "measured")
    await harness.until(lambda: not _left(tasks), "tasks are left")
    await harness.until(lambda: _open_files() <= files, "connections or files are left open")


async def _lifetime(harness: AdapterHarness, word: str) -> None:
    adapter, place = await harness.adapter(), await harness.platform.direct("ada")
    listener = await harness.listen(adapter=adapter)
    await harness.platform.say(place, "ada", word)
    await harness.heard(listener, word)
    await harness.send(adapter, Route(place), Outgoing("an answer"), f"key-{word}")
    closing = asyncio.gather(adapter.close(), return_exceptions=True)
    await harness.until(closing.done, "close() did not end")
    failed = [*closing.result(), await outcome(adapter.close())]
    require(not any(failed), f"close() raised {failed}")
    await listener.stop()


def _left(before: set[asyncio.Task[object]]) -> set[asyncio.Task[object]]:
    return {each for each in asyncio.all_tasks() - before if not each.done()}


def _open_files() -> int:
    return int(psutil.Process().num_fds())


def _bytes_of(file: Path) -> bytes:
    return file.read_bytes()


def _file_of(file: Path, content: bytes, size: int | None = None) -> Path:
    file.write_bytes(content)
    if size is not None:
        os.truncate(file, size)
    return file


CHECKS = (buttons, buttons_removed, files_received, files_sent, typing, history, close)
