"""One life of a process that hands turns over to three providers, until somebody kills it.

Arguments: the store's path, the folder of the providers' files, the number of the first turn, how many
turns, and "drain" to deliver everything and leave. Each turn is acknowledged on stdout once `sync_all` has
returned. Every provider appends a line for each turn it takes.
"""

import os
import random
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from holdfast.memory import CompletedTurn, MemoryManager
from holdfast.memory.retry import RetryPolicy
from holdfast.sessions import SessionDB
from holdfast.testing.providers import RecordingProvider

SESSIONS = 7
QUICK = RetryPolicy(initial_delay_seconds=0.002, max_delay_seconds=0.02, max_attempts=10_000)


class FilingProvider(RecordingProvider):
    """Writes what it gets to a file, after a pause, and fails as often as it is told."""

    def __init__(self, name: str, folder: Path, *, pause: float = 0.0, failing: float = 0.0) -> None:
        super().__init__(name)
        self._file = os.open(folder / name, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
        self._pause = pause
        self._failing = failing
        self._never = threading.Event()

    def sync_turns(self, turns: Sequence[CompletedTurn]) -> None:
        self._never.wait(self._pause)
        if random.random() < self._failing:
            raise ConnectionError("as it was told")
        lines = "".join(f"{turn.key} {turn.session_id} {turn.user_content}\n" for turn in turns)
        os.write(self._file, lines.encode())
        if random.random() < self._failing / 2:
            raise ConnectionError("stored, and the answer lost")


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    path, folder, first, count, ending = sys.argv[1:]
    memory = MemoryManager(SessionDB(path), policy=QUICK)
    for provider in (
        FilingProvider("fast", Path(folder)),
        FilingProvider("slow", Path(folder), pause=0.02),
        FilingProvider("failing", Path(folder), failing=0.5),
    ):
        memory.add_provider(provider)
    for number in range(int(first), int(first) + int(count)):
        memory.sync_all(str(number), "ok", session_id=f"s{number % SESSIONS}")
        say(str(number))
    if ending == "drain":
        say("drained" if memory.flush_pending(120) else "not drained")
        memory.shutdown_all()
    else:
        threading.Event().wait()


if __name__ == "__main__":
    main()
