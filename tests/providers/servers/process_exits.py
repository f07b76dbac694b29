"""Processes that exit while they use a memory server, and what the next process delivers."""

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from holdfast.memory import MemoryManager
from holdfast.memory.write_lane import CLAIM_SECONDS
from holdfast.sessions import SessionDB
from holdfast.testing import FakeClock
from tests.providers.servers.exit_worker import TURNS
from tests.providers.servers.memory_servers import Backend

ENDINGS = ("plain", "sys.exit", "error", "handled signal", "signal", "terminate", "kill")
EXIT_SECONDS = 20.0
SAID = [f"turn {number}" for number in range(TURNS)]
# What a client that was not closed, or was used too late, leaves on standard error.
NOISE = (
    "cannot schedule",
    "Unclosed",
    "ResourceWarning",
    "never awaited",
    "was destroyed",
    "Event loop is closed",
    "Fatal Python error",
    "Exception ignored",
)
SIGNALS = {
    "handled signal": signal.SIGINT,
    "signal": signal.SIGINT,
    "terminate": signal.SIGTERM,
    "kill": signal.SIGKILL,
}


def noise(err: str) -> list[str]:
    """What a process complained about that it should not have."""
    return [word for word in NOISE if word in err]


def ended(backend: Backend, folder: Path, ending: str, wait: float | Callable[[], object]) -> str:
    """Let a process end some time after it handed its turns over; returns its standard error.

    A signal may instead come when `wait`, a function, returns.
    """
    seconds = wait if isinstance(wait, float) else 0.0
    kind = "signal" if ending in ("terminate", "kill") else ending
    where = [backend.server.url, backend.bank, backend.key, backend.session]
    arguments = [backend.name, str(folder), kind, str(seconds), *where]
    with subprocess.Popen(
        [sys.executable, "-X", "dev", "-m", "tests.providers.servers.exit_worker", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == "handed over\n", child.communicate()[1]
            if ending in SIGNALS:
                threading.Event().wait(seconds) if isinstance(wait, float) else wait()
                child.send_signal(SIGNALS[ending])
            began = time.monotonic()
            err = child.communicate(timeout=60)[1]
            assert time.monotonic() - began < EXIT_SECONDS
            return err
        finally:
            child.kill()


def deliver_the_rest(backend: Backend, folder: Path) -> None:
    """The next start, once the claims of a process that was killed have run out."""
    clock = FakeClock(time.time() + CLAIM_SECONDS + 1)
    with SessionDB(folder / "holdfast.db", clock=clock) as db:
        memory = MemoryManager(db, clock=clock)
        memory.add_provider(backend.make(folder), config=backend.config())
        assert memory.flush_pending(120)
        assert memory.shutdown_all() == []
