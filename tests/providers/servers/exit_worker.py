"""A library user's process that talks to a memory server and ends at some moment, in one of several ways.

Arguments: the provider, the folder, the ending, after how many seconds it comes, and then the server's
address, the bank, the key and the session. It says "handed over" once every turn is.
"""

import signal
import sys
import threading
from pathlib import Path

from holdfast.memory import MemoryManager
from holdfast.process import StopSignals
from holdfast.process.signals import exit_code_for
from holdfast.sessions import SessionDB
from tests.providers.servers.memory_servers import MAKERS, config

TURNS = 12


def main() -> None:
    name, folder, ending, seconds, url, bank, key, session = sys.argv[1:]
    # A test run started in the background ignores these, and a child inherits that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    memory = MemoryManager(SessionDB(Path(folder) / "holdfast.db"))
    memory.add_provider(MAKERS[name](Path(folder)), config=config(url, bank, key))
    memory.queue_prefetch_all("turn", session_id=session)
    for number in range(TURNS):
        memory.sync_all(f"turn {number}", f"You said: turn {number}", session_id=session)
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
