"""Checks what an adapter receives: everything, once, in order, also after an absence."""

from contextlib import aclosing

from holdfast.gateway.contract import Outgoing, Route
from holdfast.testing.adapter_harness import AdapterHarness, adapter_check
from holdfast.testing.provider_harness import require

MISSED = 25
"""More than fits into one page of most platforms' answers that the suite can afford."""


@adapter_check("sign-in", "It says which account it is signed in with, and asks for what it needs")
async def sign_in(harness: AdapterHarness) -> None:
    first, second = await harness.adapter(), await harness.adapter()
    one, other = await first.connect(), await second.connect()
    require(bool(one.id) and bool(one.name), "the identity has no id or no name")
    require(one.id == other.id, "two sign-ins have two ids")
    traits = first.traits
    require(traits.max_size > 0 and first.measure("x") > 0, "max_size and measure are not above 0")
    require(first.measure("x" * 50) >= first.measure("x" * 10), "a longer text measures less")
    require(
        traits.chat_seconds >= 0 and traits.account_per_second > 0, "the rates of the traits make no sense"
    )
    require(
        traits.repeat != "placeholder" or traits.can_edit, "a placeholder needs messages that can be edited"
    )


@adapter_check("first start", "Without cursors nothing of the past is received, and then what is said")
async def first_start(harness: AdapterHarness) -> None:
    place = await harness.platform.direct("ada")
    await harness.platform.say(place, "ada", "said before the first start")
    listener = await harness.listen()
    await harness.platform.say(place, "ada", "said after it")
    await harness.heard(listener, "said after it")
    require(listener.texts == ["said after it"], f"received {listener.texts}")


@adapter_check("order", "The messages of each chat come once and in their order")
async def order(harness: AdapterHarness) -> None:
    ada, bob = await harness.platform.direct("ada"), await harness.platform.direct("bob")
    listener = await harness.listen()
    for number in range(8):
        await harness.platform.say(ada, "ada", f"ada {number}")
        await harness.platform.say(bob, "bob", f"bob {number}")
    await harness.heard(listener, "ada 7")
    await harness.heard(listener, "bob 7")
    for place, name in ((ada, "ada"), (bob, "bob")):
        texts = [each.text for each in listener.events if each.place.chat == place.chat]
        require(texts == [f"{name} {number}" for number in range(8)], f"received as {texts}")


@adapter_check(
    "people", "A sender has a stable id, a name and no mark of a bot; each event of a chat its own id"
)
async def people(harness: AdapterHarness) -> None:
    ada, bob = await harness.platform.direct("ada"), await harness.platform.direct("bob")
    listener = await harness.listen()
    said = await harness.platform.say(ada, "ada", "one")
    await harness.platform.say(bob, "bob", "two")
    await harness.platform.say(ada, "ada", "three")
    one, two, three = [await harness.heard(listener, text) for text in ("one", "two", "three")]
    require(one.sender.id == three.sender.id, "a person has two ids")
    require(one.sender.id != two.sender.id, "two people have one id")
    require(bool(one.sender.name), "the sender has no name")
    require(not one.sender.is_bot, "a person is marked as a bot")
    require(one.id != three.id, "two events of a chat have one id")
    require(one.message_id == said, f"message_id is {one.message_id!r}, the platform says {said!r}")
    require(one.sent > 10**15, "`sent` is not in microseconds since the epoch")


@adapter_check("flags", "Direct chats, mentions and answers to the bot are marked, the mention is taken out")
async def flags(harness: AdapterHarness) -> None:
    direct, group = await harness.platform.direct("ada"), await harness.platform.group(["ada", "bob"])
    adapter = await harness.adapter()
    listener = await harness.listen(adapter=adapter)
    sent = await harness.send(adapter, Route(group), Outgoing("a question"), "key-flags")
    await harness.platform.say(direct, "ada", "in private")
    await harness.platform.say(group, "ada", "among us")
    await harness.platform.say(group, "bob", "what about you", mention=True)
    await harness.platform.say(group, "ada", "an answer", reply_to=sent)
    private = await harness.heard(listener, "in private")
    among, mention, answer = [
        await harness.heard(listener, text) for text in ("among us", "what about you", "an answer")
    ]
    require(private.is_direct, "a direct chat is not marked")
    require(not any(each.is_direct for each in (among, mention, answer)), "a group is marked as direct")
    require(mention.is_mention, "a mention of the bot is not marked")
    require(answer.is_mention, "an answer to the bot is not marked as meant for it")
    require(answer.reply_to == sent, f"reply_to is {answer.reply_to!r}, not {sent!r}")
    require(not among.is_mention, "a message that is not for the bot is marked as a mention")


@adapter_check("own messages", "What the bot itself says is not received as a person's message")
async def own_messages(harness: AdapterHarness) -> None:
    place = await harness.platform.direct("ada")
    adapter = await harness.adapter()
    listener = await harness.listen(adapter=adapter)
    await harness.send(adapter, Route(place), Outgoing("from the bot"), "key-own")
    await harness.platform.say(place, "ada", "from ada")
    await harness.heard(listener, "from ada")
    require("from the bot" not in listener.texts, "the bot receives its own message as a person's")


@adapter_check("bots", "Another bot is marked as one")
async def bots(harness: AdapterHarness) -> None:
    place = await harness.platform.group(["ada"])
    listener = await harness.listen()
    await harness.bot_says(place, "weather", "from a bot")
    await harness.platform.say(place, "ada", "from ada")
    await harness.heard(listener, "from ada")
    wrong = [each for each in listener.events if each.text == "from a bot" and not each.sender.is_bot]
    require(not wrong, "a bot's message is received as a person's")


@adapter_check("catch-up", "What was said during an absence comes once and in order, then what is said now")
async def catch_up(harness: AdapterHarness) -> None:
    ada, bob = await harness.platform.direct("ada"), await harness.platform.direct("bob")
    cursors: dict[str, str] = {}
    before = await harness.listen(cursors)
    for place, name in ((ada, "ada"), (bob, "bob")):
        await harness.platform.say(place, name, f"{name} before")
        await harness.heard(before, f"{name} before")
    await before.stop()
    for number in range(MISSED):
        await harness.platform.say(ada, "ada", f"ada {number}")
        await harness.platform.say(bob, "bob", f"bob {number}")
    after = await harness.listen(cursors)
    missed = after.missed or []
    await harness.platform.say(ada, "ada", "ada now")
    await harness.heard(after, "ada now")
    require(
        len(missed) == 2 * MISSED, f"{len(missed)} of {2 * MISSED} came before it said that it had caught up"
    )
    for name in ("ada", "bob"):
        texts = [text for text in after.texts if text.startswith(name) and text != "ada now"]
        require(texts == [f"{name} {number}" for number in range(MISSED)], f"received as {texts}")


@adapter_check("held back", "What is said during the catch-up comes behind what was missed")
async def held_back(harness: AdapterHarness) -> None:
    place = await harness.platform.direct("ada")
    cursors: dict[str, str] = {}
    before = await harness.listen(cursors)
    await harness.platform.say(place, "ada", "before")
    await harness.heard(before, "before")
    await before.stop()
    for number in range(MISSED):
        await harness.platform.say(place, "ada", f"missed {number}")
    adapter, texts = await harness.adapter(), []
    async with aclosing(adapter.receive(dict(cursors))) as batches:
        first = await anext(batches)
        texts += [each.text for each in first.events]
        await first.acknowledge()
        await harness.platform.say(place, "ada", "live")
        while "live" not in texts:
            batch = await anext(batches)
            texts += [each.text for each in batch.events]
            await batch.acknowledge()
    expected = [*(f"missed {number}" for number in range(MISSED)), "live"]
    require(list(dict.fromkeys(texts)) == expected, f"received as {texts}")


@adapter_check("not stored", "What was received but neither stored nor acknowledged comes again with its id")
async def not_stored(harness: AdapterHarness) -> None:
    place = await harness.platform.direct("ada")
    cursors: dict[str, str] = {}
    before = await harness.listen(cursors)
    await harness.platform.say(place, "ada", "stored")
    await harness.heard(before, "stored")
    await before.stop()
    crashing = await harness.listen(cursors, acknowledges=False)
    await harness.platform.say(place, "ada", "not stored")
    lost = await harness.heard(crashing, "not stored")
    await crashing.stop()
    after = await harness.listen(cursors)
    again = await harness.heard(after, "not stored")
    require(again.id == lost.id, f"it comes again as {again.id!r}, it was {lost.id!r}")


@adapter_check("cursors", "What was stored and acknowledged does not come again after a restart")
async def cursors_kept(harness: AdapterHarness) -> None:
    place = await harness.platform.direct("ada")
    cursors: dict[str, str] = {}
    before = await harness.listen(cursors)
    for number in range(3):
        await harness.platform.say(place, "ada", f"stored {number}")
    await harness.heard(before, "stored 2")
    await before.stop()
    require(bool(cursors), "no batch had a cursor")
    after = await harness.listen(cursors)
    await harness.platform.say(place, "ada", "after the restart")
    await harness.heard(after, "after the restart")
    require(after.texts == ["after the restart"], f"after the restart it received {after.texts}")


@adapter_check("delivered again", "An event that the platform delivers again has the same id")
async def delivered_again(harness: AdapterHarness) -> None:
    place = await harness.platform.direct("ada")
    listener = await harness.listen()
    for text in ("one", "two"):
        await harness.platform.say(place, "ada", text)
        await harness.heard(listener, text)
    ids = {each.text: (each.id, each.message_id) for each in listener.events}
    await harness.platform.deliver_again()
    await harness.platform.say(place, "ada", "three")
    await harness.heard(listener, "three")
    for each in listener.events:
        expected = ids.setdefault(each.text, (each.id, each.message_id))
        require(
            (each.id, each.message_id) == expected, f"{each.text!r} came as {expected[0]!r} and {each.id!r}"
        )


@adapter_check(
    "kicked", "A broken connection is `Unreachable` or mended, and nothing is lost or doubled by it"
)
async def kicked(harness: AdapterHarness) -> None:
    place = await harness.platform.direct("ada")
    listener = await harness.listen()
    await harness.platform.say(place, "ada", "before")
    await harness.heard(listener, "before")
    await harness.platform.kick()
    for number in range(3):
        await harness.platform.say(place, "ada", f"after {number}")
    await harness.heard(listener, "after 2")
    ids = list(dict.fromkeys(each.id for each in listener.events))
    require(len(ids) == len(("before", 0, 1, 2)), f"received {listener.texts}")
    texts = list(dict.fromkeys(listener.texts))
    require(texts == ["before", "after 0", "after 1", "after 2"], f"received as {listener.texts}")


CHECKS = (
    sign_in,
    first_start,
    order,
    people,
    flags,
    own_messages,
    bots,
    catch_up,
    held_back,
    not_stored,
    cursors_kept,
    delivered_again,
    kicked,
)
