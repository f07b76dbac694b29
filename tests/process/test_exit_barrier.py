"""An exit waits for a library that is being loaded on a daemon thread, and not for ever."""

import subprocess
import sys

SCRIPT = """
import sys, threading
from holdfast.process.exit_barrier import ExitBarrier

begun, go_on = threading.Event(), threading.Event()
unbroken = ExitBarrier({seconds})

def load():
    with unbroken.hold_exit():
        begun.set()
        go_on.wait({work})
        print("loaded", flush=True)

threading.Thread(target=load, daemon=True).start()
begun.wait()
{then}
sys.exit(0)
"""


def ended(seconds: float, work: float, then: str = "") -> str:
    script = SCRIPT.format(seconds=seconds, work=work, then=then)
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.strip()


def test_the_exit_waits_until_it_is_loaded() -> None:
    assert ended(seconds=30, work=0.3) == "loaded"


def test_the_exit_does_not_wait_for_ever() -> None:
    assert ended(seconds=0.1, work=1000) == ""


def test_once_closed_nothing_is_waited_for() -> None:
    assert ended(seconds=30, work=1000, then="unbroken.close()") == ""
