"""A library user's process that talks to a memory server and ends at some moment, in one of several ways.

Arguments: the provider, the server's address, the folder, the ending, and after how many seconds it comes.
It says "handed over" once every turn is.
"""

import signal
import sys
import threading
from pathlib import Path

from holdfast.memory import MemoryManager
from holdfast.process import StopSignals
from holdfast.process.signals import exit_code_for
from holdfast.sessions import SessionDB
from tests.memory.servers.backends import BACKENDS

TURNS = 12


def main() -> None:
    name, url, folder, ending, seconds = sys.argv[1:]
    # A test run started in the background ignores these, and a child inherits that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    backend = BACKENDS[name]()
    backend.texts["url"] = url
    memory = MemoryManager(SessionDB(Path(folder) / "holdfast.db"))
    memory.add_provider(backend.make(Path(folder)), config=backend.config())
    memory.queue_prefetch_all("turn", session_id="s1")
    for number in range(TURNS):
        memory.sync_all(f"turn {number}", f"You said: turn {number}", session_id="s1")
    sys.stdout.write("handed over\n")
    sys.stdout.flush()
    if ending == "handled signal":
        with StopSignals() as stop:
            stop.requested.wait()
            memory.shutdown_all()
            sys.exit(exit_code_for(stop.received or 0))
    threading.Event().wait(float(seconds))
    if ending == "sys.exit":
        sys.exit(0)
    if ending == "error":
        raise RuntimeError("the user's own")
    if ending == "signal":
        threading.Event().wait()


if __name__ == "__main__":
    main()
