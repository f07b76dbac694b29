"""A process that the contract suite may kill: `… -m holdfast.testing.provider_child SCENE FACTS …`.

It gives turns to the provider, prints "handed N" for each one, and then ends in the way that the scene says.
"""

import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from holdfast.memory.manager import MemoryManager
from holdfast.sessions import SessionDB
from holdfast.testing.provider_case import load_case, resolved
from holdfast.testing.provider_harness import QUICK, InterceptedProvider, sentence


def opened(
    facts: dict[str, Any], drain: float = 10.0, after: Callable[[], object] = lambda: None
) -> MemoryManager:
    """A manager with the provider on its lanes."""
    case = load_case(facts["spec"], facts["values"])(Path(facts["backend"]))
    provider = case.make()
    memory = MemoryManager(SessionDB(facts["store"]), policy=QUICK, drain_seconds=drain)
    memory.add_provider(
        InterceptedProvider(provider, after=after),  # type: ignore[arg-type]
        config=resolved(provider, facts["values"]),
    )
    return memory


def hand_over(memory: MemoryManager, words: str) -> None:
    for number, word in enumerate(words.split(",")):
        memory.sync_all(sentence(word), "Noted.", session_id=f"session-{number % 2}")
        memory.queue_prefetch_all(sentence(word), session_id=f"session-{number % 2}")
        say(f"handed {word}")


def die_unacknowledged(facts: dict[str, Any], words: str) -> None:
    """Die when the provider has received the first turn, before this is recorded."""

    def die() -> None:
        say(f"taken {words}")
        os.kill(os.getpid(), signal.SIGKILL)

    hand_over(opened(facts, after=die), words)
    threading.Event().wait()


def be_killed(facts: dict[str, Any], words: str) -> None:
    """Give turns to the provider and wait until somebody kills this process."""
    hand_over(opened(facts), words)
    threading.Event().wait()


def leave(facts: dict[str, Any], words: str, ending: str, delay: str) -> None:
    """Give turns to the provider and end after a moment, in one of the ways in which a program ends."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    memory = opened(facts, drain=2.0)
    hand_over(memory, words)
    threading.Event().wait(float(delay))
    match ending:
        case "sys.exit":
            sys.exit(0)
        case "shutdown":
            memory.shutdown_all()
        case "ctrl-c":
            signal.raise_signal(signal.SIGINT)


def drain(facts: dict[str, Any], seconds: str) -> None:
    """Deliver everything that is owed."""
    memory = opened(facts)
    memory.wake()
    done = memory.flush_pending(float(seconds))
    [status] = memory.status()
    memory.shutdown_all()
    say("drained" if done and not status.owed else f"{status.owed} owed: {status.last_error}")


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


SCENES: dict[str, Callable[..., None]] = {
    "die_unacknowledged": die_unacknowledged,
    "be_killed": be_killed,
    "leave": leave,
    "drain": drain,
}

if __name__ == "__main__":
    try:
        SCENES[sys.argv[1]](json.loads(sys.argv[2]), *sys.argv[3:])
    except KeyboardInterrupt:
        sys.exit(130)
