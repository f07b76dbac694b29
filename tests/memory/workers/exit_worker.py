"""A library user's process that hands turns over and then ends, in one of the ways a process can end.

Arguments: the store's path, the provider's file, "quick" or "wedged" for the provider, and the ending.
It says "handed over" once every turn is, and for an ending by signal it then waits.
"""

import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from holdfast.memory import CompletedTurn, MemoryManager
from holdfast.process import StopSignals
from holdfast.process.signals import exit_code_for
from holdfast.sessions import SessionDB
from holdfast.testing.providers import RecordingProvider

TURNS = 20


class FilingProvider(RecordingProvider):
    """Writes what it gets to a file, or never comes back."""

    def __init__(self, file: Path, *, wedged: bool) -> None:
        super().__init__("filing")
        self._file = file
        self._wedged = wedged

    def sync_turns(self, turns: Sequence[CompletedTurn]) -> None:
        if self._wedged:
            threading.Event().wait()
        with self._file.open("a") as out:
            out.writelines(turn.user_content + "\n" for turn in turns)


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    path, file, kind, ending = sys.argv[1:]
    # A test run started in the background ignores these, and a child inherits that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for each in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, signal.SIG_DFL)
    memory = MemoryManager(SessionDB(path))
    memory.add_provider(FilingProvider(Path(file), wedged=kind == "wedged"))
    for number in range(TURNS):
        memory.sync_all(str(number), "ok", session_id="s")
    if ending == "handled signal":
        with StopSignals() as stop:
            say("handed over")
            stop.requested.wait()
            for line in memory.shutdown_all():
                say(line)
            sys.exit(exit_code_for(stop.received or 0))
    say("handed over")
    match ending:
        case "os._exit":
            os._exit(0)
        case "sys.exit":
            sys.exit(0)
        case "error":
            raise RuntimeError("the user's own")
        case "signal":
            threading.Event().wait()


if __name__ == "__main__":
    main()
