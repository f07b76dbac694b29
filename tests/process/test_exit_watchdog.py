"""A process whose clean-up is stuck is ended, and says what was stuck."""

import math
import queue
import signal
import threading
from pathlib import Path

import pytest

from holdfast.process import EXIT_STUCK, ExitWatchdog
from holdfast.testing.clock import FakeClock
from tests.process.child_process import StartChild

# Each child prints "armed" and is then stuck in its own way.
PRELUDE = """
import atexit, ctypes, faulthandler, os, signal, sys, threading
from holdfast.core.clock import SystemClock
from holdfast.process import ExitWatchdog
def wedge():
    print("armed", flush=True)
    threading.Event().wait()
dog = ExitWatchdog(0.5, clock=SystemClock())
"""


def stuck_child(start_child: StartChild, script: str) -> tuple[int, str]:
    child = start_child(PRELUDE + script)
    assert child.line() == "armed"
    code, _, err = child.end()
    return code, err


@pytest.mark.clause("X2")
def test_a_wedged_atexit_handler_is_ended_and_shown(start_child: StartChild) -> None:
    code, err = stuck_child(start_child, "dog.arm()\natexit.register(wedge)")
    assert code == EXIT_STUCK == 86
    first, *rest = err.splitlines()
    assert first.startswith("holdfast: clean-up did not end within 0.5 s; stuck: MainThread at ")
    assert "Thread MainThread (most recent call first):" in rest
    assert 'File "<string>", line 7, in wedge' in err
    assert "exit-watchdog" not in err


@pytest.mark.clause("X2")
def test_a_thread_that_the_interpreter_joins_is_ended_and_shown(start_child: StartChild) -> None:
    code, err = stuck_child(
        start_child,
        """
def wait():
    threading.Event().wait()
for target in (wait, wedge):
    threading.Thread(target=target, name="uploader").start()
dog.arm()
""",
    )
    assert code == EXIT_STUCK
    assert "uploader at File" in err.splitlines()[0]
    assert err.count("Thread uploader (most recent call first):") == 2
    assert "in wedge" in err


@pytest.mark.clause("X2")
def test_the_line_names_what_the_caller_says_it_waits_for(start_child: StartChild) -> None:
    code, err = stuck_child(start_child, 'dog.arm()\ndog.arm(lambda: "memory lanes,\\nstore")\nwedge()')
    assert code == EXIT_STUCK
    assert err.splitlines()[0].endswith("stuck: memory lanes, store")


@pytest.mark.clause("X2")
def test_a_namer_that_fails_keeps_nobody_from_the_exit(start_child: StartChild) -> None:
    code, err = stuck_child(start_child, "dog.arm(lambda: 1 / 0)\nwedge()")
    assert code == EXIT_STUCK
    assert "ZeroDivisionError" in err.splitlines()[0]
    assert "in wedge" in err


@pytest.mark.clause("X2")
@pytest.mark.slow
def test_code_that_holds_the_gil_for_ever_is_shown_and_ended_by_the_kernel(
    start_child: StartChild,
) -> None:
    code, err = stuck_child(
        start_child,
        """
def hold_the_gil():
    print("armed", flush=True)
    ctypes.PyDLL(None).pause()
dog.arm()
hold_the_gil()
""",
    )
    assert code == -signal.SIGALRM
    assert "in hold_the_gil" in err


@pytest.mark.clause("X2")
@pytest.mark.slow
def test_a_finaliser_that_never_returns_is_ended_by_the_kernel(start_child: StartChild) -> None:
    code, err = stuck_child(
        start_child,
        """
class Client:
    def __del__(self, write=os.write, pause=signal.pause):
        write(1, b"armed\\n")
        pause()
client = Client()
dog.arm()
""",
    )
    assert code == -signal.SIGALRM
    assert "in __del__" in err


@pytest.mark.clause("X2")
@pytest.mark.slow
def test_a_namer_that_never_returns_is_ended_by_the_kernel(start_child: StartChild) -> None:
    code, err = stuck_child(start_child, "dog.arm(lambda: threading.Event().wait())\nwedge()")
    assert code == -signal.SIGALRM
    assert "in wedge" in err


@pytest.mark.clause("X2")
@pytest.mark.parametrize(
    "taken",
    [
        "signal.signal(signal.SIGALRM, signal.SIG_IGN)",
        "signal.signal(signal.SIGALRM, lambda *_: None)",
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])",
        "signal.setitimer(signal.ITIMER_REAL, 1000)",
    ],
)
@pytest.mark.slow
def test_where_the_alarm_belongs_to_another_the_process_ends_all_the_same(
    start_child: StartChild, taken: str
) -> None:
    code, err = stuck_child(
        start_child,
        f"""
{taken}
dog.arm()
def hold_the_gil():
    print("armed", flush=True)
    libc = ctypes.PyDLL(None)
    while True:
        libc.pause()
hold_the_gil()
""",
    )
    assert code == 1
    assert "in hold_the_gil" in err


@pytest.mark.clause("X2")
def test_arming_while_the_interpreter_already_exits_still_ends_the_process(
    start_child: StartChild,
) -> None:
    code, err = stuck_child(start_child, "atexit.register(wedge)\natexit.register(dog.arm)")
    # Python 3.12 starts no threads at this point, which leaves the kernel.
    assert code in {EXIT_STUCK, -signal.SIGALRM}
    assert "in wedge" in err


@pytest.mark.clause("X2")
def test_a_full_pipe_on_stderr_does_not_keep_the_process(start_child: StartChild) -> None:
    child = start_child(
        PRELUDE
        + """
os.set_blocking(2, False)
try:
    while True:
        os.write(2, b"x" * 4096)
except BlockingIOError:
    os.set_blocking(2, True)
dog.arm()
wedge()
"""
    )
    assert child.line() == "armed"
    assert child.wait() == EXIT_STUCK


@pytest.mark.clause("X2")
def test_without_a_stderr_nothing_is_written_to_the_file_that_has_its_number(
    start_child: StartChild, tmp_path: Path
) -> None:
    precious = tmp_path / "precious"
    script = f"""
precious = open({str(precious)!r}, "w")
assert precious.fileno() == 2
dog.arm()
wedge()
"""
    child = start_child(f"""
        import os, sys
        os.close(2)
        os.execv(sys.executable, [sys.executable, "-c", {PRELUDE + script!r}])
    """)
    assert child.line() == "armed"
    assert child.wait() == EXIT_STUCK
    assert precious.read_text() == ""


@pytest.mark.clause("X2")
def test_a_clean_up_that_ends_in_time_leaves_nothing_behind(start_child: StartChild) -> None:
    child = start_child(
        PRELUDE
        + """
dog = ExitWatchdog(1000, clock=SystemClock())
dog.arm()
watch, = [each for each in threading.enumerate() if each.name == "exit-watchdog"]
print(signal.getitimer(signal.ITIMER_REAL)[0] > 1000)
dog.disarm()
dog.disarm()
watch.join(20)
print(signal.getitimer(signal.ITIMER_REAL)[0], threading.active_count())
"""
    )
    assert child.end() == (0, "True\n0.0 1\n", "")


def test_a_timer_of_somebody_else_is_left_alone(start_child: StartChild) -> None:
    child = start_child(
        PRELUDE
        + """
signal.setitimer(signal.ITIMER_REAL, 1000)
dog.arm()
dog.disarm()
print(signal.getitimer(signal.ITIMER_REAL)[0] > 900)
"""
    )
    assert child.end() == (0, "True\n", "")


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def codes() -> "queue.Queue[int]":
    return queue.Queue()


@pytest.mark.clause("X2")
def test_arming_again_does_not_give_more_time(clock: FakeClock, codes: "queue.Queue[int]") -> None:
    dog = ExitWatchdog(30.0, clock=clock, exit_process=codes.put)
    dog.arm()
    assert clock.wait_for_waiters()
    clock.advance(20.0)
    dog.arm()
    assert codes.empty()
    clock.advance(10.0)
    assert codes.get(timeout=20) == EXIT_STUCK
    dog.disarm()


@pytest.mark.clause("X2")
def test_a_disarmed_watchdog_lets_go_and_can_be_armed_anew(
    clock: FakeClock, codes: "queue.Queue[int]"
) -> None:
    def watch() -> threading.Thread:
        return next(each for each in threading.enumerate() if each.name == "exit-watchdog")

    dog = ExitWatchdog(30.0, clock=clock, exit_process=codes.put)
    dog.arm()
    first = watch()
    dog.disarm()
    first.join(20)
    clock.advance(40.0)
    assert codes.empty()
    dog.arm()
    assert clock.wait_for_waiters()
    clock.advance(30.0)
    assert codes.get(timeout=20) == EXIT_STUCK
    dog.disarm()


@pytest.mark.parametrize("seconds", [0, -1, math.inf, math.nan])
def test_a_watchdog_without_a_sensible_time_is_refused(clock: FakeClock, seconds: float) -> None:
    with pytest.raises(ValueError, match=f"not {seconds}"):
        ExitWatchdog(seconds, clock=clock)
