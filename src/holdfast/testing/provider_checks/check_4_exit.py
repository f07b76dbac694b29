"""Checks that a provider ends: during a write, with a backend that hangs, after a crash, at any moment."""

import random
import signal
import threading
from contextlib import suppress

from holdfast.testing.provider_harness import CLAIM_SECONDS, ProviderHarness, check, sentence

WORDS = [f"farmstead{number:02}" for number in range(20)]
PROVIDER_BUDGET = 10.0
"""The time limit in seconds for a provider's `shutdown`."""
COMPLAINTS = (
    "Traceback",
    "cannot schedule new futures",
    "Unclosed",
    "unclosed",
    "never awaited",
    "Exception ignored",
    "Fatal Python error",
    "was destroyed but it is pending",
)


def threads() -> set[threading.Thread]:
    return {each for each in threading.enumerate() if each.is_alive()}


@check("one writer", "Writing starts no thread for each call")
def test_one_writer(harness: ProviderHarness) -> None:
    memory = harness.manager()
    harness.say(memory, "first")
    harness.deliver(memory)
    memory.prefetch_all(sentence("first"), session_id="session-1")
    before = len(threads())
    most = 0
    # Each turn is delivered before the next one, because several might be one call.
    for word in WORDS[:8]:
        harness.say(memory, word)
        memory.queue_prefetch_all(sentence(word), session_id="session-1")
        harness.all_delivered(memory)
        most = max(most, len(threads()))
    harness.deliver(memory)
    assert most <= before + 2, f"{most - before} more threads after {len(WORDS[:8])} turns"


@check("closed", "After shutdown it takes nothing; a second one is harmless; no thread is left")
def test_closed(harness: ProviderHarness) -> None:
    before = threads()
    provider = harness.case.make()
    memory = harness.manager(provider)
    harness.say(memory, "lastorders")
    harness.deliver(memory)
    memory.shutdown_all()
    harness.until(
        lambda: not threads() - before,
        PROVIDER_BUDGET,
        f"threads are left: {sorted(each.name for each in threads() - before)}",
    )
    provider.shutdown()
    with suppress(Exception):  # it may refuse by an error as well
        provider.sync_turn(sentence("toolate"), "no", session_id="session-1")
    provider.queue_prefetch(sentence("toolate"), session_id="session-1")
    started = [each.name for each in threads() - before]
    assert not started, f"a call after shutdown started {started}"
    again = harness.manager()
    harness.arrived(again, "lastorders")
    assert harness.copies(again, "toolate") == 0, "a turn handed over after shutdown was sent"


@check("mid-write", "A shutdown in mid-write is bounded; what was not written is delivered later")
def test_mid_write(harness: ProviderHarness) -> None:
    memory = harness.manager(drain=0.2)
    for word in WORDS:
        harness.say(memory, word)
    began = harness.clock.monotonic()
    memory.shutdown_all()
    took = harness.clock.monotonic() - began
    assert took < PROVIDER_BUDGET, f"shutdown took {took:.1f} s"
    again = harness.manager()
    harness.all_delivered(again)
    harness.deliver(again, "session-1")
    harness.once(again, *WORDS)


@check("wedged", "With a backend that never answers, turns go on without recall, and it ends")
def test_wedged(harness: ProviderHarness) -> None:
    provider = harness.case.make()
    memory = harness.manager(provider, drain=1.0, recall=0.5)
    harness.say(memory, "solidground")
    harness.deliver(memory)
    harness.set_health("wedged")
    began = harness.clock.monotonic()
    harness.say(memory, "quicksand")
    memory.prefetch_all(sentence("solidground"), session_id="session-2")
    assert harness.clock.monotonic() - began < PROVIDER_BUDGET / 2, "a turn waited for the wedged backend"
    began = harness.clock.monotonic()
    memory.shutdown_all()
    assert harness.clock.monotonic() - began < PROVIDER_BUDGET / 2, "shutdown waited for the wedged backend"
    ending = threading.Thread(target=provider.shutdown, daemon=True)
    ending.start()
    ending.join(PROVIDER_BUDGET + 2)
    assert not ending.is_alive(), f"the provider's shutdown did not end in {PROVIDER_BUDGET:g} s"
    harness.set_health("well")
    again = harness.manager()
    harness.all_delivered(again)
    harness.deliver(again)
    harness.arrived(again, "quicksand")


@check("crash", "Killed with SIGKILL at any moment, it loses no turn and doubles none")
def test_crash(harness: ProviderHarness) -> None:
    chance = random.Random(4)  # noqa: S311 - a schedule, no secret
    words = [f"stronghold{number:02}" for number in range(9)]
    first = harness.child("die_unacknowledged", "unheardof")
    output, complaints = first.communicate(timeout=harness.patience)
    assert "taken" in output, f"the first child did not deliver: {complaints[-500:]}"
    for start in range(0, len(words), 3):
        child = harness.child("be_killed", ",".join(words[start : start + 3]))
        assert child.stdout is not None
        for _ in range(3):
            output = child.stdout.readline()
            assert output, f"a child ended early: {child.communicate()[1][-500:]}"
        harness.clock.wait(threading.Event(), chance.uniform(0.0, 0.3))
        child.send_signal(signal.SIGKILL)
        child.communicate()
    last = harness.child("drain", CLAIM_SECONDS + harness.patience)
    output, complaints = last.communicate(timeout=CLAIM_SECONDS + 2 * harness.patience)
    assert output.strip() == "drained", f"after the restart: {output.strip()} {complaints[-500:]}"
    memory = harness.manager()
    for session in ("session-0", "session-1"):
        harness.deliver(memory, session)
    harness.once(memory, "unheardof", *words)


@check("exit", "A program that ends at any moment ends soon and without complaints")
def test_exit(harness: ProviderHarness) -> None:
    words = []
    chance = random.Random()  # noqa: S311 - a schedule, no secret; another one in each run
    for number, ending in enumerate(("sys.exit", "end of main", "ctrl-c", "shutdown", "sys.exit")):
        fresh = [f"cottage{number}{letter}" for letter in "abcd"]
        words += fresh
        delay = chance.uniform(0.0, 2.0) if number else 0.0
        child = harness.child("leave", ",".join(fresh), ending, delay)
        _, complaints = child.communicate(timeout=harness.patience)
        assert child.returncode in (0, 130), f"{ending}: exit code {child.returncode}: {complaints[-500:]}"
        found = [line for line in complaints.splitlines() if any(each in line for each in COMPLAINTS)]
        last = complaints.strip().rpartition("\n")[2]
        assert not found, f"{ending} after {delay:.3f} s: {found[0].strip()} … {last}"
    memory = harness.manager()
    harness.all_delivered(memory)
    for session in ("session-0", "session-1"):
        harness.deliver(memory, session)
    harness.once(memory, *words)
