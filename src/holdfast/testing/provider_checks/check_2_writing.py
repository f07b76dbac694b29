"""Does a turn arrive: once, in order, after failures, and whatever is written in it."""

from itertools import count

from holdfast.testing.provider_stand import Between, Stand, check, sentence

WORDS = [f"placename{number:02}" for number in range(12)]
AT_ONCE = 0.25
"""Seconds that handing over may take: a store's fsync, never a provider."""


@check("stored", "A turn that was delivered can be found")
def test_stored(stand: Stand) -> None:
    memory = stand.manager()
    stand.say(memory, "evergreen")
    stand.deliver(memory)
    stand.arrived(memory, "evergreen")


@check("order", "Turns of a session are kept in their order, also when one fails in between")
def test_order(stand: Stand) -> None:
    stand.case.stored()
    calls = count()

    def fail_once() -> None:
        if next(calls) == 1:
            raise ConnectionError("the suite lets this delivery fail")

    memory = stand.manager(Between(stand.case.make(), before=fail_once))  # type: ignore[arg-type]
    for word in WORDS:
        stand.say(memory, word)
        stand.say(memory, f"other{word}", "session-2")
    stand.deliver(memory)
    for word in WORDS:
        stand.arrived(memory, word)
    kept = [word for text in stand.case.stored() for word in WORDS if f"called {word}" in text]
    assert list(dict.fromkeys(kept)) == WORDS, f"kept as {kept}"


@check("duplicates", "A turn delivered again is kept once")
def test_duplicates(stand: Stand) -> None:
    calls = count()

    def lose_the_answer() -> None:
        if next(calls) < len(("first", "second")):
            raise ConnectionError("stored, and the suite lost the answer")

    memory = stand.manager(Between(stand.case.make(), after=lose_the_answer))  # type: ignore[arg-type]
    stand.say(memory, "heatherfield")
    stand.deliver(memory)
    stand.once(memory, "heatherfield")


@check("same words", "Two turns with the same words are both kept, and are not taken for one")
def test_same_words(stand: Stand) -> None:
    stand.case.stored()
    memory = stand.manager()
    for _ in range(2):
        stand.say(memory, "twicetold")
    stand.deliver(memory)
    stand.arrived(memory, "twicetold")
    copies = stand.copies(memory, "twicetold")
    assert copies == len(("one", "other")), f"two turns were delivered, {copies} are kept"


@check("retry", "A failed write is raised, not swallowed, and arrives when the backend is back")
def test_retry(stand: Stand) -> None:
    memory = stand.manager()
    stand.say(memory, "beforehand")
    stand.deliver(memory)
    stand.set_health("down")
    stand.say(memory, "meanwhile")
    stand.until(lambda: bool(memory.status()[0].last_error), stand.patience, "a failed write raised nothing")
    assert memory.status()[0].owed == 1, "a turn that failed counts as delivered: it is lost"
    stand.set_health("well")
    stand.deliver(memory)
    stand.once(memory, "beforehand", "meanwhile")


@check("unicode", "Text in any script, with any character, arrives")
def test_unicode(stand: Stand) -> None:
    memory = stand.manager()
    for word in ("żółwikowo", "мореград", "東京駅前", "🦉eulennest"):
        stand.say(memory, word)
    strange = "line\nbreak\ttab \u202eright to left\u202c e\u0301 \ufeff \x00 \x1b[31m <b> ]]> ' \" \\ % {}"
    memory.sync_all(f"{sentence('strangeland')} {strange}", strange, session_id="session-1")
    memory.sync_all("", "", session_id="session-1")
    stand.say(memory, "aftermath")
    stand.deliver(memory)
    for word in ("żółwikowo", "мореград", "strangeland", "aftermath"):
        stand.arrived(memory, word)
    assert not memory.status()[0].set_aside, f"set aside: {memory.status()[0].last_error}"


@check("size", "A turn of a million characters is kept or refused by name, and holds up no other")
def test_size(stand: Stand) -> None:
    memory = stand.manager()
    memory.sync_all(sentence("hugeland") + " far and wide" * 77_000, "Long indeed.", session_id="session-1")
    stand.say(memory, "smallville")
    stand.deliver(memory)
    stand.arrived(memory, "smallville")
    if not memory.status()[0].set_aside:
        stand.arrived(memory, "hugeland")


@check("slow", "While the backend is slow, turns are handed over at once and all arrive")
def test_slow(stand: Stand) -> None:
    memory = stand.manager()
    stand.say(memory, "warmup")
    stand.deliver(memory)
    stand.set_health("slow")
    began = stand.clock.monotonic()
    for word in WORDS[:4]:
        stand.say(memory, word)
        memory.queue_prefetch_all(sentence(word), session_id="session-1")
    took = stand.clock.monotonic() - began
    assert took < 4 * AT_ONCE, f"four turns took {took:.2f} s to hand over"
    stand.deliver(memory)
    stand.set_health("well")
    stand.once(memory, *WORDS[:4])
