"""Another process that uses a memory: `python -m tests.providers.local.child_process SCENE FILE ...`."""

import sys
from collections.abc import Callable

from holdfast.core.clock import SystemClock
from holdfast.providers.local import LocalMemory
from tests.providers.local.completed_turns import turn


def opened(path: str) -> LocalMemory:
    return LocalMemory(path, clock=SystemClock(), embedder=None)


def say(what: object) -> None:
    sys.stdout.write(f"{what}\n")
    sys.stdout.flush()


def write(path: str, session: str, count: str) -> None:
    """Hand over turns one by one, some of them twice, and say each that is kept."""
    memory = opened(path)
    for number in range(int(count)):
        kept = turn(number, f"{session} said word{number}", f"answer {number}", session=session)
        memory.sync_turns([kept])
        if number % 3 == 0:
            memory.sync_turns([kept])
        say(number)
    memory.shutdown()


def write_for_ever(path: str, first: str) -> None:
    """Hand over batches of ten until killed."""
    memory = opened(path)
    number = int(first)
    while True:
        memory.sync_turns([turn(each, f"batch word{each}", "yes") for each in range(number, number + 10)])
        number += 10
        say(number)


def forget(path: str, query: str) -> None:
    memory = opened(path)
    say(memory.forget(memory.search(query)[0].id))
    memory.shutdown()


SCENES: dict[str, Callable[..., None]] = {"write": write, "write_for_ever": write_for_ever, "forget": forget}

if __name__ == "__main__":
    SCENES[sys.argv[1]](*sys.argv[2:])
