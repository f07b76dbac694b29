"""SIGINT, SIGTERM and SIGHUP sent to real processes."""

import signal
import threading

import pytest

from holdfast.process import StopSignals, exit_code_for
from tests.process.child_process import StartChild

PRELUDE = """
import asyncio, os, signal, sys, threading
from holdfast.core.clock import SystemClock
from holdfast.process import ShutdownBudget, StopSignals, exit_code_for
"""

# A program with a clean-up that would take for ever if its budget let it.
WITHOUT_A_LOOP = (
    PRELUDE
    + """
budget = None
def hurry(signum):
    budget.expire()
with StopSignals(on_skip=hurry) as stop:
    print("ready", flush=True)
    stop.requested.wait()
    budget = ShutdownBudget(1000, SystemClock())
    print("stopping", stop.received.name, stop.skip_requested.is_set(), flush=True)
    budget.wait(threading.Event())
    print("skipped", stop.skip_requested.is_set(), flush=True)
    sys.exit(exit_code_for(stop.received))
"""
)

WITH_A_LOOP = (
    PRELUDE
    + """
async def main():
    loop = asyncio.get_running_loop()
    stop, hurry = asyncio.Event(), asyncio.Event()
    with StopSignals(
        on_stop=lambda _: loop.call_soon_threadsafe(stop.set),
        on_skip=lambda _: loop.call_soon_threadsafe(hurry.set),
    ) as signals:
        print("ready", flush=True)
        await stop.wait()
        print("stopping", signals.received.name, signals.skip_requested.is_set(), flush=True)
        await hurry.wait()
        print("skipped", signals.skip_requested.is_set(), flush=True)
        return exit_code_for(signals.received)
sys.exit(asyncio.run(main()))
"""
)

WEDGED = (
    PRELUDE
    + """
with StopSignals(on_stop=lambda _: print("stopping", flush=True),
                 on_skip=lambda _: print("hurrying", flush=True)):
    print("ready", flush=True)
    threading.Event().wait()
"""
)

# The main thread is blocked in C, where it runs no Python handler.
WEDGED_IN_C = WEDGED.replace(
    "threading.Event().wait()",
    """
    import ctypes
    libc, mutex = ctypes.CDLL(None), ctypes.create_string_buffer(64)
    while libc.pthread_mutex_lock(mutex) == 0:
        pass
""",
)

# asyncio has taken the wakeup descriptor for a signal of its own.
WEDGED_LOOP = (
    PRELUDE
    + """
async def main(when):
    loop = asyncio.get_running_loop()
    if when == "before":
        loop.add_signal_handler(signal.SIGWINCH, int)
    with StopSignals(on_stop=lambda _: print("stopping", flush=True),
                     on_skip=lambda _: print("hurrying", flush=True)):
        if when == "after":
            loop.add_signal_handler(signal.SIGWINCH, int)
        print("ready", flush=True)
        await asyncio.Event().wait()
"""
)


@pytest.mark.clause("X4")
@pytest.mark.parametrize("script", [WITHOUT_A_LOOP, WITH_A_LOOP], ids=["no loop", "loop"])
@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_each_stop_signal_asks_for_the_same_stop_and_ctrl_c_skips_what_is_left(
    start_child: StartChild, script: str, signum: signal.Signals
) -> None:
    child = start_child(script)
    assert child.line() == "ready"
    child.send(signum)
    assert child.line() == f"stopping {signum.name} False"
    child.send(signal.SIGINT)
    assert child.line() == "skipped True"
    assert child.end() == (128 + signum, "", "")


@pytest.mark.clause("X4")
@pytest.mark.parametrize(
    "script",
    [
        WEDGED,
        WEDGED_IN_C,
        WEDGED_LOOP + "asyncio.run(main('before'))",
        WEDGED_LOOP + "asyncio.run(main('after'))",
    ],
    ids=["in Python", "in C", "loop before", "loop after"],
)
def test_a_third_ctrl_c_ends_a_wedged_process_at_once(start_child: StartChild, script: str) -> None:
    child = start_child(script)
    assert child.line() == "ready"
    child.send(signal.SIGINT)
    assert child.line() == "stopping"
    child.send(signal.SIGINT)
    assert child.line() == "hurrying"
    child.send(signal.SIGINT)
    code, out, err = child.end()
    assert (code, out) == (130, "")
    assert "owed" in err


@pytest.mark.clause("X4")
def test_a_session_manager_that_sends_several_signals_means_one_stop(
    start_child: StartChild,
) -> None:
    child = start_child(WEDGED)
    assert child.line() == "ready"
    child.send(signal.SIGHUP)
    assert child.line() == "stopping"
    for _ in range(3):
        child.send(signal.SIGTERM)
        child.send(signal.SIGHUP)
    child.send(signal.SIGINT)
    assert child.line() == "hurrying"


@pytest.mark.clause("X4")
def test_a_callback_that_fails_does_not_make_the_process_deaf(start_child: StartChild) -> None:
    child = start_child(
        PRELUDE
        + """
def fail(signum):
    print("failing", flush=True)
    raise ZeroDivisionError
with StopSignals(on_stop=fail) as stop:
    print("ready", flush=True)
    stop.skip_requested.wait()
"""
    )
    assert child.line() == "ready"
    child.send(signal.SIGTERM)
    assert child.line() == "failing"
    child.send(signal.SIGINT)
    code, _, err = child.end()
    assert code == 0
    assert "signals.callback_failed" in err
    assert "ZeroDivisionError" in err


@pytest.mark.clause("X4")
def test_a_storm_of_signals_in_the_middle_of_waiting_never_deadlocks(
    start_child: StartChild,
) -> None:
    child = start_child(
        PRELUDE
        + """
for _ in range(300):
    with StopSignals() as stop:
        timer = threading.Timer(0.0005, os.kill, (os.getpid(), signal.SIGTERM))
        timer.start()
        while not stop.requested.wait(0.00001):
            pass
        timer.join()
print("done")
"""
    )
    assert child.end() == (0, "done\n", "")


@pytest.mark.clause("X4")
def test_what_was_ignored_at_the_start_stays_ignored(start_child: StartChild) -> None:
    child = start_child(
        PRELUDE
        + """
signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
with StopSignals(on_stop=lambda signum: print(signum.name, flush=True)) as stop:
    print("ready", flush=True)
    stop.requested.wait()
print(signal.getsignal(signal.SIGHUP) == signal.SIG_IGN)
"""
    )
    assert child.line() == "ready"
    child.send(signal.SIGHUP)
    child.send(signal.SIGTERM)
    assert child.end() == (0, "SIGTERM\nTrue\n", "")


def test_the_handlers_of_before_come_back(start_child: StartChild) -> None:
    child = start_child(
        PRELUDE
        + """
signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
signal.signal(signal.SIGTERM, lambda *_: None)
before = [signal.getsignal(each) for each in signals]
descriptors = len(os.listdir("/dev/fd"))
stop = StopSignals()
stop.restore()
stop.install()
stop.install()
print(before == [signal.getsignal(each) for each in signals])
stop.restore()
stop.restore()
print(before == [signal.getsignal(each) for each in signals], threading.active_count())
print(signal.set_wakeup_fd(-1), len(os.listdir("/dev/fd")) == descriptors)
"""
    )
    assert child.end() == (0, "False\nTrue 1\n-1 True\n", "")


def test_a_forked_child_can_still_be_terminated(start_child: StartChild) -> None:
    child = start_child(
        PRELUDE
        + """
with StopSignals() as stop:
    ready, say = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(say, b"ready")  # a signal before this point may be dropped by the fork itself
        while True:
            threading.Event().wait(0.01)
    os.read(ready, 5)
    os.kill(pid, signal.SIGTERM)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), stop.requested.is_set())
"""
    )
    assert child.end() == (0, "-15 False\n", "")


def test_signals_can_only_be_taken_over_in_the_main_thread() -> None:
    refusals: list[str] = []

    def install() -> None:
        try:
            StopSignals().install()
        except RuntimeError as refusal:
            refusals.append(str(refusal))

    thread = threading.Thread(target=install)
    thread.start()
    thread.join()
    assert refusals == ["signal handlers can only be installed in the main thread"]


def test_exit_codes_follow_the_shells_convention() -> None:
    assert [exit_code_for(each) for each in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)] == [
        129,
        130,
        143,
    ]
