"""Checks that turns arrive: once, in order, after failures, and with any text."""

from itertools import count

import pytest

from holdfast.memory.forgetting import ForgetsSelected
from holdfast.testing.provider_harness import InterceptedProvider, ProviderHarness, check, sentence

WORDS = [f"placename{number:02}" for number in range(12)]
AT_ONCE = 0.25
"""The time limit for `sync_all`: it waits for the store's fsync, never for a provider."""


@check("stored", "A turn that was delivered can be found")
def test_stored(harness: ProviderHarness) -> None:
    memory = harness.manager()
    harness.say(memory, "evergreen")
    harness.deliver(memory)
    harness.arrived(memory, "evergreen")


@check("order", "Turns of a session are kept in their order, also when one fails in between")
def test_order(harness: ProviderHarness) -> None:
    harness.case.stored()
    calls = count()

    def fail_once() -> None:
        if next(calls) == 1:
            raise ConnectionError("the suite lets this delivery fail")

    memory = harness.manager(InterceptedProvider(harness.case.make(), before=fail_once))  # type: ignore[arg-type]
    for word in WORDS:
        harness.say(memory, word)
        harness.say(memory, f"other{word}", "session-2")
    harness.deliver(memory)
    for word in WORDS:
        harness.arrived(memory, word)
    kept = [word for text in harness.case.stored() for word in WORDS if f"called {word}" in text]
    assert list(dict.fromkeys(kept)) == WORDS, f"kept as {kept}"


@check("duplicates", "A turn delivered again is kept once")
def test_duplicates(harness: ProviderHarness) -> None:
    calls = count()

    def lose_the_answer() -> None:
        if next(calls) < len(("first", "second")):
            raise ConnectionError("stored, and the suite lost the answer")

    memory = harness.manager(InterceptedProvider(harness.case.make(), after=lose_the_answer))  # type: ignore[arg-type]
    harness.say(memory, "heatherfield")
    harness.deliver(memory)
    harness.once(memory, "heatherfield")


@check("same words", "Two turns with the same words are both kept, and are not taken for one")
def test_same_words(harness: ProviderHarness) -> None:
    harness.case.stored()
    memory = harness.manager()
    for _ in range(2):
        harness.say(memory, "twicetold")
    harness.deliver(memory)
    harness.arrived(memory, "twicetold")
    copies = harness.copies(memory, "twicetold")
    assert copies == len(("one", "other")), f"two turns were delivered, {copies} are kept"


@check("retry", "A failed write is raised, not swallowed, and arrives when the backend is back")
def test_retry(harness: ProviderHarness) -> None:
    memory = harness.manager()
    harness.say(memory, "beforehand")
    harness.deliver(memory)
    harness.set_health("down")
    harness.say(memory, "meanwhile")
    harness.until(
        lambda: bool(memory.status()[0].last_error), harness.patience, "a failed write raised nothing"
    )
    assert memory.status()[0].owed == 1, "a turn that failed counts as delivered: it is lost"
    harness.set_health("well")
    harness.deliver(memory)
    harness.once(memory, "beforehand", "meanwhile")


@check("unicode", "Text in any script, with any character, arrives")
def test_unicode(harness: ProviderHarness) -> None:
    memory = harness.manager()
    for word in ("żółwikowo", "мореград", "東京駅前", "🦉eulennest"):
        harness.say(memory, word)
    strange = "line\nbreak\ttab \u202eright to left\u202c e\u0301 \ufeff \x00 \x1b[31m <b> ]]> ' \" \\ % {}"
    memory.sync_all(f"{sentence('strangeland')} {strange}", strange, session_id="session-1")
    memory.sync_all("", "", session_id="session-1")
    harness.say(memory, "aftermath")
    harness.deliver(memory)
    for word in ("żółwikowo", "мореград", "strangeland", "aftermath"):
        harness.arrived(memory, word)
    assert not memory.status()[0].set_aside, f"set aside: {memory.status()[0].last_error}"


@check("size", "A turn of a million characters is kept or refused by name, and holds up no other")
def test_size(harness: ProviderHarness) -> None:
    memory = harness.manager()
    memory.sync_all(sentence("hugeland") + " far and wide" * 77_000, "Long indeed.", session_id="session-1")
    harness.say(memory, "smallville")
    harness.deliver(memory)
    harness.arrived(memory, "smallville")
    if not memory.status()[0].set_aside:
        harness.arrived(memory, "hugeland")


@check("slow", "While the backend is slow, turns are handed over at once and all arrive")
def test_slow(harness: ProviderHarness) -> None:
    memory = harness.manager()
    harness.say(memory, "warmup")
    harness.deliver(memory)
    harness.set_health("slow")
    began = harness.clock.monotonic()
    for word in WORDS[:4]:
        harness.say(memory, word)
        memory.queue_prefetch_all(sentence(word), session_id="session-1")
    took = harness.clock.monotonic() - began
    assert took < 4 * AT_ONCE, f"four turns took {took:.2f} s to hand over"
    harness.deliver(memory)
    harness.set_health("well")
    harness.once(memory, *WORDS[:4])


@check("forget", "A forgotten conversation is gone from the backend, asked once or twice")
def test_forget(harness: ProviderHarness) -> None:
    provider = harness.case.make()
    if not isinstance(provider, ForgetsSelected):
        pytest.skip("the provider has no forget_selected; people are told that it can't forget")
    memory = harness.manager(provider)
    harness.say(memory, "quicksand", "session-gone")
    harness.say(memory, "bedrock", "session-kept")
    for session in ("session-gone", "session-kept"):
        harness.deliver(memory, session)
    for word in ("quicksand", "bedrock"):
        harness.arrived(memory, word)
    for key in ("once", "twice"):
        forgetter = memory.forgetter
        number = forgetter.forget(forgetter.select.by_conversation("session-gone"), key=key)
        record = forgetter.wait(number, harness.patience)
        assert record is not None
        states = {each.state: each.note for each in record.providers}
        assert "owed" not in states, f"not forgotten in {harness.patience:g} s: {states.get('owed')}"
        assert "failed" not in states, f"it could not forget: {states.get('failed')}"
        harness.until(
            lambda: not harness.copies(memory, "quicksand"),
            harness.case.settle_seconds,
            "a forgotten conversation is still found",
        )
    assert harness.copies(memory, "bedrock"), "a conversation that was not forgotten is gone"
