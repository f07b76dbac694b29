"""An exit waits for a library that is being loaded on a daemon thread, and not for ever."""

import subprocess
import sys

SCRIPT = """
import sys, threading
from holdfast.process.unbroken import unbroken

begun, go_on = threading.Event(), threading.Event()

def load():
    with unbroken({seconds}):
        begun.set()
        go_on.wait({work})
        print("loaded", flush=True)

threading.Thread(target=load, daemon=True).start()
begun.wait()
sys.exit(0)
"""


def ended(seconds: float, work: float) -> str:
    script = SCRIPT.format(seconds=seconds, work=work)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout.strip()


def test_the_exit_waits_until_it_is_loaded() -> None:
    assert ended(seconds=30, work=0.3) == "loaded"


def test_the_exit_does_not_wait_for_ever() -> None:
    assert ended(seconds=0.1, work=1000) == ""
