"""Put Synapse, a real Matrix server, into the checkout when a test needs it: `python -m tools.synapse`.

It takes about a minute and 240 MB. Synapse pins old libraries and has a licence of its own (AGPL), so it
stands in an environment of its own beside the memory servers (see backends.py), and is spoken to over HTTP.
"""

import fcntl
import sys
from pathlib import Path

from tools.backends import home, install, program
from tools.bootstrap import CannotBootstrap

NAME = "synapse"


def ensure_synapse() -> Path:
    """The server's program; it is installed first if it is missing, once for all test workers."""
    home(NAME).parent.mkdir(parents=True, exist_ok=True)
    with home(NAME).with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        install(NAME)
    found = program(NAME)
    if found is None:
        raise CannotBootstrap(f"{home(NAME)} has no Synapse.")
    return found


def main() -> int:
    try:
        print(ensure_synapse())
    except CannotBootstrap as cause:
        print(cause, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
