"""Does it end: in mid-write, with a wedged backend, after a crash, at any moment, leaving nothing behind."""

import random
import signal
import threading
from contextlib import suppress

from holdfast.testing.provider_stand import NO_LEASE, Stand, check, sentence

WORDS = [f"farmstead{number:02}" for number in range(20)]
PROVIDER_BUDGET = 10.0
"""Seconds within which a provider's own `shutdown` must come back."""
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
def test_one_writer(stand: Stand) -> None:
    memory = stand.manager()
    stand.say(memory, "first")
    stand.deliver(memory)
    memory.prefetch_all(sentence("first"), session_id="session-1")
    before = len(threads())
    most = 0
    # Each is delivered before the next: together they might be one call.
    for word in WORDS[:8]:
        stand.say(memory, word)
        memory.queue_prefetch_all(sentence(word), session_id="session-1")
        stand.all_delivered(memory)
        most = max(most, len(threads()))
    stand.deliver(memory)
    assert most <= before + 2, f"{most - before} more threads after {len(WORDS[:8])} turns"


@check("closed", "After shutdown it takes nothing; a second one is harmless; no thread is left")
def test_closed(stand: Stand) -> None:
    before = threads()
    provider = stand.case.make()
    memory = stand.manager(provider)
    stand.say(memory, "lastorders")
    stand.deliver(memory)
    memory.shutdown_all()
    stand.until(
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
    again = stand.manager()
    stand.arrived(again, "lastorders")
    assert stand.copies(again, "toolate") == 0, "a turn handed over after shutdown was sent"


@check("mid-write", "A shutdown in mid-write is bounded; what was not written is delivered later")
def test_mid_write(stand: Stand) -> None:
    memory = stand.manager(drain=0.2)
    for word in WORDS:
        stand.say(memory, word)
    began = stand.clock.monotonic()
    memory.shutdown_all()
    took = stand.clock.monotonic() - began
    assert took < PROVIDER_BUDGET, f"shutdown took {took:.1f} s"
    again = stand.manager()
    stand.all_delivered(again)
    stand.deliver(again, "session-1")
    stand.once(again, *WORDS)


@check("wedged", "With a backend that never answers, turns go on without recall, and it ends")
def test_wedged(stand: Stand) -> None:
    provider = stand.case.make()
    memory = stand.manager(provider, drain=1.0, recall=0.5)
    stand.say(memory, "solidground")
    stand.deliver(memory)
    stand.set_health("wedged")
    began = stand.clock.monotonic()
    stand.say(memory, "quicksand")
    memory.prefetch_all(sentence("solidground"), session_id="session-2")
    assert stand.clock.monotonic() - began < PROVIDER_BUDGET / 2, "a turn waited for the wedged backend"
    began = stand.clock.monotonic()
    memory.shutdown_all()
    assert stand.clock.monotonic() - began < PROVIDER_BUDGET / 2, "shutdown waited for the wedged backend"
    ending = threading.Thread(target=provider.shutdown, daemon=True)
    ending.start()
    ending.join(PROVIDER_BUDGET + 2)
    assert not ending.is_alive(), f"the provider's shutdown did not end in {PROVIDER_BUDGET:g} s"
    stand.set_health("well")
    again = stand.manager()
    stand.all_delivered(again)
    stand.deliver(again)
    stand.arrived(again, "quicksand")


@check("crash", "Killed with SIGKILL at any moment, it loses no turn and doubles none")
def test_crash(stand: Stand) -> None:
    chance = random.Random(4)  # noqa: S311 - a schedule, no secret
    words = [f"stronghold{number:02}" for number in range(9)]
    first = stand.child("die_unacknowledged", "unheardof")
    said, complaints = first.communicate(timeout=stand.patience)
    assert "taken" in said, f"the first child did not deliver: {complaints[-500:]}"
    for start in range(0, len(words), 3):
        child = stand.child("be_killed", ",".join(words[start : start + 3]))
        assert child.stdout is not None
        for _ in range(3):
            said = child.stdout.readline()
            assert said, f"a child ended early: {child.communicate()[1][-500:]}"
        stand.clock.wait(threading.Event(), chance.uniform(0.0, 0.3))
        child.send_signal(signal.SIGKILL)
        child.communicate()
    last = stand.child("drain", NO_LEASE + stand.patience)
    said, complaints = last.communicate(timeout=NO_LEASE + 2 * stand.patience)
    assert said.strip() == "drained", f"after the restart: {said.strip()} {complaints[-500:]}"
    memory = stand.manager()
    for session in ("session-0", "session-1"):
        stand.deliver(memory, session)
    stand.once(memory, "unheardof", *words)


@check("exit", "A program that ends at any moment ends soon and without complaints")
def test_exit(stand: Stand) -> None:
    words = []
    chance = random.Random()  # noqa: S311 - a schedule, no secret; another one in each run
    for number, ending in enumerate(("sys.exit", "end of main", "ctrl-c", "shutdown", "sys.exit")):
        fresh = [f"cottage{number}{letter}" for letter in "abcd"]
        words += fresh
        delay = chance.uniform(0.0, 2.0) if number else 0.0
        child = stand.child("leave", ",".join(fresh), ending, delay)
        _, complaints = child.communicate(timeout=stand.patience)
        assert child.returncode in (0, 130), f"{ending}: exit code {child.returncode}: {complaints[-500:]}"
        found = [line for line in complaints.splitlines() if any(each in line for each in COMPLAINTS)]
        last = complaints.strip().rpartition("\n")[2]
        assert not found, f"{ending} after {delay:.3f} s: {found[0].strip()} … {last}"
    memory = stand.manager()
    stand.all_delivered(memory)
    for session in ("session-0", "session-1"):
        stand.deliver(memory, session)
    stand.once(memory, *words)
