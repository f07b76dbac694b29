"""Does recall answer what it is asked, for whom it is asked, and leave the rest alone."""

import threading

from holdfast.testing.provider_stand import Stand, check, sentence


@check("recall", "What was told in one session is recalled in another")
def test_recall(stand: Stand) -> None:
    memory = stand.manager()
    stand.say(memory, "lighthouse")
    stand.deliver(memory)
    stand.until(
        lambda: "lighthouse" in memory.prefetch_all(sentence("lighthouse"), session_id="session-2"),
        stand.case.settle_seconds,
        "what was told in another session is not recalled",
    )


@check("switch", "After a session switch, what was recalled for the old one is not shown")
def test_switch(stand: Stand) -> None:
    provider = stand.case.make()
    memory = stand.manager(provider)
    for word in ("orchard", "harbour"):
        stand.say(memory, word, "session-old")
    stand.deliver(memory, "session-old")
    for word in ("orchard", "harbour"):
        stand.arrived(memory, word)
    fresh = memory.prefetch_all("What about the weather?", session_id="session-new")
    memory.queue_prefetch_all(sentence("orchard"), session_id="session-old")
    memory.on_session_switch("session-new", parent_session_id="session-old", reset=True)
    assert memory.flush_pending(stand.patience), "the switch did not come to an end"
    shown = memory.prefetch_all("What about the weather?", session_id="session-new")
    assert "orchard" not in shown or "orchard" in fresh, "a recall for the old session is shown in the new"
    stand.say(memory, "newground", "session-new")
    stand.deliver(memory, "session-new")
    stand.arrived(memory, "newground")


@check("isolation", "Recalls at the same time get each its own answer")
def test_isolation(stand: Stand) -> None:
    provider = stand.case.make()
    memory = stand.manager(provider, recall=20.0)
    words = ("applewood", "birchwood", "cedarwood", "elderwood")
    for word in words:
        stand.say(memory, word, f"session-{word}")
    for word in words:
        stand.deliver(memory, f"session-{word}")
        stand.arrived(memory, word)
    answers: dict[str, str] = {}

    def ask(word: str, other: str) -> None:
        memory.queue_prefetch_all(sentence(other), session_id=f"asking-{other}")
        answers[word] = memory.prefetch_all(sentence(word), session_id=f"asking-{word}")

    pairs = zip(words, words[::-1], strict=True)
    asking = [threading.Thread(target=ask, args=pair, daemon=True) for pair in pairs]
    for each in asking:
        each.start()
    for each in asking:
        each.join(stand.patience)
    wrong = [word for word in words if word not in answers.get(word, "")]
    assert not wrong, f"asked for {wrong[0]}, answered {answers.get(wrong[0], 'nothing')!r:.200}"


@check("recall while down", "While the backend is down, a turn goes on without recall, soon")
def test_recall_while_down(stand: Stand) -> None:
    memory = stand.manager(recall=2.0)
    stand.say(memory, "beacon")
    stand.deliver(memory)
    stand.set_health("down")
    began = stand.clock.monotonic()
    memory.prefetch_all(sentence("beacon"), session_id="session-3")
    took = stand.clock.monotonic() - began
    assert took < 2.0 * 2, f"a recall with a deadline of 2 s held up the turn for {took:.1f} s"
    stand.set_health("well")
    stand.until(
        lambda: "beacon" in memory.prefetch_all(sentence("beacon"), session_id="session-4"),
        stand.case.settle_seconds + 10,
        "once the backend is back, recall is not",
    )
