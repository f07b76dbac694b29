"""Checks that recall answers the question, for the right session, and nothing else."""

import threading

from holdfast.memory.contract import RECALL_TOKENS
from holdfast.testing.provider_harness import ProviderHarness, check, sentence


@check("recall", "A fact from one session is recalled in another")
def test_recall(harness: ProviderHarness) -> None:
    memory = harness.manager()
    harness.say(memory, "lighthouse")
    harness.deliver(memory)
    harness.until(
        lambda: "lighthouse" in memory.prefetch_all(sentence("lighthouse"), session_id="session-2"),
        harness.case.settle_seconds,
        "a fact from another session is not recalled",
    )
    [recalled] = memory.recall_all(sentence("lighthouse"), session_id="session-3")
    assert not recalled.cut, f"a recall is cut at {RECALL_TOKENS} tokens: return the best, not all"


@check("switch", "After a session switch, what was recalled for the old one is not shown")
def test_switch(harness: ProviderHarness) -> None:
    provider = harness.case.make()
    memory = harness.manager(provider)
    for word in ("orchard", "harbour"):
        harness.say(memory, word, "session-old")
    harness.deliver(memory, "session-old")
    for word in ("orchard", "harbour"):
        harness.arrived(memory, word)
    fresh = memory.prefetch_all("What about the weather?", session_id="session-new")
    memory.queue_prefetch_all(sentence("orchard"), session_id="session-old")
    memory.on_session_switch("session-new", parent_session_id="session-old", reset=True)
    assert memory.flush_pending(harness.patience), "the switch did not come to an end"
    shown = memory.prefetch_all("What about the weather?", session_id="session-new")
    assert "orchard" not in shown or "orchard" in fresh, "a recall for the old session is shown in the new"
    harness.say(memory, "newground", "session-new")
    harness.deliver(memory, "session-new")
    harness.arrived(memory, "newground")


@check("isolation", "Recalls at the same time get each its own answer")
def test_isolation(harness: ProviderHarness) -> None:
    provider = harness.case.make()
    memory = harness.manager(provider, recall=20.0)
    words = ("applewood", "birchwood", "cedarwood", "elderwood")
    for word in words:
        harness.say(memory, word, f"session-{word}")
    for word in words:
        harness.deliver(memory, f"session-{word}")
        harness.arrived(memory, word)
    answers: dict[str, str] = {}

    def ask(word: str, other: str) -> None:
        memory.queue_prefetch_all(sentence(other), session_id=f"asking-{other}")
        answers[word] = memory.prefetch_all(sentence(word), session_id=f"asking-{word}")

    pairs = zip(words, words[::-1], strict=True)
    asking = [threading.Thread(target=ask, args=pair, daemon=True) for pair in pairs]
    for each in asking:
        each.start()
    for each in asking:
        each.join(harness.patience)
    wrong = [word for word in words if word not in answers.get(word, "")]
    assert not wrong, f"asked for {wrong[0]}, answered {answers.get(wrong[0], 'nothing')!r:.200}"


@check("recall while down", "While the backend is down, a turn goes on without recall, soon")
def test_recall_while_down(harness: ProviderHarness) -> None:
    memory = harness.manager(recall=2.0)
    harness.say(memory, "beacon")
    harness.deliver(memory)
    harness.set_health("down")
    began = harness.clock.monotonic()
    memory.prefetch_all(sentence("beacon"), session_id="session-3")
    took = harness.clock.monotonic() - began
    assert took < 2.0 * 2, f"a recall with a deadline of 2 s held up the turn for {took:.1f} s"
    harness.set_health("well")
    harness.until(
        lambda: "beacon" in memory.prefetch_all(sentence("beacon"), session_id="session-4"),
        harness.case.settle_seconds + 10,
        "once the backend is back, recall is not",
    )
