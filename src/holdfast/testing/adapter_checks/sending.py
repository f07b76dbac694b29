"""Checks what an adapter sends: where it should go, once, and with the right error when it fails."""

from holdfast.gateway.contract import (
    Adapter,
    Command,
    NotTaken,
    Outgoing,
    Place,
    Route,
    SendRefused,
    SlowDown,
    Unreachable,
)
from holdfast.gateway.splitter import split
from holdfast.testing.adapter_harness import AdapterHarness, adapter_check, outcome
from holdfast.testing.chat_platform import Fault
from holdfast.testing.provider_case import NotOffered
from holdfast.testing.provider_harness import require

PARTS = 3


@adapter_check("send", "A message arrives under the id that `send` returns, and two with two keys are two")
async def send(harness: AdapterHarness) -> None:
    adapter, place = await harness.adapter(), await harness.platform.direct("ada")
    first = await harness.send(adapter, Route(place), Outgoing("the same words"), "key-1")
    second = await harness.send(adapter, Route(place), Outgoing("the same words"), "key-2")
    seen = await harness.until_seen(place, lambda all_: len(all_) >= len((first, second)), "not both arrived")
    require([each.id for each in seen] == [first, second], "the ids of send() are not those of the messages")
    require([each.text for each in seen] == ["the same words"] * 2, f"seen: {[each.text for each in seen]}")


@adapter_check("size", "A text that fits by `measure` is taken whole")
async def size(harness: AdapterHarness) -> None:
    adapter, place = await harness.adapter(), await harness.platform.direct("ada")
    words = [f"word{number}" for number in range(PARTS * adapter.traits.max_size // 6)]
    parts = split(" ".join(words), adapter.measure, adapter.traits.max_size)[:PARTS]
    for number, part in enumerate(parts):
        await harness.send(adapter, Route(place), Outgoing(part), f"key-{number}")
    seen = await harness.until_seen(place, lambda all_: len(all_) == len(parts), "not every part arrived")
    for part, message in zip(parts, seen, strict=True):
        require(
            message.text.split() == part.split(), f"a part of {len(part)} characters did not arrive whole"
        )


@adapter_check("replies", "A message answers the one that its route names")
async def replies(harness: AdapterHarness) -> None:
    adapter, place = await harness.adapter(), await harness.platform.group(["ada"])
    said = await harness.platform.say(place, "ada", "a question")
    await harness.send(adapter, Route(place, reply_to=said), Outgoing("an answer"), "key-1")
    [seen] = await harness.until_seen(place, bool, "the answer did not arrive")
    require(seen.reply_to == said, f"it answers {seen.reply_to!r}, not {said!r}")


@adapter_check("threads", "A message in a thread is received from it, and sent into it")
async def threads(harness: AdapterHarness) -> None:
    place = await harness.platform.group(["ada"])
    thread, other = await harness.thread(place), await harness.thread(place)
    adapter = await harness.adapter()
    listener = await harness.listen(adapter=adapter)
    await harness.platform.say(thread, "ada", "in the thread")
    heard = await harness.heard(listener, "in the thread")
    require(heard.place == thread, f"received from {heard.place}, not {thread}")
    await harness.send(adapter, Route(heard.place), Outgoing("an answer"), "key-1")
    [seen] = await harness.until_seen(thread, bool, "the answer is not in the thread")
    require(seen.thread == thread.thread, f"the answer is in thread {seen.thread!r}")
    require(not await harness.seen(other), "the answer is in another thread")


@adapter_check("edit", "An edit replaces the message, and the same edit again is a success")
async def edit(harness: AdapterHarness) -> None:
    adapter, place = await _editing(harness), await harness.platform.direct("ada")
    sent = await harness.send(adapter, Route(place), Outgoing("a preview"), "key-1")
    for _ in range(2):
        failed = await outcome(_edit(harness, adapter, place, sent, "the answer"))
        require(failed is None, f"an edit raised {failed!r}")
    seen = await harness.until_seen(place, lambda all_: all_[-1].text == "the answer", "the edit is not seen")
    require([each.id for each in seen] == [sent], "the edit made another message")


@adapter_check("delete", "A message is deleted, and deleting it again is a success")
async def delete(harness: AdapterHarness) -> None:
    adapter, place = await harness.adapter(), await harness.platform.direct("ada")
    sent = await harness.send(adapter, Route(place), Outgoing("a slip"), "key-1")
    for _ in range(2):
        failed = await outcome(harness.obeying(lambda: adapter.delete(Route(place), sent)))
        require(failed is None, f"delete() raised {failed!r}")
    await harness.until_seen(place, lambda all_: not all_, "it is still there")


@adapter_check("react", "A reaction is put on a message, and the same again is a success")
async def react(harness: AdapterHarness) -> None:
    adapter, place = await harness.adapter(), await harness.platform.direct("ada")
    said = await harness.platform.say(place, "ada", "hello")
    for _ in range(2):
        failed = await outcome(harness.obeying(lambda: adapter.react(Route(place), said, "👀")))
        require(failed is None, f"react() raised {failed!r}")


@adapter_check("commands", "The list of commands can be set, and set again")
async def commands(harness: AdapterHarness) -> None:
    adapter = await harness.adapter()
    for _ in range(2):
        failed = await outcome(
            harness.obeying(lambda: adapter.set_commands([Command("new", "Begin a new conversation")]))
        )
        require(failed is None, f"set_commands() raised {failed!r}")


@adapter_check(
    "repeat", "A message whose answer got lost is not doubled: by its key, by a look, or by an edit"
)
async def repeat(harness: AdapterHarness) -> None:
    adapter, place = await harness.adapter(), await harness.platform.direct("ada")
    route = Route(place)
    if adapter.traits.repeat == "placeholder":
        sent = await harness.send(adapter, route, Outgoing("…"), "key-1")
        await harness.platform.fail("drop after")
        await outcome(adapter.edit(route, sent, Outgoing("once")))
        failed = await outcome(_edit(harness, adapter, place, sent, "once"))
        require(failed is None, f"the repeated edit raised {failed!r}")
    else:
        await harness.platform.fail("drop after")
        await outcome(adapter.send(route, Outgoing("once"), "key-1"))
        [first] = await harness.until_seen(place, bool, "a message that was taken is not there")
        if adapter.traits.repeat == "look" or adapter.traits.key_seconds:
            found = await harness.obeying(lambda: adapter.find_sent(route, "key-1"))
            require(found == first.id, f"find_sent() finds {found!r}, the message is {first.id!r}")
            found = await harness.obeying(lambda: adapter.find_sent(route, "key-2"))
            require(found is None, f"find_sent() finds {found!r} for a key that was never used")
        if adapter.traits.repeat == "key":
            again = await harness.send(adapter, route, Outgoing("once"), "key-1")
            require(again == first.id, f"the repeated send returned {again!r}, the message is {first.id!r}")
    texts = [each.text for each in await harness.seen(place)]
    require(texts == ["once"], f"it is there {len(texts)} times: {texts}")


@adapter_check("repeat after a restart", "Another adapter with the same credentials repeats as well")
async def repeat_after_a_restart(harness: AdapterHarness) -> None:
    adapter, place = await harness.adapter(), await harness.platform.direct("ada")
    repeats, route = adapter.traits.repeat, Route(place)
    if repeats == "placeholder":
        raise NotOffered("a placeholder may be doubled")
    sent = await harness.send(adapter, route, Outgoing("once"), "key-1")
    await adapter.close()
    after = await harness.adapter()
    if repeats == "look":
        again = await harness.obeying(lambda: after.find_sent(route, "key-1"))
    else:
        again = await harness.send(after, route, Outgoing("once"), "key-1")
    require(again == sent, f"after the restart it is {again!r}, it was {sent!r}")
    require(len(await harness.seen(place)) == 1, "it is there twice")


@adapter_check(
    "slow down", "`SlowDown` with its seconds when the platform asks for a pause; nothing was taken"
)
async def slow_down(harness: AdapterHarness) -> None:
    for error in await _faulty(harness, "slow down", taken=False):
        require(isinstance(error, SlowDown), f"it raised {error!r}, not SlowDown")
        require(isinstance(error, SlowDown) and error.seconds > 0, "SlowDown says no time")


@adapter_check(
    "drop before", "`NotTaken` or `Unreachable` when the connection breaks before the call is taken"
)
async def drop_before(harness: AdapterHarness) -> None:
    for error in await _faulty(harness, "drop before", taken=False):
        require(isinstance(error, NotTaken | Unreachable), f"it raised {error!r}")


@adapter_check(
    "drop after", "`Unreachable` when the answer is lost: never an error that says it was not taken"
)
async def drop_after(harness: AdapterHarness) -> None:
    for error in await _faulty(harness, "drop after", taken=True):
        require(isinstance(error, Unreachable), f"it raised {error!r}, though the call may have been taken")


@adapter_check("refuse", "`SendRefused` when the platform will never take it")
async def refuse(harness: AdapterHarness) -> None:
    for error in await _faulty(harness, "refuse", taken=False):
        require(isinstance(error, SendRefused), f"it raised {error!r}, not SendRefused")


async def _faulty(harness: AdapterHarness, fault: Fault, *, taken: bool) -> list[Exception]:
    """What a send and an edit raise under this fault.

    An adapter may mend a broken connection and repeat the call by itself; it then raises nothing.
    """
    adapter, place = await harness.adapter(), await harness.platform.direct("ada")
    errors: list[Exception] = []
    await harness.platform.fail(fault)
    error = await outcome(adapter.send(Route(place), Outgoing("under a fault"), "key-fault"))
    seen = [each.text for each in await harness.seen(place)]
    succeeded = error is None
    require(seen == ["under a fault"] * (taken or succeeded), f"after the fault there is {seen}")
    require(not succeeded or fault.startswith("drop"), "a call that was refused raised nothing")
    errors += [error] if error is not None else []
    if not adapter.traits.can_edit:
        return errors
    sent = await harness.send(adapter, Route(place), Outgoing("before"), "key-edit")
    await harness.platform.fail(fault)
    error = await outcome(adapter.edit(Route(place), sent, Outgoing("after")))
    succeeded = error is None
    require(not succeeded or fault.startswith("drop"), "an edit that was refused raised nothing")
    errors += [error] if error is not None else []
    failed = await outcome(_edit(harness, adapter, place, sent, "after"))
    require(failed is None, f"after the fault an edit raised {failed!r}")
    texts = [each.text for each in await harness.seen(place) if each.id == sent]
    require(texts == ["after"], f"after the fault the message reads {texts}")
    return errors


async def _editing(harness: AdapterHarness) -> Adapter:
    adapter = await harness.adapter()
    if not adapter.traits.can_edit:
        raise NotOffered("the platform has no edits")
    return adapter


async def _edit(harness: AdapterHarness, adapter: Adapter, place: Place, message_id: str, text: str) -> None:
    await harness.obeying(lambda: adapter.edit(Route(place), message_id, Outgoing(text)))


CHECKS = (
    send,
    size,
    replies,
    threads,
    edit,
    delete,
    react,
    commands,
    repeat,
    repeat_after_a_restart,
    slow_down,
    drop_before,
    drop_after,
    refuse,
)
